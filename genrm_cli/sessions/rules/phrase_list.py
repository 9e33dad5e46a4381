"""Phrase lists: the patterns of a rule, as data.

A list is TOML: `version`, a table `pieces` of named parts, and tables `[[group]]` and
`[[exchange]]`. `<name>` in a pattern inserts a piece. Patterns are regular expressions over one
sentence in lower case, with single spaces and plain quotation marks; they start and end at word
boundaries. Sentences have a bounded length, so bounded repetition takes linear time; a test refuses
`.*`, `.+` and the like."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby, zip_longest

from genrm_cli.json_types import Record
from genrm_cli.sessions.rules.attribution import is_negated, is_reported
from genrm_cli.sessions.rules.transcript import Sentence

_PIECE = re.compile(r"<([a-z_]+)>")


class Effect(StrEnum):
    """Effect of a finding on the value of its rule."""

    RAISES = "raises"
    LOWERS = "lowers"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True)
class Fired:
    """One finding of a rule.

    Attributes:
        phrase: the words found, in lower case; empty for a missing thing.
        turn: index in the transcript, from 0; system turns count.
    """

    what: str
    phrase: str
    turn: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The value of a rule, 0 (worst) to 1, with its findings; None if the rule does not apply to
    the session.
    """

    value: float | None
    fired: tuple[Fired, ...] = ()


def within_unit(value: float) -> float:
    """Return the value clamped to 0 to 1."""
    return min(1.0, max(0.0, value))


@dataclass(frozen=True, slots=True)
class PhraseGroup:
    """Phrases with one meaning.

    Attributes:
        effect: effect of a match on the value; None if the rule decides.
        unless: an expression that excuses a match anywhere in the same sentence.
        form: sentences that count: `question`, `statement` or `any`.
        heeds_context: whether negated and reported phrases are excused.
        needs: every phrase contains one of these texts; skips most sentences quickly. Empty for no
            such test.
        together_with: an expression without which, anywhere in the same sentence, a match does not
            count.
    """

    what: str
    effect: Effect | None
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    form: str = "any"
    heeds_context: bool = True
    needs: tuple[str, ...] = ()
    together_with: re.Pattern[str] | None = None

    def find(self, sentence: Sentence, following: str = "") -> str | None:
        """Return the first phrase of the sentence that counts, or None."""
        if self.form != "any" and (self.form == "question") is not sentence.is_question:
            return None
        text = sentence.text
        for word in self.needs:  # half the time of a generator, in the innermost loop
            if word in text:
                break
        else:
            if self.needs:
                return None
        for match in self.pattern.finditer(text):
            if self.unless is not None and self.unless.search(text):
                return None
            if self.together_with is not None and not self.together_with.search(text):
                return None
            excused = self.heeds_context and (
                is_negated(text, match.start()) or is_reported(text, match.start(), following)
            )
            if not excused:
                return match[0].strip(" ,;:")
        return None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A reply that is harmless alone and harmful after the client's turn.

    Attributes:
        client: phrases in the client's preceding turn.
        reply: phrases in a sentence of the therapist's answer.
        unless: an expression that excuses the reply anywhere in the same turn.
        first_sentences: number of sentences of the answer that count; None for all.
    """

    client: PhraseGroup
    reply: PhraseGroup
    unless: re.Pattern[str] | None = None
    first_sentences: int | None = None


@dataclass(frozen=True, slots=True)
class PhraseList:
    """The groups and exchanges of one rule; `version` changes whenever a value may change."""

    version: int
    groups: tuple[PhraseGroup, ...]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exchanges: tuple[Exchange, ...] = ()

    def group(self, what: str) -> PhraseGroup:
        """Return a group by name, or raise `KeyError`."""
        for group in self.groups:
            if group.what == what:
                return group
        raise KeyError(what)

    def with_effect(self, effect: Effect) -> tuple[PhraseGroup, ...]:
        """Return the groups with an effect."""
        return tuple(group for group in self.groups if group.effect is effect)


def parse_phrases(text: str, shared: str = "") -> PhraseList:
    """Parse a phrase list, which also has the pieces and groups of a `shared` one.

    All lists are built in, so tests check them, not users.
    """
    table = tomllib.loads(text)
    other = tomllib.loads(shared)
    pieces = {**other.get("pieces", {}), **table.get("pieces", {})}
    groups = tuple(
        _parse_group(group, pieces) for group in (*other.get("group", ()), *table["group"])
    )
    exchanges = tuple(_parse_exchange(each, pieces) for each in table.get("exchange", ()))
    words = {name: tuple(each) for name, each in table.get("words", {}).items()}
    return PhraseList(table["version"] + other.get("version", 0), groups, words, exchanges)


def iter_findings(sentences: Sequence[Sentence], groups: Iterable[PhraseGroup]) -> Iterator[Fired]:
    """Yield the findings of groups with an effect, in order, at most one for each sentence and
    group.
    """
    groups = tuple(groups)
    for sentence, after in zip_longest(sentences, sentences[1:]):
        following = after.text if after is not None and after.turn == sentence.turn else ""
        for group in groups:
            if group.effect is not None and (phrase := group.find(sentence, following)) is not None:
                yield Fired(group.what, phrase, sentence.turn, group.effect)


def iter_exchanges(
    own: Sequence[Sentence], heard: Sequence[Sentence], exchanges: Iterable[Exchange]
) -> Iterator[Fired]:
    """Yield the therapist's replies that are harmful after the client's preceding turn."""
    turns = {turn: list(sentences) for turn, sentences in groupby(own, key=lambda each: each.turn)}
    preceding = {
        turn: max((each.turn for each in heard if each.turn < turn), default=None) for turn in turns
    }
    for exchange in exchanges:
        said = {each.turn for each in heard if exchange.client.find(each) is not None}
        for turn, sentences in turns.items():
            excused = exchange.unless is not None and any(
                exchange.unless.search(each.text) for each in sentences
            )
            if preceding[turn] in said and not excused:
                yield from iter_findings(sentences[: exchange.first_sentences], [exchange.reply])


def _parse_group(table: Record, pieces: Mapping[str, str]) -> PhraseGroup:
    effect = table.get("effect")
    return PhraseGroup(
        what=table["what"],
        effect=None if effect is None else Effect(effect),
        pattern=_compile(table["patterns"], pieces),
        unless=_compile_some(table.get("unless"), pieces),
        form=table.get("form", "any"),
        heeds_context=table.get("heeds_context", True),
        needs=tuple(table.get("needs", ())),
        together_with=_compile_some(table.get("together_with"), pieces),
    )


def _parse_exchange(table: Record, pieces: Mapping[str, str]) -> Exchange:
    client = {
        "what": table["what"],
        "patterns": table["client"],
        "unless": table.get("client_unless"),
    }
    reply = {
        "what": table["what"],
        "patterns": table["reply"],
        "effect": "lowers",
        "form": table.get("form", "any"),
    }
    unless = _compile_some(table.get("unless"), pieces)
    return Exchange(
        _parse_group(client, pieces),
        _parse_group(reply, pieces),
        unless,
        table.get("first_sentences"),
    )


def _compile_some(
    patterns: Iterable[str] | None, pieces: Mapping[str, str]
) -> re.Pattern[str] | None:
    return _compile(patterns, pieces) if patterns else None


def _compile(patterns: Iterable[str], pieces: Mapping[str, str]) -> re.Pattern[str]:
    full = "|".join(_with_pieces(pattern, pieces) for pattern in patterns)
    return re.compile(rf"(?<!\w)(?:{full})(?!\w)")


def _with_pieces(pattern: str, pieces: Mapping[str, str]) -> str:
    return _PIECE.sub(lambda match: f"(?:{_with_pieces(pieces[match[1]], pieces)})", pattern)
