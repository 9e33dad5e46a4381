"""Lines, and lossless conversion between lines and JSON objects.

NaN and the infinities are not JSON, but Python writes them, and reads numbers such as 1e400 as
infinite. A line may contain them: they are read as null, and written back as null. Half of a
surrogate pair is no character, but a policy may write one: it is read as U+FFFD, and written back
as it was."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, Self

import orjson

from genrm_cli.errors import BadInputLineError
from genrm_cli.json_types import Record, whole_characters
from genrm_cli.texts.late_pattern import late_pattern

EXCERPT_BYTES = 200  # of an oversize line, to recognise it by
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EXCERPT_WITH_MARK = EXCERPT_BYTES + len(_BYTE_ORDER_MARK)


class Line(NamedTuple):
    r"""A non-blank line of an input.

    Attributes:
        number: line number from 1; blank lines count.
        raw: the line without its line ending and byte-order mark; the first 200 bytes of an
            oversize line.
        oversize: None, or the length in bytes of a line over the limit, without its `\n`.
    """

    number: int
    raw: bytes
    oversize: int | None = None

    @classmethod
    def of_item(cls, number: int, raw: bytes, max_bytes: int) -> Self:
        """Return an item of another container, marked if it is over the limit."""
        if len(raw) <= max_bytes:
            return cls(number, raw)
        return cls(number, raw[:EXCERPT_BYTES], len(raw))


def iter_lines(chunks: Iterable[bytes], max_line_bytes: int) -> Iterator[Line]:
    r"""Yield the non-blank lines of a stream; the last line needs no newline.

    Only `\n` ends a line, as U+2028 and U+0085 occur in JSON strings. A line over `max_line_bytes`
    is marked oversize and never held in memory."""
    number = held_bytes = 0
    held: list[bytes] = []  # pieces of a line that started in an earlier chunk
    for chunk in chain(chunks, (b"\n",)):
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            number += 1
            length = held_bytes + len(piece)
            raw = b"".join((*held, piece)) if held else piece
            if line := _line(number, raw, length, max_line_bytes):
                yield line
            if held:
                held = []
                held_bytes = 0
        if rest:
            held_bytes += len(rest)
            if held_bytes <= max_line_bytes:
                held.append(rest)
            elif len(held) != 1 or len(held[0]) != _EXCERPT_WITH_MARK:
                held = [b"".join((*held, rest))[:_EXCERPT_WITH_MARK]]


def _line(number: int, raw: bytes, length: int, max_line_bytes: int) -> Line | None:
    if number == 1 and raw.startswith(_BYTE_ORDER_MARK):
        raw = raw[len(_BYTE_ORDER_MARK) :]
    if length > max_line_bytes:
        return Line(number, raw[:EXCERPT_BYTES], length)
    if raw.endswith(b"\r"):
        raw = raw[:-1]
    if not raw or raw.isspace():
        return None
    return Line(number, raw)


MAX_DEPTH = 254  # orjson writes no deeper nesting than this
# A number this long may not fit 64 bits or a double; orjson keeps the value of any shorter one.
_LONG_NUMBER = b"0" * 18
# A half surrogate as an escape, without its other half; rarely also what follows a backslash.
_HALF = late_pattern(
    rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F])"
)
_DIGITS = bytes(ord("0") if chr(byte) in "0123456789." else ord(" ") for byte in range(256))


class BadLineError(BadInputLineError):
    """A line is not a JSON object; the message names the actual content."""


def parse_record(
    raw: bytes, on_null: Callable[[str], object] = str, *, keeps_halves: bool = False
) -> Record:
    """Parse a line as a JSON object, or raise `BadLineError`; the last value of a repeated key
    counts.

    Integers beyond 64 bits become floats; use `exact_record` for a record that will be written.
    `on_null` is called with each value that is no finite number and therefore becomes null.
    `keeps_halves` leaves half surrogates in the texts, for `render_record`."""
    record = _parse_value(raw, on_null, keeps_halves=keeps_halves)
    if isinstance(record, dict):
        return record
    kind = "a bare value"
    if isinstance(record, list):
        kind = "a list"
    elif isinstance(record, str):
        kind = "a string"
    raise BadLineError(f"JSON, but {kind} instead of an object")


def _parse_value(raw: bytes, on_null: Callable[[str], object], *, keeps_halves: bool) -> object:
    try:
        value = orjson.loads(raw)
        if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
            orjson.dumps(value)
    except orjson.JSONDecodeError as error:
        if (found := _parse_tolerantly(raw)) is not None:
            for each in found.nulls:
                on_null(each)
            return found.value if keeps_halves else found.whole
        what = f"not JSON: {error.msg.partition(': line ')[0]}"
        place = error.pos + 1
        try:
            raw.decode()
        except UnicodeDecodeError as bad:
            place = bad.start + 1
            what = (
                "not UTF-8 text; if it is Latin-1, convert the file with iconv -f LATIN1 -t UTF-8"
            )
        raise BadLineError(f"{what}, at character {place}", kind=what) from error
    except orjson.JSONEncodeError as error:
        raise BadLineError(f"nested more than {MAX_DEPTH} levels deep") from error
    return value


def exact_record(raw: bytes, parsed: Record) -> Record:
    """Return the record of a line, so that `render_record` reproduces every number and text: what
    `parse_record` returned, or one whose long numbers can only be written.
    """
    if _LONG_NUMBER not in raw.translate(_DIGITS) and not _HALF.search(raw):
        return parsed
    record: Record = json.loads(
        raw, parse_int=_as_written, parse_float=_as_written, parse_constant=lambda name: None
    )
    return record


def render_value(value: object) -> bytes:
    """Render a JSON value, half surrogates as escapes."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_escaped(value))


def render_record(record: Record) -> bytes:
    """Render a JSON object as one line with its newline."""
    return render_value(record) + b"\n"


def render_document(record: Record) -> bytes:
    """Render a JSON object indented, with a final newline."""
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2)


def _as_written(number: str) -> object:
    if math.isinf(float(number)):
        return None
    # Short numbers stay numbers for code that inspects the record.
    return orjson.loads(number) if len(number) < 18 else orjson.Fragment(number)


def _escaped(value: object) -> object:
    """Return a value that orjson can write: it refuses half surrogates, which ASCII can name."""
    if isinstance(value, str):
        return orjson.Fragment(json.dumps(value))
    if isinstance(value, dict):
        members = [
            json.dumps(name).encode() + b":" + orjson.dumps(_escaped(each))
            for name, each in value.items()
        ]
        return orjson.Fragment(b"{" + b",".join(members) + b"}")
    return list(map(_escaped, value)) if isinstance(value, list) else value


class _Tolerated(NamedTuple):
    """JSON as Python reads it, the same in whole characters, and what became null in both."""

    value: object
    whole: object
    nulls: list[str]


def _parse_tolerantly(raw: bytes) -> _Tolerated | None:
    """Read JSON that contains NaN, infinities or half surrogates; None if it is invalid in any
    other way.
    """
    nulls: list[str] = []

    def null(text: str) -> object:
        nulls.append(text)
        return None

    def number_or_null(text: str) -> object:
        return null(text) if math.isinf(float(text)) else orjson.loads(text)

    try:
        value: object = json.loads(
            raw.decode(), parse_int=number_or_null, parse_float=number_or_null, parse_constant=null
        )
        whole = whole_characters(value)
        orjson.dumps(whole)  # refuses deep nesting, which json accepts
    except (ValueError, RecursionError, orjson.JSONEncodeError):
        return None
    return _Tolerated(value, whole, nulls) if nulls or whole != value else None
