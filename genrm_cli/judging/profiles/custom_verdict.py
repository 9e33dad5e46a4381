"""The `[verdict]` table of a custom profile: the position of the verdict in a reply, and its
meaning.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.answer import (
    MEANINGS,
    Answer,
    Carrier,
    attempt,
    excerpt,
    out_of_range,
    parse_number,
    parse_prose,
    pick_own,
    unreadable,
    verdict_of_scores,
)
from genrm_cli.judging.profiles.json_objects import Pairs, find_objects, key_form, key_pattern
from genrm_cli.judging.profiles.scores_json import FORMS, parse_scores_json
from genrm_cli.judging.profiles.toml_table import TomlTable
from genrm_cli.judging.requests import Prompt, Reply
from genrm_cli.neutralise.forms import fold_pattern
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.texts.regex import compile_regex, escape
from genrm_cli.verdicts import MAX_RANKING, MIN_RANKING, Failure, Verdict

_Member = Literal["score_1", "score_2", "ranking", "label"]


class VerdictTable(TomlTable):
    """How verdicts of one form look; `form` alone names one that needs no other key.

    Attributes:
        pattern: a regular expression, its groups named as the members of `json`.
        json: the key of each member in the object that is the verdict.
        quoted: what shown texts may not hold, where `pattern` finds more than can be a verdict.
        opening: how a reply without a thought begins.
        labels: the meaning of each label for the first response.
        scale: the lowest and the highest score.
    """

    form: Literal["scores_json"] | None = None
    pattern: str | None = None
    quoted: str | None = None
    json: dict[_Member, str] = {}
    opening: str | None = None
    labels: dict[str, str] = {}
    scale: tuple[float, float] | None = None


Members = Mapping[Any, str]
"""The text found for each member of a verdict."""


class _FoundVerdict(NamedTuple):
    """A verdict in an answer, from `start` to before `end`; for `may_go_on` see `Carrier`."""

    start: int
    end: int
    members: Members
    may_go_on: bool = False


Find = Callable[[Answer], list[_FoundVerdict]]
"""Find the verdicts of an answer, in order."""


class _Reading(Struct, frozen=True):
    """How to find and interpret verdicts of one form."""

    find: Find
    labels: Mapping[str, Verdict]
    scale: tuple[float, float]

    def verdict_of(self, found: Members) -> Verdict:
        """Interpret what was found."""
        if self.labels:
            label = found.get("label", "")
            verdict = self.labels.get(_plain(label))
            if verdict is None:
                raise unreadable(f"{excerpt(label)} is not one of {', '.join(self.labels)}")
            return verdict
        highest = {"score_1": self.scale[1], "score_2": self.scale[1], "ranking": MAX_RANKING}
        numbers = {
            member: parse_number(found[member], most)
            for member, most in highest.items()
            if member in found
        }
        first = numbers.get("score_1")
        second = numbers.get("score_2")
        if first is None or second is None or None in numbers.values():
            raise unreadable(f"not numbers: {', '.join(map(excerpt, found.values()))}")
        verdict = verdict_of_scores(first, second, *self.scale)
        ranking = numbers.get("ranking")
        if ranking is None:
            return verdict
        if not MIN_RANKING <= ranking <= MAX_RANKING:
            raise out_of_range("ranking", ranking, MIN_RANKING, MAX_RANKING)
        return Verdict(verdict.score_1, verdict.score_2, ranking)


def parse_verdict(
    verdict: VerdictTable | list[VerdictTable], where: str
) -> tuple[Callable[[Reply, Prompt], Verdict | Failure], tuple[str, ...]]:
    """Return how to parse a reply by `[verdict]` tables, and the forms of their verdicts."""
    tables = verdict if isinstance(verdict, list) else [verdict]
    where = f"{where}: [verdict]"
    if tables == [VerdictTable(form="scores_json")]:
        return parse_scores_json, FORMS
    opening = None
    for table in tables:
        if table.form is not None or (table.pattern is None) != bool(table.json):
            raise UsageError(
                f"{where} needs either a pattern or a json table, or only form = 'scores_json', "
                "without other keys."
            )
        if table.opening is not None:
            opening = _compile(table.opening, where)
    readings = [_parse_reading(table, where) for table in tables]
    parse_reply = partial(parse_prose, read=partial(_read, readings), opening=opening)
    return parse_reply, tuple(map(_form_of, tables))


def _parse_reading(table: VerdictTable, where: str) -> _Reading:
    if table.pattern is None:
        find: Find = partial(_find_objects, table.json)
        members = set[str](table.json)
    else:
        pattern = _compile(table.pattern, where)
        find = partial(_find_matches, pattern)
        members = set(pattern.groupindex)
    labels = table.labels if "label" in members else {}
    if "label" in members and (not labels or not MEANINGS.keys() >= set(labels.values())):
        raise UsageError(
            f"{where}: labels must map each label to its meaning for the first response: "
            f"{', '.join(MEANINGS)}."
        )
    if not labels and not {"score_1", "score_2"} <= members:
        raise UsageError(
            f"{where} finds neither a label nor both score_1 and score_2; add what the reply has."
        )
    low, high = table.scale or (0.0, 0.0)
    if not labels and not low < high:
        raise UsageError(f"{where}: scale must be the lowest and the highest score, as in [1, 10].")
    verdicts = {_plain(label): MEANINGS[meaning] for label, meaning in labels.items()}
    return _Reading(find, verdicts, (low, high))


def _read(readings: list[_Reading], answer: Answer) -> Verdict:
    """Parse the last verdict in an answer. All other verdicts in the judge's own words must agree
    with it.
    """
    carriers = [
        Carrier(
            found.start,
            found.end,
            attempt(reading.verdict_of, found.members),
            form,
            found.may_go_on,
        )
        for form, reading in enumerate(readings)
        for found in reading.find(answer)
    ]
    in_order = sorted(carriers, key=attrgetter("start"))
    return pick_own(answer, in_order, "no verdict in the expected form", agree=_agree).parsed


def _agree(one: Carrier[Verdict], other: Carrier[Verdict]) -> bool:
    """Return whether two verdicts of one form are equal, or two verdicts of different forms name
    the same winner.
    """
    if one.form == other.form:
        return one.result == other.result
    leads = [each.parsed.score_1 - each.parsed.score_2 for each in (one, other)]
    return (leads[0] > 0, leads[0] < 0) == (leads[1] > 0, leads[1] < 0)


def _find_matches(pattern: re.Pattern[str], answer: Answer) -> list[_FoundVerdict]:
    found: list[_FoundVerdict] = []
    for match in pattern.finditer(answer.text):
        members = {name: text for name, text in match.groupdict().items() if text is not None}
        found.append(_FoundVerdict(*match.span(), members, _may_go_on(match, members, answer)))
    return found


def _may_go_on(match: re.Match[str], members: Members, answer: Answer) -> bool:
    """Return whether more text would make another verdict of a match: `8 1` of `8 10`, `A` of `A
    and B`.
    """
    if "label" in members and not answer.unfinished:
        return False  # where no server says why a reply ends, a known label ends it
    last = answer.text[match.end() - 1 : match.end()]
    following = answer.text[match.end() : match.end() + 1]
    return (last.isalnum() or last == ".") and not following.isspace()


def _find_objects(keys: Mapping[_Member, str], answer: Answer) -> list[_FoundVerdict]:
    names = tuple(keys.values())
    found: list[_FoundVerdict] = []
    for each in find_objects(answer.text, names):
        if each.pairs and {name for name, _ in each.pairs}.issuperset(names):
            members = {member: _text_of(each.pairs, key) for member, key in keys.items()}
            found.append(_FoundVerdict(each.start, each.end, members))
    # A key after the objects belongs to the judge's own, malformed verdict; the objects are
    # quotations.
    return [] if found and key_pattern(names).search(answer.text, found[-1].end) else found


def _text_of(pairs: Pairs, key: str) -> str:
    """Return the text of a value; of several that differ, one that is neither a number nor a
    label.
    """
    values = [value for name, value in pairs if name == key]
    # A number as a decimal has as few places as needed, at most nine: `8.7`, `10`.
    numbers = {
        f"{value:.9f}".rstrip("0").rstrip(".") for value in values if isinstance(value, float)
    }
    others = {
        value if isinstance(value, str) else "" for value in values if not isinstance(value, float)
    }
    return " and ".join(sorted(numbers | others))


def _compile(pattern: str, where: str) -> re.Pattern[str]:
    try:
        return compile_regex(pattern, by_line=True)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def _plain(label: str) -> str:
    return "".join(label.split())


_PART = late_pattern(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w+>|[\^$]", re.DOTALL)


def _form_of(table: VerdictTable) -> str:
    keys = map(escape, table.json.values())
    pattern = table.quoted or table.pattern
    return fold_pattern(key_form(keys) if pattern is None else _anywhere(pattern))


def _anywhere(pattern: str) -> str:
    """Return a pattern that finds anywhere in a text what a pattern finds in a reply.

    A quotation may begin or end a line. A verdict in the first line of a reply can only be quoted
    as a line."""
    ends = {r"\A": "^", "$": "$"} if r"\A" in pattern else {}

    def replacement(part: re.Match[str]) -> str:
        if part[0] in ("^", "$", r"\A", r"\z"):
            return ends.get(part[0], "")
        return "(?:" if part[0].startswith("(?P<") else part[0]

    return _PART.sub(replacement, pattern)
