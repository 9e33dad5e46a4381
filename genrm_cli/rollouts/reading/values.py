"""Values of JSON: their texts, their kinds, and what stands at a path."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard, TypeVar

from genrm_cli.json_types import JsonObject, Record, first_name, whole_characters

T = TypeVar("T")


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text: the names of a list."""
    return tuple(text.split())


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    type(None): "null",
}
# An object with one of these holds its text there; any other holds it in all of its fields.
_TEXT_KEYS = words("content text value message output response parts")


def distinct(values: Iterable[T], covers: Callable[[T, T], bool]) -> list[T]:
    """Return the values that no other covers; of values that cover each other, the first."""
    order = list(values)
    if len(order) < 2:
        return order
    return [
        each
        for at, each in enumerate(order)
        if not any(
            covers(other, each) and (before < at or not covers(each, other))
            for before, other in enumerate(order)
            if before != at
        )
    ]


def kind_of(value: object) -> str:
    """Describe the type of a JSON value."""
    return _KINDS.get(type(value), "a number")


def text_or_empty(value: object) -> str:
    """Return a text unchanged, and anything else as an empty text."""
    return value if isinstance(value, str) else ""


def list_or_empty(value: object) -> list[Any]:
    """Return a list unchanged, and anything else as an empty list."""
    return value if isinstance(value, list) else []


def object_or_empty(value: object) -> JsonObject:
    """Return an object unchanged, and anything else as an empty object."""
    return value if isinstance(value, dict) else {}


def json_of(value: object) -> str:
    """Return the JSON text of a value of a line, without the members that are null: Arrow writes
    them into objects of other shapes that share a column, and nobody else did.
    """
    return json.dumps(_without_nulls(value), ensure_ascii=False)


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


def objects_in(value: object) -> list[Record]:
    """Return the objects of a list; none for anything else."""
    return [each for each in list_or_empty(value) if isinstance(each, dict)]


def is_objects(value: object) -> TypeGuard[list[Record]]:
    """Whether a value is a list of objects, which may be empty."""
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def first_text(value: JsonObject, names: Iterable[str]) -> str:
    """Return the first of these fields that is a text and not empty; empty if none is."""
    return next(filter(None, (text_or_empty(value.get(name)) for name in names)), "")


def iter_strings(value: object) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from iter_strings(each)


def iter_texts(value: object) -> Iterator[str]:
    """Yield the texts of a value that are not blank: of a text, messages, content parts, or lists
    of these.
    """
    if isinstance(value, str):
        if text := value.strip():
            yield text
    elif isinstance(value, list):
        for each in value:
            yield from iter_texts(each)
    elif isinstance(value, dict):
        for name in [name for name in _TEXT_KEYS if name in value] or value:
            yield from iter_texts(value[name])


def has_text(value: object) -> bool:
    """Whether a value holds any text that is not blank."""
    return next(iter_texts(value), None) is not None


def json_in(text: str) -> object:
    """Return the list or object whose JSON text this is; None for any other text."""
    if not text.startswith(("[", "{")) or not text.rstrip().endswith(("]", "}")):
        return None
    try:
        value = json.loads(text)
        # An escape may hold half a character.
        value = whole_characters(value) if "\\u" in text else value
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, (list, dict)) else None


def is_messages(value: object) -> TypeGuard[list[Record]]:
    """Whether a value is a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and ("role" in each or "from" in each) for each in value)
    )


def messages_in(value: object) -> object:
    """Return a value; messages that are written as JSON text, as in tables, are read."""
    inner = json_in(value) if isinstance(value, str) else None
    return inner if is_messages(inner) else value


def lists_on(record: JsonObject, path: str) -> list[list[object]]:
    """Return the lists that a dotted path goes through, the outer ones first."""
    return [value for value, _ in _iter_steps(record, path) if isinstance(value, list)]


def values_at(record: JsonObject, path: str) -> object:
    """Return the value of a field, or at a dotted path that may go through lists; None if there is
    none.
    """
    if path in record:  # most paths, several of each line
        return record[path]
    value: object = record
    for value, name in _iter_steps(record, path):
        value = _value_of(value, name)
    return value


def names_on(record: JsonObject, path: str) -> list[str]:
    """Return the names that a dotted path consists of in a line, as a name may have dots itself."""
    return [name for _, name in _iter_steps(record, path)]


def _iter_steps(record: JsonObject, path: str) -> Iterator[tuple[object, str]]:
    """Yield each value on a path, and the name that is next."""
    value: object = record
    rest = path
    while rest:
        name, rest = first_name(value if isinstance(value, list) else [value], rest)
        yield value, name
        value = _value_of(value, name)


def _value_of(value: object, name: str) -> object:
    if isinstance(value, list):
        return [each.get(name) for each in objects_in(value)]
    return object_or_empty(value).get(name)
