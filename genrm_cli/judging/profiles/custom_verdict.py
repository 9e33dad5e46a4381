"""The `[verdict]` table of a custom profile: the position of the verdict in a reply, and its
meaning.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter, itemgetter

from genrm_cli.errors import UsageError
from genrm_cli.judging.profiles.answer import (
    MEANINGS,
    Answer,
    Carrier,
    excerpt,
    make_failure,
    parse_decimal,
    parse_prose,
    pick_own,
    verdict_of_scores,
)
from genrm_cli.judging.profiles.json_objects import Pairs, iter_objects, key_form
from genrm_cli.judging.profiles.profile import Fields
from genrm_cli.judging.profiles.scores_json import FORMS as SCORES_JSON
from genrm_cli.judging.profiles.scores_json import parse_scores_json
from genrm_cli.judging.requests import Prompt, Reply
from genrm_cli.neutralise.forms import fold_pattern
from genrm_cli.regex import compile_regex, escape
from genrm_cli.verdicts import MAX_RANKING, MIN_RANKING, Failure, FailureKind, Verdict

_FIELDS = ("score_1", "score_2", "ranking")
_KEYS = {"json", "pattern", "opening", "labels", "scale"}

Found = Mapping[str, str]
"""The text found for `score_1`, `score_2`, `ranking` or `label`."""
Find = Callable[[str, bool], list[tuple[int, int, Found]]]
"""Find the verdicts of a text, each with its start and end, in order; the flag says whether the
text was cut off.
"""
Understand = Callable[[Found], Verdict | Failure]
Reading = tuple[Find, Understand]
"""How to find and interpret verdicts of one form."""


def parse_verdict(
    verdict: object, where: str
) -> tuple[Callable[[Reply, Prompt], Verdict | Failure], tuple[str, ...]]:
    """Return how to parse a reply by `[verdict]` tables, and the forms of their verdicts."""
    given = verdict if isinstance(verdict, list) else [verdict]
    tables = [table for table in given if isinstance(table, Mapping)]
    if not tables or len(tables) < len(given):
        raise UsageError(
            f"{where}: no [verdict] table; add one with pattern, json or form, to locate the "
            "verdict."
        )
    where = f"{where}: [verdict]"
    if "form" in tables[0]:
        if tables != [{"form": "scores_json"}]:
            raise UsageError(f"{where}: the only form is 'scores_json', without other keys.")
        return parse_scores_json, SCORES_JSON
    opening = _compile(tables[0]["opening"], where) if "opening" in tables[0] else None
    readings = [_parse_reading(table, where) for table in tables]
    return partial(parse_prose, read=partial(_read, readings), opening=opening), tuple(
        map(_form_of, tables)
    )


def _parse_reading(table: Fields, where: str) -> Reading:
    refuse_unknown(table, _KEYS, where)
    if ("pattern" in table) == ("json" in table):
        raise UsageError(
            f"{where} needs either a pattern or a json table, or only form = 'scores_json'."
        )
    if "json" in table:
        refuse_unknown(table, _KEYS - {"pattern", "opening"}, where)
    find, fields = (
        _find_by_pattern(table, where) if "pattern" in table else _find_by_keys(table, where)
    )
    understand = (
        _understand_label(table, where)
        if "label" in fields
        else _understand_scores(table, fields, where)
    )
    return find, understand


def _read(readings: list[Reading], answer: Answer) -> Verdict | Failure:
    """Parse the last verdict in an answer. All other verdicts in the judge's own words must agree
    with it.
    """
    carriers = [
        Carrier(start, end, understand(fields), form)
        for form, (find, understand) in enumerate(readings)
        for start, end, fields in find(answer.text, answer.cut_off)
    ]
    own = pick_own(answer, sorted(carriers, key=attrgetter("start")), agree=_agree)
    if own is None:
        end = excerpt(answer.text[-40:])
        return make_failure(
            FailureKind.NO_VERDICT, f"no verdict in the expected form; ends with {end}"
        )
    return own if isinstance(own, Failure) else own.result


def _agree(one: Carrier[Verdict], other: Carrier[Verdict]) -> bool:
    """Return whether two verdicts of one form are equal, or two verdicts of different forms name
    the same winner.
    """
    if (
        one.form == other.form
        or isinstance(one.result, Failure)
        or isinstance(other.result, Failure)
    ):
        return one.result == other.result
    leads = [verdict.score_1 - verdict.score_2 for verdict in (one.result, other.result)]
    return (leads[0] > 0, leads[0] < 0) == (leads[1] > 0, leads[1] < 0)


def _find_by_pattern(verdict: Fields, where: str) -> tuple[Find, set[str]]:
    pattern = _compile(verdict["pattern"], where)

    def find(answer: str, cut_off: bool) -> list[tuple[int, int, Found]]:
        matches = list(pattern.finditer(answer))
        # A match at the cut may be incomplete: `B=1` may be the start of `B=10`.
        if cut_off and matches and matches[-1].end() >= len(answer.rstrip()):
            return []
        return [(match.start(), match.end(), _groups_of(match)) for match in matches]

    return find, set(pattern.groupindex)


def _groups_of(match: re.Match[str]) -> Found:
    return {group: text for group, text in match.groupdict().items() if text is not None}


def _find_by_keys(verdict: Fields, where: str) -> tuple[Find, set[str]]:
    keys = verdict["json"]
    if not isinstance(keys, Mapping) or not all(isinstance(key, str) for key in keys.values()):
        raise UsageError(
            f"{where}: json must map each field to its key, as in "
            f"{{ score_1 = 'a', score_2 = 'b' }}."
        )
    refuse_unknown(keys, {*_FIELDS, "label"}, f"{where}: json")
    names = {str(field): str(key) for field, key in keys.items()}
    named = re.compile(rf'"(?<!\\")(?:{"|".join(map(re.escape, names.values()))})"\s*+:')

    def fields_of(pairs: Pairs) -> Found:
        return {field: _text_of(pairs, key) for field, key in names.items()}

    def find(answer: str, cut_off: bool) -> list[tuple[int, int, Found]]:
        del cut_off  # a closed object is complete
        objects = [
            found
            for found in iter_objects(answer, tuple(names.values()))
            if set(names.values()).issubset(map(itemgetter(0), found.pairs or ()))
        ]
        # A key after the objects belongs to the judge's own, malformed verdict; the objects are
        # quotations.
        if objects and named.search(answer, objects[-1].end):
            return []
        return [(found.start, found.end, fields_of(found.pairs or ())) for found in objects]

    return find, set(names)


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


def _compile(pattern: object, where: str) -> re.Pattern[str]:
    try:
        return compile_regex(str(pattern), by_line=True)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def _understand_label(verdict: Fields, where: str) -> Understand:
    labels = verdict.get("labels")
    if not isinstance(labels, Mapping) or not labels or not set(labels.values()) <= set(MEANINGS):
        raise UsageError(
            f"{where}: labels must map each label to its meaning for the first response: "
            f"{', '.join(MEANINGS)}."
        )
    verdicts = {_plain(str(label)): MEANINGS[str(meaning)] for label, meaning in labels.items()}

    def understand(found: Found) -> Verdict | Failure:
        label = found.get("label", "")
        verdict = verdicts.get(_plain(label))
        if verdict is None:
            return make_failure(
                FailureKind.NO_VERDICT, f"{excerpt(label)} is not one of {', '.join(verdicts)}"
            )
        return verdict

    return understand


def _plain(label: str) -> str:
    return "".join(label.split())


def _understand_scores(verdict: Fields, fields: set[str], where: str) -> Understand:
    if not {"score_1", "score_2"} <= fields:
        raise UsageError(f"{where} finds neither a label nor both score_1 and score_2.")
    scale = verdict.get("scale")
    ends = (
        [float(end) for end in scale if isinstance(end, int | float)]
        if isinstance(scale, list)
        else []
    )
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise UsageError(f"{where}: scale must be the lowest and the highest score, as in [1, 10].")
    return partial(_verdict_of_scores, ends[0], ends[1])


def _verdict_of_scores(low: float, high: float, found: Found) -> Verdict | Failure:
    numbers = {field: parse_decimal(found[field]) for field in _FIELDS if field in found}
    first = numbers.get("score_1")
    second = numbers.get("score_2")
    if first is None or second is None or None in numbers.values():
        return make_failure(
            FailureKind.NO_VERDICT, f"not numbers: {', '.join(map(excerpt, found.values()))}"
        )
    verdict = verdict_of_scores(first, second, low, high)
    ranking = numbers.get("ranking")
    if ranking is None or isinstance(verdict, Failure):
        return verdict
    if not MIN_RANKING <= ranking <= MAX_RANKING:
        detail = f"ranking is {ranking:g}, expected {MIN_RANKING:g} to {MAX_RANKING:g}"
        return make_failure(FailureKind.OUT_OF_RANGE, detail)
    return Verdict(verdict.score_1, verdict.score_2, ranking)


_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w+>|[\^$]", re.DOTALL)


def _form_of(table: Fields) -> str:
    keys = table.get("json")
    form = (
        key_form(map(escape, keys.values()))
        if isinstance(keys, Mapping)
        else _anywhere(str(table["pattern"]))
    )
    return fold_pattern(form)


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


def refuse_unknown(table: Fields, known: Iterable[str], where: str) -> None:
    """Refuse unknown keys, which are most likely misspelt."""
    if unknown := set(table) - set(known):
        raise UsageError(
            f"{where}: unknown key {min(unknown)!r}; known keys are {', '.join(sorted(known))}."
        )
