"""Replies as no judge should write them: torn, mended, mixed with those of other families, or
nothing but noise.
"""

import random
import re
from collections.abc import Callable, Iterator

from hostile_texts import TEXTS
from judge_families import WORDING, Family
from quoting_judges import QUOTATIONS

_PROSE = WORDING["torn"]["prose"]
_TORN = WORDING["torn"]["pieces"]
_SHORT_TEXTS = [text for text in TEXTS if len(text) < 400]
_QUOTES = list(QUOTATIONS.values())


class Mutator:
    """Makes replies for one family; the same seed makes the same ones."""

    def __init__(self, family: Family, others: list[Family], seed: str) -> None:
        """Take in the families' own words."""
        self._rng = random.Random(seed)
        self._family = family
        self._words = list(family.says)
        self._foreign = [words for other in others for words in other.says]
        self._pieces = [
            piece for words in self._words for piece in re.findall(r"\w+|\s+|[^\w\s]+", words)
        ]
        self._ways: dict[str, Callable[[], str]] = {
            "edited": self._edited,
            "cut off": self._cut,
            "of two families": self._spliced,
            "of pieces": self._assembled,
            "quoting": self._quoting,
            "noise": self._noise,
        }

    def iter_replies(self, count: int) -> Iterator[tuple[str, str]]:
        """Yield so many replies, each with the way it was made."""
        names = list(self._ways)
        for name in self._rng.choices(names, weights=[40, 10, 15, 20, 10, 5], k=count):
            yield name, self._ways[name]()

    def _reply(self) -> str:
        """Make a good reply, with thoughts or without."""
        rng = self._rng
        family = self._family
        words = rng.choice(self._words)
        before = "" if family.before is None else rng.choice(_PROSE) + family.before
        after = "" if family.after is None else family.after + rng.choice(_PROSE)
        thoughts = rng.random()
        if thoughts < 0.2:
            before = f"<think>{rng.choice(_PROSE)}{rng.choice(self._words)}</think>\n{before}"
        elif thoughts < 0.3:
            before = f"{rng.choice(_PROSE)}</think>{before}"
        return f"{before}{words}{after}"

    def _torn(self) -> str:
        return self._rng.choice(self._pieces if self._rng.random() < 0.5 else _TORN)

    def _edited(self) -> str:
        rng = self._rng
        text = self._reply()
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            start = int(rng.random() * (len(text) + 1))
            end = start + rng.choice((0, 0, 1, 1, 3, 20))
            new = (
                "",
                self._torn(),
                text[start:end] * 2,
                text[end : end + 9],
                rng.choice(self._words),
            )
            text = text[:start] + rng.choice(new) + text[end:]
        return text

    def _cut(self) -> str:
        text = self._reply()
        start = int(self._rng.random() * len(text) * 0.5) if self._rng.random() < 0.2 else 0
        return text[start : int(self._rng.random() * (len(text) + 1))]

    def _spliced(self) -> str:
        rng = self._rng
        first = self._reply()
        second = self._rng.choice(self._foreign)
        at = int(rng.random() * (len(first) + 1))
        other = int(rng.random() * len(second) * rng.choice((0, 1)))
        return rng.choice(
            (first[:at] + second[other:] + first[at:], second[other:] + first[at:], first + second)
        )

    def _assembled(self) -> str:
        return "".join(self._torn() for _ in range(self._rng.randrange(1, 14)))

    def _quoting(self) -> str:
        quote = self._rng.choice(_QUOTES)
        text = self._rng.choice(_SHORT_TEXTS)
        return (
            quote(text) + self._edited()
            if self._rng.random() < 0.7
            else self._reply() + quote(text)
        )

    def _noise(self) -> str:
        rng = self._rng
        top = rng.choice((0x80, 0x250, 0x3000, 0x110000))
        signs = [chr(int(rng.random() * top)) for _ in range(rng.randrange(60))]
        signs = [
            sign for sign in signs if not "\ud800" <= sign <= "\udfff"
        ]  # no server can send them
        return "".join(signs) + rng.choice(("", self._torn(), rng.choice(self._words)))
