"""Who said what: the therapist's own sentences, without what they only quote.

The therapist is the policy (`assistant`), the client is the `user`; system and tool turns are nobody's words.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from genrm_cli.rollouts.record import Turn
from genrm_cli.rules.attribution import without_quotations

THERAPIST, CLIENT = "assistant", "user"

MAX_SENTENCE_CHARS = 1_000
"""Longer sentences are read in pieces: the work for one match stays bounded, whatever the text."""

_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        # Zero-width characters and soft hyphens would split a word for a pattern but not for a reader.
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad*_`", ""),
        "\u2026": ".",
    }
)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"')\]]*\s+|\n+|(?<=[。！？])")
_WORD = re.compile(r"\w")
_SPACES = re.compile(r"\s+")


class Sentence(NamedTuple):
    """One sentence in lower case, typographic signs made plain, quotations of others taken out.

    Attributes:
        text: at most `MAX_SENTENCE_CHARS` characters.
        turn: place of its turn in the transcript, from 0.
        number: place of the sentence in its turn, from 0.
    """

    text: str
    turn: int
    number: int

    @property
    def is_question(self) -> bool:
        """Whether the sentence ends in a question mark."""
        return self.text.endswith(("?", "？"))


def sentences_of(transcript: Sequence[Turn], role: str) -> list[Sentence]:
    """Return all sentences of one role, in order; turns without text have none."""
    return [
        Sentence(text, place, number)
        for place, turn in enumerate(transcript)
        if turn.role == role
        for number, text in enumerate(_iter_sentences(turn.text))
    ]


def turns_of(transcript: Sequence[Turn], role: str) -> list[int]:
    """Return the places of the turns in which one role says anything."""
    return [place for place, turn in enumerate(transcript) if turn.role == role and turn.text.strip()]


def _iter_sentences(text: str) -> Iterator[str]:
    plain = text.translate(_TYPOGRAPHY).lower()
    for sentence in _SENTENCE_END.split(without_quotations(plain)):
        yield from _iter_pieces(_SPACES.sub(" ", sentence).strip())


def _iter_pieces(sentence: str) -> Iterator[str]:
    """Cut at spaces where there are any, so that no word is torn without need."""
    while len(sentence) > MAX_SENTENCE_CHARS:
        cut = sentence.rfind(" ", MAX_SENTENCE_CHARS // 2, MAX_SENTENCE_CHARS)
        cut = cut if cut > 0 else MAX_SENTENCE_CHARS
        yield sentence[:cut]
        sentence = sentence[cut:].lstrip()
    if _WORD.search(sentence):
        yield sentence
