"""Parse a reply as NeMo Gym's `genrm_compare` does, to reproduce its numbers."""

import json
import math
import re
from collections.abc import Iterator

from genrm_cli.judging.profiles.parsing.json_objects import find_closing_brace
from genrm_cli.judging.profiles.parsing.parse_json import KEYS
from genrm_cli.judging.requests import Prompt, Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict

# For each unclosed brace, the rest of the text is searched. NeMo Gym takes quadratic time; we stop after searching
# this many characters in vain.
MAX_VAIN_CHARS = 2_000_000

_JSON_FENCE = re.compile("```json", re.IGNORECASE)
_Numbers = tuple[float, float, float, bool]  # the last: whether a default replaces one of them
_NOTHING = Failure(FailureKind.NO_VERDICT, "no JSON object with score_1, score_2 or ranking")


def parse_scores_json_as_reference(
    reply: Reply, shown: Prompt, default_score: float = 3.0, default_ranking: float = 3.5
) -> Verdict | Failure:
    """Parse the first readable object of the ```json fences, or else the last one of the whole text.

    The whole text counts, thinking and quotations included. One of the keys is enough; defaults replace the others. A
    number is anything that `float` accepts, in any range.

    Returns:
        `no_verdict` if NeMo Gym would use its defaults for all three numbers. Unlike in NeMo Gym, `out_of_range` for
        NaN and infinity, which would spread to every reward of the group.
    """
    del shown  # NeMo Gym does not look for quotations
    defaults = {"score_1": default_score, "score_2": default_score, "ranking": default_ranking}
    try:
        numbers = _read_fences(reply.text, defaults) or _read_anywhere(reply.text, defaults)
    except (ValueError, OverflowError, RecursionError):
        # Integers too long for `int` or too large for `float`, nesting too deep: NeMo Gym also stops here.
        return _NOTHING
    if numbers is None:
        return _NOTHING
    if not all(map(math.isfinite, numbers[:3])):
        return Failure(FailureKind.OUT_OF_RANGE, f"not finite: {', '.join(f'{number:g}' for number in numbers[:3])}")
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
    position, vain_chars = 0, 0
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
