"""Files that are not JSON lines: other containers of records, and files that are refused."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import BinaryIO

import orjson

from genrm_cli.errors import InputError
from genrm_cli.storage.encoding.eval_logs import TORCH_ADVICE, iter_samples, refusal
from genrm_cli.storage.encoding.parquet import iter_rows
from genrm_cli.storage.encoding.records import Line, iter_lines

HEAD_BYTES = 1 << 20  # the first line of a pretty-printed object may be long

_BLANKS = b"\xef\xbb\xbf \t\r\n"
_BINARY: dict[bytes, Callable[[BinaryIO, str, int], Iterator[Line]]] = {
    b"PAR1": iter_rows,
    b"PK\x03\x04": iter_samples,
    b"PK\x05\x06": iter_samples,  # an archive without entries
}
_UTF_16 = ("UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8 {file} > {new}")
_PICKLE = ("a Python pickle, as torch.save writes", TORCH_ADVICE)
# Prefixes of files without readable records, with a description and a remedy.
_REFUSED = {
    rb"\x1f\x8b": ("compressed with gzip", "rename it: mv {file} {file}.gz"),
    rb"\x28\xb5\x2f\xfd": ("compressed with zstandard", "rename it: mv {file} {file}.zst"),
    rb"\x80[\x02-\x05]": _PICKLE,
    rb"\xff\xfe|\xfe\xff|[\[{]\x00|\x00[\[{]": _UTF_16,
}
# The same for text files, by their prefix without blanks; the first line of a table names its
# columns.
_REFUSED_TEXTS = {
    rb"(?i)<!doctype html|<html": (
        "an HTML page, perhaps an error or a login page",
        "download the file again",
    ),
    rb"<\?xml|<Error>": ("XML, perhaps an error of a store", "download the file again"),
    rb"version https://git-lfs": ("a Git LFS pointer", "fetch the file itself: git lfs pull"),
}
_COLUMN = rb'(?:"[^"\r\n]{1,99}"|[A-Za-z_][\w .:-]{0,99})'
_TABLE = re.compile(rb"%b(?:([,;\t|])%b)(?:\1%b)*\r?\n(?!\{)" % (_COLUMN, _COLUMN, _COLUMN))
_TABLE_NAMES = {".csv": b",", ".tsv": b"\t"}


class Container:
    """How a file stores its records.

    Attributes:
        is_packed: whether its records may be larger than the file.
    """

    def __init__(self, uri: str, head: bytes) -> None:
        self._uri = uri
        self._read_binary = next(
            (read for mark, read in _BINARY.items() if head.startswith(mark)), None
        )
        start = head.lstrip(_BLANKS)
        for marks, beginning in ((_REFUSED, head), (_REFUSED_TEXTS, start)):
            for mark, (kind, advice) in marks.items():
                if re.match(mark, beginning):
                    raise refusal(uri, kind, advice)
        delimiter = _delimiter_of(uri, start)
        if self._read_binary is None and delimiter is not None:
            self._read_binary = partial(_iter_table, delimiter=delimiter.decode())
        self._in_array = _ARRAY.match(start) is not None
        self._rewrites = self._read_binary is None and (
            self._in_array or _PRETTY.match(start) is not None
        )
        self.is_packed = self._read_binary is not None
        self.unit = "item" if self.is_packed or self._rewrites else "line"

    def iter_records(
        self, file: Callable[[], BinaryIO], chunks: Iterable[bytes], max_bytes: int
    ) -> Iterator[Line]:
        """Yield the numbered records, from a seekable file or from its bytes, as the container
        needs.
        """
        if self._read_binary is not None:
            return self._read_binary(file(), self._uri, max_bytes)
        if self._rewrites:
            chunks = iter_as_lines(chunks, self._uri, in_array=self._in_array)
        return iter_lines(chunks, max_bytes)


def _delimiter_of(uri: str, start: bytes) -> bytes | None:
    """Return the delimiter of a text table; None if a file neither looks like one nor is named like
    one.
    """
    if (heading := _TABLE.match(start)) is not None:
        return heading[1]
    name = uri.removesuffix(".gz").removesuffix(".zst").lower()
    return None if start.startswith((b"{", b"[")) else _TABLE_NAMES.get(name[-4:])


_ARRAY = re.compile(rb"\[\s*(?:\{|\]\s*\Z)")
# The first line of a pretty-printed object ends inside it. The second is indented, or starts with a
# key or a bracket; after a torn line another object would start.
_PRETTY = re.compile(rb"\{(?:[^\n]*[\[{,:])?[ \t\r]*\n(?:[ \t]+\S|[\"}\]])")

_BRACKET = re.compile(rb'["\[\]{}]')
_BRACKET_OR_COMMA = re.compile(rb'["\[\]{},]')
_STRING_END = re.compile(rb'(?:[^"\\]++|\\.)*+(["\\])', re.DOTALL)


def iter_as_lines(chunks: Iterable[bytes], uri: str, *, in_array: bool) -> Iterator[bytes]:
    r"""Rewrite the items of an array, or consecutive objects, as one line each.

    Line breaks within an item become `\r`, which JSON allows in the same places. Items that are not
    JSON stay as they are, as does text after the array."""
    splitter = _Splitter(in_array=in_array)
    for chunk in chunks:
        yield b"".join(splitter.split(chunk))
    if splitter.is_open:
        kind = "array" if in_array else "object"
        raise InputError(
            f"{uri}: ends in the middle of a JSON {kind}; copy or write the file again"
        )


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
        start = 0
        at = self._skip
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
        return (_BRACKET_OR_COMMA if self._in_array and self._depth == 1 else _BRACKET).search(
            chunk, at
        )

    def _ends_item(self, mark: bytes) -> bool:
        """Count a closing bracket; return whether an item, or the array, ends with this bracket or
        comma.
        """
        if mark == b",":
            return True
        self._depth = max(0, self._depth - 1)
        self._has_ended = self._in_array and self._depth == 0
        return self._depth == 0


def _iter_table(file: BinaryIO, uri: str, max_bytes: int, *, delimiter: str) -> Iterator[Line]:
    """Yield the rows of a text table as JSON objects, numbered from 1; a row over `max_bytes` is
    marked oversize.
    """
    # The module limits fields to 128 KiB, for all of its readers.
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        names = next(rows, [])
        if len(set(names)) < len(names) or not all(names):
            raise InputError(
                f"{uri}: the columns of a table need a name each, expected them in its first row"
            )
        for number, row in enumerate(filter(None, rows), 1):
            if len(row) != len(names):
                raise InputError(
                    f"{uri}: row {number} has {len(row)} fields, but the first row names "
                    f"{len(names)}"
                )
            raw = orjson.dumps(dict(zip(names, row, strict=True)))
            yield Line.of_item(number, raw, max_bytes)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(
            f"{uri}: cannot be read as a table ({error}); save it as UTF-8 text again"
        ) from error
    finally:
        text.detach()
