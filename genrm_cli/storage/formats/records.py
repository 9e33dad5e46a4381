"""Lines to JSON objects and back, losing nothing."""

import json
import re
from typing import Any

import orjson

MAX_DEPTH = 254  # orjson writes no deeper nesting than this
# A number this long may not fit 64 bits, or a double; anything shorter survives orjson unchanged in value.
_LONG_NUMBER = re.compile(rb"[0-9.]{18}")


class BadLineError(ValueError):
    """A line is not a JSON object; the message says what it is."""


def parse_record(raw: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object; of a key given twice the last value counts.

    Integers beyond 64 bits become floats: use `parse_record_exactly` for a record that is written again.

    Raises:
        BadLineError: it is no JSON object, has NaN or a lone surrogate in it, or is nested too deeply.
    """
    record = parse_value(raw)
    if not isinstance(record, dict):
        raise BadLineError(f"JSON, but {_kind(record)} instead of an object")
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        _refuse_deep_nesting(record)
    return record


def parse_value(raw: bytes) -> object:
    """Parse any JSON value.

    Raises:
        BadLineError: it is no JSON.
    """
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadLineError(f"not JSON: {error.msg.partition(': line ')[0]}, at character {error.pos + 1}") from error
    return value


def parse_record_exactly(raw: bytes) -> dict[str, Any]:
    """Parse a line that `parse_record` accepts so that `render_record` writes every number as it was."""
    if _LONG_NUMBER.search(raw) is None:
        return parse_record(raw)
    record: dict[str, Any] = json.loads(raw, parse_int=_as_written, parse_float=_as_written)
    return record


def render_record(record: dict[str, Any]) -> bytes:
    """Render a JSON object as one line, newline included."""
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def render_document(record: dict[str, Any]) -> bytes:
    """Render a JSON object for a person to read, newline included."""
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2)


def _as_written(number: str) -> object:
    # Short ones stay numbers, so that code which looks at a record finds what it expects.
    return orjson.loads(number) if len(number) < 18 else orjson.Fragment(number)


def _refuse_deep_nesting(record: dict[str, Any]) -> None:
    try:
        orjson.dumps(record)
    except orjson.JSONEncodeError as error:
        raise BadLineError(f"nested more than {MAX_DEPTH} levels deep") from error


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "a string" if isinstance(value, str) else "a bare value"
