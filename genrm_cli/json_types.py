"""Types of parsed JSON, and its fields by path."""

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonObject: TypeAlias = Mapping[str, Any]
"""An object that is only read."""
Record: TypeAlias = dict[str, Any]
"""A line of a file, or an object that becomes one; its readers add fields."""


def field_at(record: object, path: str) -> Any:
    """Return the value at a dotted path of an object; None if there is none."""
    if "." not in path:  # most paths, several of each line
        return record.get(path) if isinstance(record, dict) else None
    value = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
