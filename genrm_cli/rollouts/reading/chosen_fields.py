"""Read the fields that the user names for the judge: the reference answer of a task."""

import json

from genrm_cli.json_types import JsonObject, field_at


def reference_at(record: JsonObject, path: str) -> str | None:
    """Return the reference answer at a dotted path; None if there is none.

    A list of one value is that value; other lists, objects and numbers are shown as JSON.
    """
    value = field_at(record, path)
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text if text.strip() else None
