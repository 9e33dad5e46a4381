"""Types of parsed JSON, and its fields by path."""

from collections.abc import Collection, Mapping
from functools import lru_cache
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
    rest = path
    while rest:
        name, rest = first_name([value], rest)
        value = value.get(name) if isinstance(value, dict) else None
    return value


def first_name(values: Collection[object], path: str) -> tuple[str, str]:
    """Return the first name of a dotted path, as objects have it, and the rest of the path: a name
    may have dots itself.
    """
    objects = [each for each in values if isinstance(each, dict)]
    splits = _splits_of(path)
    for split in splits:
        for each in objects:
            if split[0] in each:
                return split
    return splits[:2][-1]


@lru_cache(maxsize=1024)
def _splits_of(path: str) -> tuple[tuple[str, str], ...]:
    """Return a path as a name alone, and split at each of its dots."""
    ends = [len(path), *(at for at, sign in enumerate(path) if sign == ".")]
    return tuple((path[:end], path[end + 1 :]) for end in ends)


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
