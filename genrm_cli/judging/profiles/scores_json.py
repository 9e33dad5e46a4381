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
    Answer,
    Carrier,
    NoCarrierError,
    ambiguous,
    attempt,
    excerpt,
    out_of_range,
    parse_answer,
    parse_number,
    pick_own,
    refuse_open_thought,
    unreadable,
)
from genrm_cli.judging.profiles.json_objects import (
    FoundObject,
    Pairs,
    find_closing_brace,
    find_objects,
    key_form,
    key_pattern,
    text_without,
)
from genrm_cli.judging.requests import Prompt, Reply
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import (
    MAX_RANKING,
    MAX_SCORE,
    MIDDLE_RANKING,
    MIN_RANKING,
    MIN_SCORE,
    Failure,
    FailureKind,
    Verdict,
)

KEYS = ("score_1", "score_2", "ranking")
_EVERY_KEY = (*KEYS, "overall", "rubric_evaluations")
FORMS = (key_form(_EVERY_KEY),)
"""The forms of these verdicts, for `AnyProfile.verdict_forms`."""

_SCORES = (MIN_SCORE, MAX_SCORE)
_RANKINGS = (MIN_RANKING, MAX_RANKING)
_RANGES = {"score_1": _SCORES, "score_2": _SCORES, "ranking": _RANKINGS}
_OPENING = late_pattern(r'\s*+(?:```(?:json)?\s*+)?\{\s*+"', re.IGNORECASE)
_OVERALL = late_pattern(rf"{key_pattern(('overall',)).pattern}\s*+\{{")
_KEY = key_pattern(KEYS)
# A value is followed by a comma, a brace, the next key, a fence, a comment or the end of the line.
# "4 out of 5" is not a value.
_LOOSE_FIELD = late_pattern(
    rf'{_KEY.pattern}\s*+(?P<quote>"?)(?P<value>[^\s,}}"`]{{0,40}}+)(?P=quote)'
    r'(?P<end>(?=[ \t]*+(?:[,}"`\r\n]|//|/\*|\Z)))?'
)

Fields = Mapping[str, Sequence[object]]
"""The values of each key in a reply, in order."""


def parse_scores_json(reply: Reply, prompt: Prompt) -> Verdict | Failure:
    """Parse a verdict in the form of a JSON object with the three keys, possibly within `overall`;
    never raises.

    All objects with the keys must agree, except those quoted in another spelling (`pick_own`). A
    string with a decimal ("4", "4/5") counts as a number; "4/10", true and null do not. If no
    object with any of the keys can be decoded, the text itself is searched for the keys, unless the
    reply is unfinished."""
    return parse_answer(reply, prompt, _read_answer, _OPENING)


def _read_answer(answer: Answer) -> Verdict:
    text = answer.text
    objects = find_objects(text, _EVERY_KEY)
    fields_of = {found.start: _fields_of(found.pairs) for found in objects}
    stated = [found for found in objects if fields_of[found.start]]
    refuse_open_thought(text_without(text, stated))
    carriers = [
        Carrier(found.start, found.end, attempt(_read_fields, fields_of[found.start]))
        for found in stated
    ]
    try:
        own = pick_own(answer, carriers, "no object")
    except NoCarrierError:
        return _read_broken(answer, objects)
    verdict = own.parsed
    if _is_contradicted(text, objects, stated, own):
        raise ambiguous(f"{_in_words(verdict)}, and another that cannot be read")
    return verdict


def _read_broken(answer: Answer, objects: Sequence[FoundObject]) -> Verdict:
    """Search an answer without a readable object for the keys, unless it is unfinished."""
    if answer.unfinished is not None:
        raise unreadable(f"no complete object with {', '.join(KEYS)}")
    # Keys deep inside a decoded object are not a verdict.
    text = text_without(answer.text, (found for found in objects if found.pairs is not None))
    verdict = _read_loosely(text)
    loose = [*_LOOSE_FIELD.finditer(answer.text)]
    if loose and answer.may_repair(loose[0].start(), loose[-1].end()):
        raise ambiguous(f"{_in_words(verdict)} may be quoted from a response")
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
    answer: str, objects: list[FoundObject], stated: list[FoundObject], own: Carrier[Verdict]
) -> bool:
    """Return whether text that cannot be decoded contradicts the verdict of an object.

    An object that the judge quotes in a string without escaping it breaks the judge's own in two:
    one of them is then readable, and the numbers of the other precede or follow it."""
    verdict = own.parsed
    torn = [found for found in objects if found.start > own.start and found.pairs is None]
    decoded = [found for found in objects if found.start < own.start and found.pairs is not None]
    ahead = text_without(answer[: own.start], decoded)
    if _LOOSE_FIELD.search(ahead):
        before = attempt(_read_loosely, ahead)
        is_unclear = isinstance(before, Failure) and before.kind is not FailureKind.AMBIGUOUS
        if before != verdict and not is_unclear:
            return True
    if any(_KEY.search(answer, found.start, found.end) for found in torn):
        return True
    behind = text_without(answer, (found for found in stated if found.start > own.start), own.end)
    return any(
        parse_number(_loose_value(found), _RANGES[_loose_key(found)][1])
        != getattr(verdict, _loose_key(found))
        for found in _LOOSE_FIELD.finditer(behind)
    )


def _read_loosely(answer: str) -> Verdict:
    """Parse the keys and their values from broken JSON: after the first `"overall": {`, or else
    anywhere.

    A later `overall` may be quoted from a candidate: if it differs, the values contradict each
    other."""
    overall = _OVERALL.search(answer)
    if overall is None and '"rubric_evaluations"' in answer:
        # Each rubric entry has the same three keys, and none of these is the verdict.
        raise unreadable("rubric_evaluations without a readable overall")
    fields: dict[str, list[object]] = {}
    for found in _LOOSE_FIELD.finditer(answer, overall.end() if overall else 0):
        fields.setdefault(_loose_key(found), []).append(_loose_value(found))
    if not fields:
        raise unreadable(f"none of {', '.join(KEYS)}; ends with {excerpt(answer[-40:])}")
    return _read_fields(fields)


def _loose_key(field: re.Match[str]) -> str:
    return field["key"].replace("\\", "")


def _loose_value(field: re.Match[str]) -> str:
    return field["value"] if field["end"] is not None else f"{field['value']}..."


def _read_fields(fields: Fields) -> Verdict:
    missing = [key for key in KEYS if key not in fields]
    if missing:
        raise unreadable(f"missing: {', '.join(missing)}")
    score_1, score_2, ranking = (_read_number(key, fields[key]) for key in KEYS)
    return Verdict(score_1, score_2, ranking)


def _read_number(key: str, values: Sequence[object]) -> float:
    low, high = _RANGES[key]
    numbers = [parse_number(value, high) for value in values]
    if len(numbers) > 1 and len(set(numbers)) > 1:
        given = " and ".join(excerpt(value) for value in values[:3])
        raise ambiguous(f"{key} is given more than once: {given}")
    number = numbers[0]
    if number is None:
        raise unreadable(f"{key} is not a number: {excerpt(values[0])}")
    if not low <= number <= high:  # also true for NaN
        raise out_of_range(key, number, low, high)
    return number


def _in_words(verdict: Verdict) -> str:
    return f"({verdict.score_1:g}, {verdict.score_2:g}, {verdict.ranking:g})"


# NeMo Gym's parser

# For each unclosed brace, the rest of the text is searched. NeMo Gym takes quadratic time; we stop
# after searching this many characters without a match.
MAX_VAIN_CHARS = 2_000_000

_JSON_FENCE = late_pattern("```json", re.IGNORECASE)
_NOTHING = Failure(FailureKind.NO_VERDICT, "no JSON object with score_1, score_2 or ranking")


def parse_scores_json_as_reference(
    reply: Reply, prompt: Prompt, default_score: float = 3.0
) -> Verdict | Failure:
    """Parse the first readable object of the ```json fences, or else the last one of the whole
    text.

    The whole text counts, thinking and quotations included. One of the keys is enough; defaults
    replace the others. A number is anything that `float` accepts, in any range. It is `no_verdict`
    if NeMo Gym would use its defaults for all three numbers. NaN and infinity, which would spread
    to every reward of the group, are `out_of_range`, unlike there."""
    del prompt  # NeMo Gym does not look for quotations
    defaults = {"score_1": default_score, "score_2": default_score, "ranking": MIDDLE_RANKING}
    try:
        verdict = _read_fences(reply.text, defaults) or _read_anywhere(reply.text, defaults)
    except (ValueError, OverflowError, RecursionError):
        # Integers too long for `int` or too large for `float`, nesting too deep: NeMo Gym also
        # stops here.
        verdict = None
    if verdict is None:
        return _NOTHING
    if not all(map(math.isfinite, (verdict.score_1, verdict.score_2, verdict.ranking))):
        return Failure(FailureKind.OUT_OF_RANGE, f"not finite: {_in_words(verdict)}")
    return verdict


def _read_fences(text: str, defaults: dict[str, float]) -> Verdict | None:
    position = 0
    while opening := _JSON_FENCE.search(text, position):
        closing = text.find("```", opening.end())
        if closing < 0:
            return None
        for source in _iter_braced(text[opening.end() : closing]):
            if (verdict := _read_object(source, defaults)) is not None:
                return verdict
        position = closing + 3
    return None


def _read_anywhere(text: str, defaults: dict[str, float]) -> Verdict | None:
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


def _read_object(source: str, defaults: dict[str, float]) -> Verdict | None:
    try:
        value: object = json.loads(source)
    except json.JSONDecodeError:
        return None
    if isinstance(value, dict) and isinstance(value.get("overall"), dict):
        value = value["overall"]
    if not isinstance(value, dict) or value.keys().isdisjoint(KEYS):
        return None
    try:
        score_1, score_2, ranking = (float(value.get(key, defaults[key])) for key in KEYS)
    except (TypeError, ValueError):
        return None
    return Verdict(score_1, score_2, ranking, defaulted=not value.keys() >= set(KEYS))
