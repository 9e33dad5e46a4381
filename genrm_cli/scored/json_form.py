"""Records as JSON, and back: one definition of each format for its writer, its reader and its
JSON Schema.

A field whose default is None is written only if it is not None; all others are always written.
When read, fields without a default are required, and keys that a class does not declare are
ignored. `msgspec` reads and describes; it writes only records without other defaults, and cannot
write the members of a class before those of its base, which people look for first."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from genrm_cli.json_types import Record

# Types and not classes: an enumeration is a text as well, and is written by its value.
_SCALARS = frozenset({str, int, float, bool, type(None)})


def to_json(record: Struct) -> Record:
    """Return a record as a JSON object."""
    form = type(record)
    if form.__struct_config__.omit_defaults:
        built: Record = msgspec.to_builtins(record)
        return built
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
    if isinstance(value, Struct):
        return to_json(value)
    return [_written(each) for each in value]


def json_schemas(forms: Sequence[type]) -> Record:
    """Return the JSON Schemas of records and of those in them, by name."""
    _, components = msgspec.json.schema_components(forms, ref_template="#/$defs/{name}")
    return components


@cache
def _members(form: Any) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a class, its own before those of its base, and which may be left out."""
    base = form.__bases__[0]
    inherited = () if base is Struct else _members(base)
    names = {name for name, _ in inherited}
    own = [(each.name, each.default is None) for each in fields(form) if each.name not in names]
    return (*own, *inherited)
