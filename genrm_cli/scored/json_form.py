"""Dataclasses as JSON, and back: one definition of each format for its writer, its reader and its
JSON Schema.

A field whose default is None is optional: it is written only if it is not None. All others are
always written, and required when read. Keys that a class does not declare are ignored."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from genrm_cli.json_types import Record

Json = Record
"""A JSON object, as the last step before bytes and the first step after them."""

_T = TypeVar("_T")
_Convert = Callable[[Any], Any]
_SCALARS: Mapping[object, tuple[str, tuple[type, ...], str]] = {
    str: ("a string", (str,), "string"),
    int: ("an integer", (int,), "integer"),
    float: ("a number", (int, float), "number"),
    bool: ("true or false", (bool,), "boolean"),
    NoneType: ("null", (NoneType,), "null"),
}


class FormError(ValueError):
    """A JSON value does not have the form of a class; the message names the key, and what was found
    and expected.
    """


@dataclass(frozen=True, slots=True)
class _RecordField:
    """A field of a class as a member of an object.

    Attributes:
        write: value of the field → JSON value; None if they are the same.
        is_optional: whether the member may be missing, and is not written if the value is None.
    """

    name: str
    write: _Convert | None
    read: _Convert
    schema: Json
    is_optional: bool


def to_json(record: object) -> Json:
    """Return a dataclass as a JSON object."""
    form: Any = type(record)
    names, values, checked = _writer(form)
    written: Json = dict(zip(names, values(record), strict=False))
    for member in checked:
        value = written[member.name]
        if value is None:
            if member.is_optional:
                del written[member.name]
        elif member.write is not None:
            written[member.name] = member.write(value)
    return written


@cache
def _writer(
    form: type,
) -> tuple[list[str], Callable[[object], tuple[Any, ...]], list[_RecordField]]:
    """Return the names of a class, what takes their values, and the members that are converted or
    may be left out.
    """
    members = _members(form)
    names = [member.name for member in members]
    # The class comes last: of a single name, `attrgetter` returns no tuple.
    return (
        names,
        attrgetter(*names, "__class__"),
        [each for each in members if each.is_optional or each.write],
    )


def from_json(form: type[_T], value: object) -> _T:
    """Return the dataclass or named tuple that a JSON object holds.

    Raises:
        FormError: a member is missing or has another type.
    """
    if not isinstance(value, Mapping):
        raise FormError(f"{_found(value)}; expected an object")
    values: Json = {}
    for member in _members(form):  # type: ignore[arg-type]
        if member.name in value:
            try:
                values[member.name] = member.read(value[member.name])
            except FormError as error:
                raise FormError(f"{member.name}: {error}") from None
        elif not member.is_optional:
            raise FormError(f"{member.name} is missing")
    return form(**values)


def json_schema(form: type) -> Json:
    """Return the JSON Schema of a dataclass."""
    members = _members(form)
    return {
        "type": "object",
        "description": (form.__doc__ or "").partition("\n")[0],
        "properties": {member.name: member.schema for member in members},
        "required": [member.name for member in members if not member.is_optional],
    }


def extended(form: type[_T], base: object, **own: object) -> _T:
    """Return an instance of a class, with the fields of an instance of its base and others."""
    form_of_base: Any = type(base)
    inherited = {member.name: getattr(base, member.name) for member in _members(form_of_base)}
    return form(**inherited, **own)


@cache
def _members(form: type) -> tuple[_RecordField, ...]:
    """Return the members of a class, its own before those of its bases."""
    hints = get_type_hints(form)
    if is_dataclass(form):
        optional = {field.name for field in fields(form) if field.default is None}
    else:
        defaults: Record = form._field_defaults  # type: ignore[attr-defined]
        optional = {name for name, default in defaults.items() if default is None}
    return tuple(
        _RecordField(name, *_conversion(hints[name]), is_optional=name in optional)
        for name in _names_of(form)
    )


def _names_of(form: type) -> list[str]:
    if not is_dataclass(form):
        return list(form._fields)  # type: ignore[attr-defined]
    base = form.__bases__[0]
    inherited = _names_of(base) if is_dataclass(base) else []
    return [field.name for field in fields(form) if field.name not in inherited] + inherited


def _conversion(hint: Any) -> tuple[_Convert | None, _Convert, Json]:
    """Return how values of a type are written and read, and their schema."""
    origin = get_origin(hint)
    arguments = get_args(hint)
    if hint is Any:
        return None, lambda value: value, {}
    if hint in _SCALARS:
        return _scalar(hint)
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin is Literal:
        return (
            None,
            _reader_of(arguments, f"one of {', '.join(map(repr, arguments))}"),
            {"enum": list(arguments)},
        )
    if origin is tuple:
        return _list(arguments[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _object(arguments[1])
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        values = [each.value for each in hint]
        check = _reader_of(values, f"one of {', '.join(values)}")
        return lambda value: value.value, lambda value: hint(check(value)), {"enum": values}
    return to_json, lambda value: from_json(hint, value), json_schema(hint)


def _scalar(kind: type) -> tuple[_Convert | None, _Convert, Json]:
    words, types, name = _SCALARS[kind]

    def read(value: Any) -> Any:
        if not isinstance(value, types) or (kind is not bool and isinstance(value, bool)):
            raise FormError(f"{_found(value)}; expected {words}")
        if kind is not float:
            return value
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise FormError(f"{_found(value)}; expected {words}")
        return float(value)  # type: ignore[arg-type]

    return None, read, {"type": name}


def _reader_of(values: Any, words: str) -> _Convert:
    def read(value: Any) -> Any:
        if value not in values or isinstance(value, bool):
            raise FormError(f"{_found(value)}; expected {words}")
        return value

    return read


def _union(choices: tuple[Any, ...]) -> tuple[_Convert | None, _Convert, Json]:
    converted = {choice: _conversion(choice) for choice in choices}
    writes = [write for write, _, _ in converted.values() if write is not None]
    if len(writes) > 1:
        raise TypeError(f"{choices}: values do not tell which of these types writes them")
    readers = [read for choice, (_, read, _) in converted.items() if choice is not NoneType]
    has_null = NoneType in converted

    def read(value: Any) -> Any:
        if value is None and has_null:
            return None
        problems = []
        for reader in readers:
            try:
                return reader(value)
            except FormError as error:
                problems.append(error)
        raise problems[0]

    schema = {"anyOf": [schema for _, _, schema in converted.values()]}
    return writes[0] if writes else None, read, schema


def _list(member: Any) -> tuple[_Convert | None, _Convert, Json]:
    write, read, schema = _conversion(member)

    def read_all(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise FormError(f"{_found(value)}; expected a list")
        return tuple(map(read, value))

    write_all = list if write is None else lambda value: list(map(write, value))
    return write_all, read_all, {"type": "array", "items": schema}


def _object(member: Any) -> tuple[_Convert | None, _Convert, Json]:
    write, read, schema = _conversion(member)

    def write_all(value: Any) -> Any:
        return {
            name: each if write is None or each is None else write(each)
            for name, each in value.items()
        }

    def read_all(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise FormError(f"{_found(value)}; expected an object")
        return {str(name): read(each) for name, each in value.items()}

    return (
        dict if write is None else write_all,
        read_all,
        {"type": "object", "additionalProperties": schema},
    )


def _found(value: object) -> str:
    return f"found {value!r:.60}"
