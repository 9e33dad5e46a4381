"""Lazy splitting of bytes into numbered lines of limited length."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

EXCERPT_BYTES = 200
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EXCERPT_WITH_MARK = EXCERPT_BYTES + len(_BYTE_ORDER_MARK)


class Line(NamedTuple):
    r"""A non-blank line of an input.

    Attributes:
        number: line number from 1; blank lines count.
        raw: the line without its line ending and byte-order mark; the first 200 bytes of an oversize line.
        oversize: None, or the length in bytes of a line over the limit, without its `\n`.
    """

    number: int
    raw: bytes
    oversize: int | None = None


def iter_lines(chunks: Iterable[bytes], max_line_bytes: int) -> Iterator[Line]:
    r"""Yield the non-blank lines of a stream; the last line needs no newline.

    Only `\n` ends a line, as U+2028 and U+0085 occur in JSON strings. A line over `max_line_bytes` is marked oversize
    and never held in memory.
    """
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
                held, held_bytes = [], 0
        if rest:
            held_bytes += len(rest)
            if held_bytes <= max_line_bytes:
                held.append(rest)
            elif len(held) != 1 or len(held[0]) != _EXCERPT_WITH_MARK:
                held = [b"".join((*held, rest))[:_EXCERPT_WITH_MARK]]


def _line(number: int, raw: bytes, length: int, max_line_bytes: int) -> Line | None:
    """Return the line, or None if it is blank."""
    if number == 1 and raw.startswith(_BYTE_ORDER_MARK):
        raw = raw[len(_BYTE_ORDER_MARK) :]
    if length > max_line_bytes:
        return Line(number, raw[:EXCERPT_BYTES], length)
    if raw.endswith(b"\r"):
        raw = raw[:-1]
    if not raw or raw.isspace():
        return None
    return Line(number, raw)
