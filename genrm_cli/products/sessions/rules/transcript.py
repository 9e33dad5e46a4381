"""The input and output of rules: sentences of a transcript by speaker, and findings with the words
that led to them.

The therapist is the policy (`assistant`), the client is the `user`; system and tool turns are
ignored."""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from genrm_cli.rollouts.rollout import Turn

THERAPIST = "assistant"
CLIENT = "user"

MAX_SENTENCE_CHARS = 1_000
"""Longer sentences are split, to bound the work of one match."""

_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        # Invisible characters and emphasis marks would hide a word from patterns but not from
        # readers.
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad*_`", ""),
        "\u2026": ".",
    }
)
# The rules look at all turns of a session again after each of its turns.
_KNOWN_TURNS = 2_048
# Closing quotation marks and brackets belong to the sentence before them.
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"')\]]*\s+|\n+|(?<=[。！？])")
_WORD = re.compile(r"\w")
_SPACES = re.compile(r"\s+")


class Sentence(NamedTuple):
    """One sentence in lower case, with plain punctuation.

    Attributes:
        text: at most `MAX_SENTENCE_CHARS` characters.
        turn: index of its turn in the transcript, from 0.
    """

    text: str
    turn: int

    @property
    def is_question(self) -> bool:
        """Whether the sentence ends in a question mark."""
        return self.text.endswith(("?", "？"))


class Effect(StrEnum):
    """How much a finding says."""

    LOOK_HERE = "lowers"
    CERTAIN = "violation"


class Finding(Struct, frozen=True):
    """One finding of a rule.

    Attributes:
        phrase: the words found; empty for a missing thing.
        turn: index in the transcript, from 0; system turns count. None for the whole session.
        severity: 5 (danger to life) to 1.
    """

    what: str
    phrase: str = ""
    turn: int | None = None
    effect: Effect = Effect.LOOK_HERE
    severity: int = 1


class RuleResult(NamedTuple):
    """The value of a rule, 0 (worst) to 1, with its findings; None if the policy said nothing."""

    value: float | None
    findings: Sequence[Finding] = ()


def sentences_of(transcript: Sequence[Turn], role: str) -> list[Sentence]:
    """Return all sentences of one role, in order."""
    own = [(place, turn) for place, turn in enumerate(transcript) if turn.role == role]
    return [Sentence(text, place) for place, turn in own for text in _split_sentences(turn.text)]


def plain_text(text: str) -> str:
    """Return a text in lower case, with plain quotation marks and without invisible characters."""
    return text.translate(_TYPOGRAPHY).lower()


@lru_cache(maxsize=_KNOWN_TURNS)
def _split_sentences(text: str) -> tuple[str, ...]:
    sentences = _SENTENCE_END.split(plain_text(text))
    return tuple(
        piece
        for sentence in sentences
        for piece in _iter_pieces(_SPACES.sub(" ", sentence).strip())
    )


def _iter_pieces(sentence: str) -> Iterator[str]:
    """Split long sentences, at spaces if possible."""
    while len(sentence) > MAX_SENTENCE_CHARS:
        cut = sentence.rfind(" ", MAX_SENTENCE_CHARS // 2, MAX_SENTENCE_CHARS)
        cut = cut if cut > 0 else MAX_SENTENCE_CHARS
        yield sentence[:cut]
        sentence = sentence[cut:].lstrip()
    if _WORD.search(sentence):
        yield sentence
