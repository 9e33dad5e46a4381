"""Records as JSON, and back: one definition of each format for its writer, its reader and its
JSON Schema.

A field whose default is None is written only if it is not None; all others are always written.
When read, fields without a default are required, and keys that a class does not declare are
ignored. `msgspec` reads and describes; it cannot leave out members of dataclasses, or write those
of a class before those of its base, which people look for first."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

import msgspec

from genrm_cli.json_types import Record

_T = TypeVar("_T")
# Types and not classes: an enumeration is a text as well, and is written by its value.
_SCALARS = frozenset({str, int, float, bool, type(None)})


def to_json(record: object) -> Record:
    """Return a dataclass or a `msgspec.Struct` as a JSON object."""
    if isinstance(record, msgspec.Struct):
        built: Record = msgspec.to_builtins(record)
        return built
    form: Any = type(record)
    written: Record = {}
    for name, is_optional in _members(form):
        value = getattr(record, name)
        if value is not None or not is_optional:
            written[name] = _written(value)
    return written


def _written(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping):
        return {name: _written(each) for name, each in value.items()}
    if isinstance(value, StrEnum):
        return value.value
    if is_dataclass(value) or isinstance(value, msgspec.Struct):
        return to_json(value)
    return [_written(each) for each in value]


def json_schemas(forms: Sequence[type]) -> Record:
    """Return the JSON Schemas of dataclasses and of those in them, by name."""
    _, components = msgspec.json.schema_components(forms, ref_template="#/$defs/{name}")
    return components


def extended(form: type[_T], base: object, **own: object) -> _T:
    """Return an instance of a class, with the fields of an instance of its base and others."""
    form_of_base: Any = type(base)
    inherited = {name: getattr(base, name) for name, _ in _members(form_of_base)}
    return form(**inherited, **own)


@cache
def _members(form: Any) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a class, its own before those of its base, and which may be left out."""
    base = form.__bases__[0]
    inherited = _members(base) if is_dataclass(base) else ()  # type: ignore[arg-type]
    names = {name for name, _ in inherited}
    own = [(each.name, each.default is None) for each in fields(form) if each.name not in names]
    return (*own, *inherited)
