"""The guard's patterns, as data.

A pattern is a regular expression over one sentence in lower case, with single spaces and plain
quotation marks; it begins and ends at word boundaries. `<name>` inserts a piece. Sentences have at
most 1,000 characters, so bounded repetition takes linear time; a test refuses `.*` and `.+`."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from genrm_cli.json_types import Record
from genrm_cli.sessions.rules.attribution import is_negated, is_reported
from genrm_cli.sessions.rules.transcript import Sentence

_PIECE = re.compile(r"<([a-z_]+)>")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Words with one meaning.

    Attributes:
        unless: excuses a match anywhere in the same sentence.
        heeds_context: whether negated and reported words are excused.
        form: sentences that count: `question`, `statement` or `any`.
    """

    words: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    heeds_context: bool = True
    form: str = "any"

    def find(self, sentence: Sentence, following: str = "") -> str | None:
        """Return the first match that counts; None without one.

        `following` is the next sentence of the same turn.
        """
        if self.form != "any" and (self.form == "question") is not sentence.is_question:
            return None
        text = sentence.text
        if self.unless is not None and self.unless.search(text):
            return None
        for match in self.words.finditer(text):
            start = match.start()
            is_excused = self.heeds_context and (
                is_negated(text, start) or is_reported(text, start, following)
            )
            if not is_excused:
                return match[0].strip(" ,;:")
        return None


@dataclass(frozen=True, slots=True)
class Breach:
    """What a therapist must not say.

    Attributes:
        is_certain: whether the words leave no doubt; else they are a reason to look.
        after: what the client's last turn must contain; None for anything.
        constraint: kind of constraint without which the words are no breach; empty for none.
        unless_turn: excuses a match anywhere in the same turn.
    """

    what: str
    severity: int
    is_certain: bool
    pattern: Pattern
    after: Pattern | None = None
    constraint: str = ""
    unless_turn: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class GuardPatterns:
    """All patterns of the guard; `version` changes whenever a value may change.

    Attributes:
        constraints: by kind, what the text of a constraint of this kind says.
        marks: what else is looked for, by name.
    """

    version: int
    breaches: tuple[Breach, ...]
    constraints: Mapping[str, Pattern]
    marks: Mapping[str, Pattern]


@cache
def read_patterns() -> GuardPatterns:
    """Read the patterns, once per process."""
    text = files(__package__).joinpath("guard.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    pieces: Mapping[str, str] = table["pieces"]
    marks = {name: _parse_pattern(each, pieces) for name, each in table["mark"].items()}
    return GuardPatterns(
        version=table["version"],
        breaches=tuple(_parse_breach(each, pieces, marks) for each in table["breach"]),
        constraints={
            name: _parse_pattern({"patterns": patterns, "heeds_context": False}, pieces)
            for name, patterns in table["constraint"].items()
        },
        marks=marks,
    )


def _parse_breach(table: Record, pieces: Mapping[str, str], marks: Mapping[str, Pattern]) -> Breach:
    after = table.get("after")
    return Breach(
        what=table["what"],
        severity=table["severity"],
        is_certain=table.get("certain", False),
        pattern=_parse_pattern(table, pieces),
        after=None if after is None else marks[after],
        constraint=table.get("constraint", ""),
        unless_turn=_compile(table.get("unless_turn", ()), pieces),
    )


def _parse_pattern(table: Record, pieces: Mapping[str, str]) -> Pattern:
    words = _compile(table["patterns"], pieces)
    if words is None:
        raise ValueError("a group of patterns is empty")
    return Pattern(
        words=words,
        unless=_compile(table.get("unless", ()), pieces),
        heeds_context=table.get("heeds_context", True),
        form=table.get("form", "any"),
    )


def _compile(patterns: Iterable[str], pieces: Mapping[str, str]) -> re.Pattern[str] | None:
    whole = "|".join(_with_pieces(pattern, pieces) for pattern in patterns)
    return re.compile(rf"(?<!\w)(?:{whole})(?!\w)") if whole else None


def _with_pieces(pattern: str, pieces: Mapping[str, str]) -> str:
    return _PIECE.sub(lambda match: f"(?:{_with_pieces(pieces[match[1]], pieces)})", pattern)
