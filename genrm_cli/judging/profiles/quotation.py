"""Distinguish the judge's own verdict from verdicts that it quotes.

A response may contain a verdict in the judge's form, and a judge that discusses the response may quote it. A verdict
counts as quoted if its text occurs in a response shown, whole or line by line. Own verdicts must agree; a quoted one
never counts by itself.

This cannot detect a judge that *describes* a fake in its own words, and says nothing else that can be parsed.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from genrm_cli.judging.profiles.answer import END_THINK, Answer, make_failure
from genrm_cli.verdicts import Failure, FailureKind

Said = TypeVar("Said")

_QUOTE_MARKS = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_BLANK_BESIDE_SIGN = re.compile(r" (?:(?!\w)|(?<!\w ))")  # begins with the blank, to be searched for quickly
_SEAM = re.compile(r"\n|(?<=>)\s*(?=<\w)")
_WORD = re.compile(r"\w")
_EDGES = " .'\"()"
_CODE_FENCE = re.compile(r"```\w*")


@dataclass(frozen=True, slots=True)
class Carrier(Generic[Said]):
    """A passage in the form of a verdict, from `start` to before `end`; `form` numbers the forms of a family."""

    start: int
    end: int
    said: Said | Failure
    form: int = 0


Find = Callable[[str], list[Carrier[Said]]]
"""Find the carriers of a text, in order."""


def agree_exactly(one: Carrier[Said], other: Carrier[Said]) -> bool:
    """Return whether two carriers state the same verdict."""
    return one.said == other.said


def pick_own(
    answer: Answer,
    find: Find[Said],
    *,
    carriers: list[Carrier[Said]] | None = None,
    agree: Callable[[Carrier[Said], Carrier[Said]], bool] = agree_exactly,
    wrapping: re.Pattern[str] = _CODE_FENCE,
    ignore_unreadable: bool = True,
) -> Carrier[Said] | Failure | None:
    """Return the last carrier in the judge's own words, or None if the answer has no carriers.

    Args:
        answer: the judge's answer.
        find: finds the carriers of an answer, and of a response.
        carriers: carriers of the answer, if already found.
        agree: returns whether two carriers state the same verdict.
        wrapping: what may stand around a carrier in an answer that holds nothing else.
        ignore_unreadable: whether an own carrier that cannot be read contradicts none.

    Returns:
        `ambiguous` if own carriers disagree, if each carrier stands in a response and the answer holds anything else,
        or if own and quoted carriers disagree and a response, spelled otherwise, says what the own ones do.
    """
    carriers = find(answer.text) if carriers is None else carriers
    if not carriers:
        return None
    quotations = Quotations(answer.responses)
    quoted = [quotations.hold_parts_of(answer.text[each.start : each.end]) for each in carriers]
    own = [each for each, is_quoted in zip(carriers, quoted, strict=True) if not is_quoted]
    if not own:
        if not _holds_nothing_else(answer, carriers, wrapping):
            return make_failure(FailureKind.AMBIGUOUS, "the verdict also occurs in a response: it may be a quotation")
        own, agree = carriers, agree_exactly  # one of them may be a quotation after all
    chosen = own[-1]
    if isinstance(chosen.said, Failure):
        return chosen
    unreadable = any(isinstance(each.said, Failure) for each in own) and not ignore_unreadable
    if unreadable or _any_verdict(own, lambda each: not agree(each, chosen)):
        return make_failure(FailureKind.AMBIGUOUS, "two verdicts that contradict each other")
    if _any_verdict(carriers, lambda each: not agree(each, chosen)) and any(
        _any_verdict(find(_plain(response)), lambda each: agree(each, chosen)) for response in answer.responses
    ):
        return make_failure(FailureKind.AMBIGUOUS, "two verdicts, and both may be quotations")
    return chosen


class Quotations:
    """What a judge may quote from the responses shown, ignoring blanks, emphasis and look-alike characters."""

    def __init__(self, responses: Sequence[str]) -> None:
        self._responses = tuple(map(_fold, responses))
        self._known: dict[str, bool] = {}

    def hold(self, text: str) -> bool:
        """Return whether a text occurs in a response."""
        if text not in self._known:
            folded = _fold(text).strip(_EDGES)
            self._known[text] = any(folded in response for response in self._responses)
        return self._known[text]

    def hold_parts_of(self, text: str) -> bool:
        """Return whether a text occurs in a response, or consists of lines or tagged values that all do."""
        return all(map(self.hold, filter(_WORD.search, _SEAM.split(text)))) or self.hold(text)


def _any_verdict(carriers: Iterable[Carrier[Said]], test: Callable[[Carrier[Said]], bool]) -> bool:
    return any(not isinstance(each.said, Failure) and test(each) for each in carriers)


def _fold(text: str) -> str:
    text = _plain(text)
    if ">" in text:
        text = _QUOTE_MARKS.sub("", text)
    for emphasis in "*_`":
        text = text.replace(emphasis, "")
    return _BLANK_BESIDE_SIGN.sub("", " ".join(text.split()))


def _plain(text: str) -> str:
    """Return a text without invisible characters, and with look-alike characters replaced by plain ones."""
    return text if text.isascii() else _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))


def _holds_nothing_else(answer: Answer, carriers: Sequence[Carrier[Said]], wrapping: re.Pattern[str]) -> bool:
    """Return whether an answer consists of its verdict: it then says nothing that could introduce a quotation.

    Not where a response holds the end of a thought: the answer may then begin within a quotation.
    """
    if any(END_THINK in response for response in answer.responses):
        return False
    pieces, position = [], 0
    for each in carriers:
        pieces.append(answer.text[position : each.start])
        position = each.end
    rest = "\n".join([*pieces, answer.text[position:]])
    return _WORD.search(wrapping.sub("", rest)) is None
