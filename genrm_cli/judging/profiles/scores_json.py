"""Parse `score_1`, `score_2` and `ranking` in a judge's reply: strictly, or as NeMo Gym does.

The text after the judge's thinking must contain all three numbers in one object, in range, and
nothing that contradicts them. Anything else is a failure that names what was found, because a wrong
verdict would silently change a reward."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from genrm_cli.judging.profiles.answer import (
    THINK,
    Answer,
    Carrier,
    excerpt,
    make_failure,
    open_thought,
    parse_answer,
    pick_own,
)
from genrm_cli.judging.profiles.json_objects import (
    FoundObject,
    Pairs,
    find_closing_brace,
    iter_objects,
    key_form,
    text_without,
)
from genrm_cli.judging.requests import Prompt, Reply
from genrm_cli.verdicts import (
    MAX_RANKING,
    MAX_SCORE,
    MIN_RANKING,
    MIN_SCORE,
    Failure,
    FailureKind,
    Verdict,
)

KEYS = ("score_1", "score_2", "ranking")
FORMS = (key_form((*KEYS, "overall", "rubric_evaluations")),)
"""The forms of these verdicts, for `AnyProfile.verdict_forms`."""

_SCORES = (MIN_SCORE, MAX_SCORE)
_RANKINGS = (MIN_RANKING, MAX_RANKING)
_RANGES = {"score_1": _SCORES, "score_2": _SCORES, "ranking": _RANKINGS}
_PLAIN_DECIMAL = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_OPENING = re.compile(r'\s*+(?:```(?:json)?\s*+)?\{\s*+"', re.IGNORECASE)
# Patterns that begin with a literal are searched for several times as fast as those that begin with
# a look behind it.
_OVERALL = re.compile(r'"(?<!\\")overall"\s*+:\s*+\{')
_KEY = re.compile(r'"(?<!\\")(?:score_1|score_2|ranking)"\s*+:')
# A value is followed by a comma, a brace, the next key, a fence or the end of the line. "4 out of
# 5" is not a value.
_LOOSE_FIELD = re.compile(
    r'"(?<!\\")(?P<key>score_1|score_2|ranking)"\s*+:\s*+'
    r'(?P<quote>"?)(?P<value>[^\s,}"`]{0,40}+)(?P=quote)'
    r'(?P<end>(?=[ \t]*+(?:[,}"`\r\n]|\Z)))?'
)

Fields = Mapping[str, Sequence[object]]
"""The values of each key in a reply, in order."""


def parse_scores_json(reply: Reply, prompt: Prompt) -> Verdict | Failure:
    """Parse a verdict in the form of a JSON object with the three keys, possibly within `overall`;
    never raises.

    All objects with the keys must agree, except those quoted in another spelling (`pick_own`). A
    string that is a plain decimal ("4") counts as a number; "4/5", true and null do not. If no
    object with any of the keys can be decoded, the text itself is searched for the keys, unless the
    reply was cut off."""
    return parse_answer(reply, prompt, _read_answer, _OPENING)


def _read_answer(answer: Answer) -> Verdict | Failure:
    objects = list(iter_objects(answer.text, KEYS))
    fields_of = {found.start: _fields_of(found.pairs) for found in objects}
    carriers = [found for found in objects if fields_of[found.start]]
    if THINK in text_without(answer.text, carriers):
        return open_thought()
    own = pick_own(
        answer,
        [
            Carrier(found.start, found.end, _read_fields(fields_of[found.start]))
            for found in carriers
        ],
    )
    if isinstance(own, Failure):
        return own
    if own is not None:
        span = own.start, own.end
        if isinstance(own.result, Verdict) and _is_contradicted(
            answer.text, objects, carriers, *span, own.result
        ):
            return make_failure(
                FailureKind.AMBIGUOUS, f"{_in_words(own.result)}, and another that cannot be read"
            )
        return own.result
    if answer.cut_off:
        return make_failure(FailureKind.NO_VERDICT, f"no complete object with {', '.join(KEYS)}")
    # Keys deep inside a decoded object are not a verdict.
    text = text_without(answer.text, (found for found in objects if found.pairs is not None))
    verdict = _read_loosely(text)
    loose = [*_LOOSE_FIELD.finditer(answer.text)]
    if (
        isinstance(verdict, Verdict)
        and loose
        and answer.may_repair(loose[0].start(), loose[-1].end())
    ):
        return make_failure(
            FailureKind.AMBIGUOUS, f"{_in_words(verdict)} may be quoted from a response"
        )
    return verdict


def _fields_of(pairs: Pairs | None) -> Fields:
    """Collect the values of each key, only those within `overall` if that is an object."""
    if pairs is None:
        return {}
    nested = [value for key, value in pairs if key == "overall" and isinstance(value, tuple)]
    fields: dict[str, list[object]] = {}
    for name, value in chain.from_iterable(nested) if nested else pairs:
        if name in KEYS:
            fields.setdefault(name, []).append(value)
    return fields


def _is_contradicted(
    answer: str,
    objects: list[FoundObject],
    carriers: list[FoundObject],
    start: int,
    end: int,
    verdict: Verdict,
) -> bool:
    """Return whether text that cannot be decoded contradicts the verdict of the object from `start`
    to `end`.

    An object that the judge quotes in a string without escaping it breaks the judge's own in two:
    one of them is then readable, and the numbers of the other precede or follow it."""
    torn = [found for found in objects if found.start > start and found.pairs is None]
    decoded = [found for found in objects if found.start < start and found.pairs is not None]
    ahead = text_without(answer[:start], decoded)
    if _LOOSE_FIELD.search(ahead):
        before = _read_loosely(ahead)
        if (
            before != verdict
            if isinstance(before, Verdict)
            else before.kind is FailureKind.AMBIGUOUS
        ):
            return True
    if any(_KEY.search(answer, found.start, found.end) for found in torn):
        return True
    numbers = {"score_1": verdict.score_1, "score_2": verdict.score_2, "ranking": verdict.ranking}
    behind = text_without(answer, (found for found in carriers if found.start > start), end)
    return any(
        _to_number(_loose_value(found)) != numbers[found["key"]]
        for found in _LOOSE_FIELD.finditer(behind)
    )


def _read_loosely(answer: str) -> Verdict | Failure:
    """Parse the keys and their values from broken JSON: after the first `"overall": {`, or else
    anywhere.

    A later `overall` may be quoted from a candidate: if it differs, the values contradict each
    other."""
    overall = _OVERALL.search(answer)
    if overall is None and '"rubric_evaluations"' in answer:
        # Each rubric entry has the same three keys, and none of these is the verdict.
        return make_failure(FailureKind.NO_VERDICT, "rubric_evaluations without a readable overall")
    fields: dict[str, list[object]] = {}
    for found in _LOOSE_FIELD.finditer(answer, overall.end() if overall else 0):
        fields.setdefault(found["key"], []).append(_loose_value(found))
    if not fields:
        return make_failure(
            FailureKind.NO_VERDICT, f"none of {', '.join(KEYS)}; ends with {excerpt(answer[-40:])}"
        )
    return _read_fields(fields)


def _loose_value(field: re.Match[str]) -> str:
    return field["value"] if field["end"] is not None else f"{field['value']}..."


def _read_fields(fields: Fields) -> Verdict | Failure:
    missing = [key for key in KEYS if key not in fields]
    if missing:
        return make_failure(FailureKind.NO_VERDICT, f"missing: {', '.join(missing)}")
    numbers: dict[str, float] = {}
    for key in KEYS:
        number = _read_number(key, fields[key])
        if isinstance(number, Failure):
            return number
        numbers[key] = number
    return Verdict(numbers["score_1"], numbers["score_2"], numbers["ranking"])


def _read_number(key: str, values: Sequence[object]) -> float | Failure:
    number, *others = map(_to_number, values)
    if others and len({number, *others}) > 1:
        given = " and ".join(excerpt(value) for value in values[:3])
        return make_failure(FailureKind.AMBIGUOUS, f"{key} is given more than once: {given}")
    if number is None:
        return make_failure(FailureKind.NO_VERDICT, f"{key} is not a number: {excerpt(values[0])}")
    low, high = _RANGES[key]
    if not low <= number <= high:  # also true for NaN
        return make_failure(
            FailureKind.OUT_OF_RANGE, f"{key} is {number:g}, expected {low:g} to {high:g}"
        )
    return number


def _to_number(value: object) -> float | None:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and _PLAIN_DECIMAL.fullmatch(value):
        return float(value)
    return None


def _in_words(verdict: Verdict) -> str:
    return f"({verdict.score_1:g}, {verdict.score_2:g}, {verdict.ranking:g})"


# NeMo Gym's parser

# For each unclosed brace, the rest of the text is searched. NeMo Gym takes quadratic time; we stop
# after searching this many characters in vain.
MAX_VAIN_CHARS = 2_000_000

_JSON_FENCE = re.compile("```json", re.IGNORECASE)
_Numbers = tuple[float, float, float, bool]  # the last: whether a default replaces one of them
_NOTHING = Failure(FailureKind.NO_VERDICT, "no JSON object with score_1, score_2 or ranking")


def parse_scores_json_as_reference(
    reply: Reply, prompt: Prompt, default_score: float = 3.0, default_ranking: float = 3.5
) -> Verdict | Failure:
    """Parse the first readable object of the ```json fences, or else the last one of the whole
    text.

    The whole text counts, thinking and quotations included. One of the keys is enough; defaults
    replace the others. A number is anything that `float` accepts, in any range. It is `no_verdict`
    if NeMo Gym would use its defaults for all three numbers. NaN and infinity, which would spread
    to every reward of the group, are `out_of_range`, unlike there."""
    del prompt  # NeMo Gym does not look for quotations
    defaults = {"score_1": default_score, "score_2": default_score, "ranking": default_ranking}
    try:
        numbers = _read_fences(reply.text, defaults) or _read_anywhere(reply.text, defaults)
    except (ValueError, OverflowError, RecursionError):
        # Integers too long for `int` or too large for `float`, nesting too deep: NeMo Gym also
        # stops here.
        return _NOTHING
    if numbers is None:
        return _NOTHING
    if not all(map(math.isfinite, numbers[:3])):
        return Failure(
            FailureKind.OUT_OF_RANGE,
            f"not finite: {', '.join(f'{number:g}' for number in numbers[:3])}",
        )
    return Verdict(*numbers)


def _read_fences(text: str, defaults: dict[str, float]) -> _Numbers | None:
    position = 0
    while opening := _JSON_FENCE.search(text, position):
        closing = text.find("```", opening.end())
        if closing < 0:
            return None
        for source in _iter_braced(text[opening.end() : closing]):
            if (numbers := _read_object(source, defaults)) is not None:
                return numbers
        position = closing + 3
    return None


def _read_anywhere(text: str, defaults: dict[str, float]) -> _Numbers | None:
    last = None
    for source in _iter_braced(text):
        last = _read_object(source, defaults) or last
    return last


def _iter_braced(text: str) -> Iterator[str]:
    position = 0
    vain_chars = 0
    while (start := text.find("{", position)) >= 0 and vain_chars <= MAX_VAIN_CHARS:
        closing = find_closing_brace(text, start)
        if closing is None:
            vain_chars += len(text) - start
            position = start + 1
        else:
            yield text[start : closing + 1]
            position = closing + 1


def _read_object(source: str, defaults: dict[str, float]) -> _Numbers | None:
    try:
        value: object = json.loads(source)
    except json.JSONDecodeError:
        return None
    if isinstance(value, dict) and isinstance(value.get("overall"), dict):
        value = value["overall"]
    if not isinstance(value, dict) or not any(key in value for key in KEYS):
        return None
    try:
        score_1, score_2, ranking = (float(value.get(key, defaults[key])) for key in KEYS)
    except (TypeError, ValueError):
        return None
    return score_1, score_2, ranking, not all(key in value for key in KEYS)
