"""JSON that is not one record per line: rewrite it as lines, piece by piece, without parsing it."""

import re
from collections.abc import Iterable, Iterator

from genrm_cli.errors import InputError

_ARRAY = re.compile(rb"\[\s*(?:\{|\]\s*\Z)")
# The first line of a pretty-printed object ends inside it. The second is indented, or starts with a key or a bracket;
# after a torn line another object would start.
_PRETTY = re.compile(rb"\{(?:[^\n]*[\[{,:])?[ \t\r]*\n(?:[ \t]+\S|[\"}\]])")

_BRACKET = re.compile(rb'["\[\]{}]')
_BRACKET_OR_COMMA = re.compile(rb'["\[\]{},]')
_STRING_END = re.compile(rb'(?:[^"\\]++|\\.)*+(["\\])', re.DOTALL)


def is_array(head: bytes) -> bool:
    """Return whether a file with this start, after blanks, is one array of objects."""
    return _ARRAY.match(head) is not None


def is_pretty_printed(head: bytes) -> bool:
    """Return whether a file with this start, after blanks, has objects that span lines."""
    return _PRETTY.match(head) is not None


def iter_as_lines(chunks: Iterable[bytes], uri: str, *, in_array: bool) -> Iterator[bytes]:
    r"""Rewrite the items of an array, or consecutive objects, as one line each.

    Line breaks within an item become `\r`, which JSON allows in the same places. Items that are not JSON stay as they
    are, as does text after the array.

    Raises:
        InputError: the array or the last object is incomplete.
    """
    splitter = _Splitter(in_array=in_array)
    for chunk in chunks:
        yield b"".join(splitter.split(chunk))
    if splitter.is_open:
        kind = "array" if in_array else "object"
        raise InputError(f"{uri}: ends in the middle of a JSON {kind}; copy or write the file again")


class _Splitter:
    """A scanner that finds the ends of items; its state is that between two chunks."""

    def __init__(self, *, in_array: bool) -> None:
        self._in_array = in_array
        self._depth = 0
        self._in_string = False
        self._skip = 0  # the second byte of an escape whose backslash ended the last chunk
        self._has_ended = False

    @property
    def is_open(self) -> bool:
        """Whether an item or the array has not ended."""
        return self._depth > 0 or self._in_string

    def split(self, chunk: bytes) -> Iterator[bytes]:
        r"""Yield a chunk's pieces of items, and `\n` after each item."""
        if self._has_ended:
            yield chunk
            return
        chunk = chunk.replace(b"\n", b"\r")
        start, at = 0, self._skip
        self._skip = 0
        while found := self._find(chunk, at):
            at = found.end()
            mark = chunk[at - 1 : at]
            if mark in b'"\\':
                self._skip = int(mark == b"\\")
                self._in_string = not self._in_string if mark == b'"' else True
            elif mark in b"[{":
                self._depth += 1
                start = at if self._in_array and self._depth == 1 else start
            elif self._ends_item(mark):
                yield chunk[start : at - self._in_array] + b"\n"
                start = at
                if self._has_ended:
                    break
        yield chunk[start:]

    def _find(self, chunk: bytes, at: int) -> re.Match[bytes] | None:
        if self._in_string:
            return _STRING_END.match(chunk, at)
        return (_BRACKET_OR_COMMA if self._in_array and self._depth == 1 else _BRACKET).search(chunk, at)

    def _ends_item(self, mark: bytes) -> bool:
        """Count a closing bracket; return whether an item, or the array, ends with this bracket or comma."""
        if mark == b",":
            return True
        self._depth = max(0, self._depth - 1)
        self._has_ended = self._in_array and self._depth == 0
        return self._depth == 0
