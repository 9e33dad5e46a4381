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
    if isinstance(record, dict) and path in record:  # a name may have dots
        return record[path]
    value = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def whole_text(text: str) -> str:
    """Return a text in whole characters: U+FFFD for half of a surrogate pair."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_characters(value: Any) -> Any:
    """Return a JSON value with all of its texts and names in whole characters."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return list(map(whole_characters, value))
    if isinstance(value, dict):
        return {whole_characters(name): whole_characters(each) for name, each in value.items()}
    return value
