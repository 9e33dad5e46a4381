"""Bytes to lines, lazily: numbered, placed, and bounded in length."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

EXCERPT_BYTES = 200
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EXCERPT_WITH_MARK = EXCERPT_BYTES + len(_BYTE_ORDER_MARK)


class Line(NamedTuple):
    r"""One line of an input that is not blank.

    Attributes:
        number: counts physical lines from 1, blank ones included.
        offset: where `raw` begins in the decompressed bytes.
        raw: the line without its newline, without one carriage return before it, without a byte-order mark;
            of an oversize line only the first 200 bytes.
        oversize: None, or the length in bytes of a line that is over the limit (all before its `\n`).
    """

    number: int
    offset: int
    raw: bytes
    oversize: int | None = None


def iter_lines(chunks: Iterable[bytes], max_line_bytes: int) -> Iterator[Line]:
    r"""Yield the lines of a stream that are not blank; a last line needs no newline.

    Only `\n` ends a line: U+2028 and U+0085 stand inside real JSON strings. A line over `max_line_bytes` is
    marked oversize and never held in memory; reading goes on after it.
    """
    number = offset = held_bytes = 0
    held: list[bytes] = []  # the pieces of a line that began in an earlier chunk
    for chunk in chain(chunks, (b"\n",)):
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            number += 1
            length = held_bytes + len(piece)
            raw = b"".join((*held, piece)) if held else piece
            if line := _line(number, offset, raw, length, max_line_bytes):
                yield line
            offset += length + 1
            if held:
                held, held_bytes = [], 0
        if rest:
            held_bytes += len(rest)
            if held_bytes <= max_line_bytes:
                held.append(rest)
            elif len(held) != 1 or len(held[0]) != _EXCERPT_WITH_MARK:
                held = [b"".join((*held, rest))[:_EXCERPT_WITH_MARK]]


def _line(number: int, offset: int, raw: bytes, length: int, max_line_bytes: int) -> Line | None:
    """Make the line, or None of a blank one."""
    if number == 1 and raw.startswith(_BYTE_ORDER_MARK):
        raw = raw[len(_BYTE_ORDER_MARK) :]
        offset += len(_BYTE_ORDER_MARK)
    if length > max_line_bytes:
        return Line(number, offset, raw[:EXCERPT_BYTES], length)
    if raw.endswith(b"\r"):
        raw = raw[:-1]
    if not raw or raw.isspace():
        return None
    return Line(number, offset, raw)
