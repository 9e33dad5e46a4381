"""Read the fields that the user names for the judge: the reference answer of a task, and the rubric
of its row.
"""

import json
import math
from collections.abc import Mapping, Sequence

from genrm_cli.json_types import JsonObject, field_at
from genrm_cli.rollouts.reading.values import text_or_empty
from genrm_cli.rollouts.rollout import Criterion, UnreadableRecordError


def reference_at(record: JsonObject, path: str) -> str | None:
    """Return the reference answer at a dotted path; None if there is none.

    A list of one value is that value; other lists, objects and numbers are shown as JSON.
    """
    value = field_at(record, path)
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    if value is not None and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    return value if value and value.strip() else None


def criteria_at(record: JsonObject, path: str) -> tuple[Criterion, ...]:
    """Return the rubric at a dotted path: a text, or a list of texts or objects; empty if there is
    none.

    Objects have `criterion` and `points`, as in HealthBench, or `title`, `description` and
    `weight`, as in Rubrics as Rewards (arXiv 2507.17746)."""
    value = field_at(record, path)
    if isinstance(value, str):
        return (Criterion(value),) if value.strip() else ()
    if not isinstance(value, list | None):
        raise UnreadableRecordError(f"{path} is not a rubric: expected a text or a list")
    return tuple(
        _criterion_of(entry, f"{path}[{index}]") for index, entry in enumerate(value or ())
    )


def _criterion_of(entry: object, where: str) -> Criterion:
    given = entry if isinstance(entry, dict) else {"criterion": entry}
    text = text_or_empty(given.get("criterion", given.get("description")))
    points = given.get("points", given.get("weight", 1.0))
    if not text.strip():
        raise UnreadableRecordError(
            f"{where} has no text; expected one, or an object with criterion or description"
        )
    if isinstance(points, bool) or not (isinstance(points, (int, float)) and math.isfinite(points)):
        raise UnreadableRecordError(f"{where}: its points or weight are not a number")
    title = text_or_empty(given.get("title"))
    text = f"{title}: {text}" if title.strip() else text
    return Criterion(" ".join(text.split()), float(points))


def principle_of(criteria: tuple[Criterion, ...]) -> str | None:
    """Return a rubric as the principle of a judge: a single text as it is, or a numbered list; None
    if it is empty.
    """
    if len(criteria) < 2:
        return criteria[0].text if criteria else None
    worth = ["" if points == 1 else f" ({points:g} points)" for _, points in criteria]
    return "\n".join(
        f"{index + 1}. {text}{worth[index]}" for index, (text, _) in enumerate(criteria)
    )


def principle_by_category(
    record: JsonObject, paths: Sequence[str], sentences: Mapping[str, str]
) -> str | None:
    """Return the sentence for the category of a record, or for the first of its categories that has
    one; None without one.

    Args:
        paths: of the category, a text or a list of texts; the first that the record has counts.
    """
    values = (field_at(record, path) for path in paths)
    value = next((each for each in values if each is not None), None)
    names = value if isinstance(value, list) else [value]
    known = (sentences.get(name) for name in names if isinstance(name, str))
    return next((sentence for sentence in known if sentence is not None), None)
