"""Files that are not JSON lines: other containers of records, and files that are refused."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import BinaryIO

import orjson
from msgspec import Struct

from genrm_cli.errors import InputError
from genrm_cli.storage.encoding.eval_logs import TORCH_ADVICE, iter_samples, refusal
from genrm_cli.storage.encoding.parquet import iter_rows
from genrm_cli.storage.encoding.records import Line
from genrm_cli.texts.late_pattern import late_pattern

HEAD_BYTES = 1 << 20  # the first line of a pretty-printed object may be long

_BLANKS = b"\xef\xbb\xbf \t\r\n"
ReadPacked = Callable[[BinaryIO, str, int], Iterator[Line]]
"""Yields the numbered records of a seekable file, by its URI and the most bytes of a record."""

_BINARY: dict[bytes, ReadPacked] = {
    b"PAR1": iter_rows,
    b"PK\x03\x04": iter_samples,
    b"PK\x05\x06": iter_samples,  # an archive without entries
}
# UTF-32 first, as its mark begins with that of UTF-16. Without a mark, the order of bytes is said.
_ENCODINGS = {
    rb"\xff\xfe\0\0|\0\0\xfe\xff": "UTF-32",
    rb"[\[{]\0{3}": "UTF-32LE",
    rb"\0{3}[\[{]": "UTF-32BE",
    rb"\xff\xfe|\xfe\xff": "UTF-16",
    rb"[\[{]\0": "UTF-16LE",
    rb"\0[\[{]": "UTF-16BE",
}
_PICKLE = ("a Python pickle, as torch.save writes", TORCH_ADVICE)
# Prefixes of files without readable records, with a description and a remedy.
_REFUSED = {
    rb"\x1f\x8b": ("compressed with gzip", "rename it: mv {file} {file}.gz"),
    rb"\x28\xb5\x2f\xfd": ("compressed with zstandard", "rename it: mv {file} {file}.zst"),
    rb"\x80[\x02-\x05]": _PICKLE,
    **{
        mark: (f"{name} text", f"convert it to UTF-8: iconv -f {name} -t UTF-8 {{file}} > {{new}}")
        for mark, name in _ENCODINGS.items()
    },
}
# The same for text files, by their prefix without blanks; the first line of a table names its
# columns.
_REFUSED_TEXTS = {
    rb"(?i)<!doctype html|<html|<\?xml|<Error>": (
        "HTML or XML, perhaps an error or a login page",
        "download the file again",
    ),
    rb"version https://git-lfs": ("a Git LFS pointer", "fetch the file itself: git lfs pull"),
}
_COLUMN = rb'(?:"[^"\r\n]{1,99}"|[A-Za-z_][\w .:-]{0,99})'
_TABLE = late_pattern(rb"%b(?:([,;\t|])%b)(?:\1%b)*\r?\n(?!\{)" % (_COLUMN, _COLUMN, _COLUMN))
_TABLE_NAMES = {".csv": b",", ".tsv": b"\t"}


class Container(Struct, frozen=True):
    """How a file stores its records.

    Attributes:
        read_packed: reads the records, which may be larger than the file; None for text.
        in_array: of text, whether it is an array, or else pretty-printed objects; None for lines.
    """

    read_packed: ReadPacked | None
    in_array: bool | None

    @property
    def unit(self) -> str:
        """What its records are."""
        return "line" if self.read_packed is None and self.in_array is None else "item"


def find_container(uri: str, head: bytes) -> Container:
    """Return how a file stores its records, by its first bytes; `InputError` if there are none."""
    start = head.lstrip(_BLANKS)
    for marks, beginning in ((_REFUSED, head), (_REFUSED_TEXTS, start)):
        for mark, (kind, advice) in marks.items():
            if re.match(mark, beginning):
                raise refusal(uri, kind, advice)
    for mark, read in _BINARY.items():
        if head.startswith(mark):
            return Container(read, None)
    delimiter = _delimiter_of(uri, start)
    if delimiter is not None:
        return Container(partial(_iter_table, delimiter=delimiter.decode()), None)
    if _ARRAY.match(start):
        return Container(None, in_array=True)
    return Container(None, False if _PRETTY.match(start) else None)


def _delimiter_of(uri: str, start: bytes) -> bytes | None:
    """Return the delimiter of a text table; None if a file neither looks like one nor is named like
    one.
    """
    if (heading := _TABLE.match(start)) is not None:
        return heading[1]
    name = uri.removesuffix(".gz").removesuffix(".zst").lower()
    return None if start.startswith((b"{", b"[")) else _TABLE_NAMES.get(name[-4:])


_ARRAY = late_pattern(rb"\[\s*(?:\{|\]\s*\Z)")
# The first line of a pretty-printed object ends inside it. The second is indented, or starts with a
# key or a bracket; after a torn line another object would start.
_PRETTY = late_pattern(rb"\{(?:[^\n]*[\[{,:])?[ \t\r]*\n(?:[ \t]+\S|[\"}\]])")

_BRACKET = late_pattern(rb'["\[\]{}]')
_BRACKET_OR_COMMA = late_pattern(rb'["\[\]{},]')
_STRING_END = late_pattern(rb'(?:[^"\\]++|\\.)*+(["\\])', re.DOTALL)


def iter_as_lines(chunks: Iterable[bytes], uri: str, *, in_array: bool) -> Iterator[bytes]:
    r"""Rewrite the items of an array, or consecutive objects, as one line each.

    Line breaks within an item become `\r`, which JSON allows in the same places. Items that are not
    JSON stay as they are, as does text after the array."""
    depth = 0
    in_string = False
    skip = 0  # the second byte of an escape whose backslash ended the last chunk
    rest = iter(chunks)
    for chunk in rest:
        chunk = chunk.replace(b"\n", b"\r")
        pieces = []
        start = 0
        at = skip
        skip = 0
        while found := _find_mark(chunk, at, in_string, in_array and depth == 1):
            at = found.end()
            mark = chunk[at - 1 : at]
            if mark == b"\\":
                skip = 1
            elif mark == b'"':
                in_string = not in_string
            elif mark in b"[{":
                depth += 1
                if in_array and depth == 1:
                    start = at
            else:
                if mark != b",":
                    depth = max(0, depth - 1)
                if mark == b"," or depth == 0:
                    pieces.append(chunk[start : at - in_array] + b"\n")
                    start = at
                if in_array and depth == 0:
                    break
        yield b"".join((*pieces, chunk[start:]))
        if found and depth == 0:  # the array has ended
            yield from rest
    if depth > 0 or in_string:
        kind = "array" if in_array else "object"
        raise InputError(
            f"{uri}: ends in the middle of a JSON {kind}; copy or write the file again"
        )


def _find_mark(chunk: bytes, at: int, in_string: bool, is_item: bool) -> re.Match[bytes] | None:
    """Return the next byte that ends a string or changes the depth; between items, also a comma."""
    if in_string:
        return _STRING_END.match(chunk, at)
    return (_BRACKET_OR_COMMA if is_item else _BRACKET).search(chunk, at)


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
                    f"{len(names)}; quote fields that hold the delimiter"
                )
            raw = orjson.dumps(dict(zip(names, row, strict=True)))
            yield Line.of_item(number, raw, max_bytes)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(
            f"{uri}: cannot be read as a table ({error}); save it as UTF-8 text again"
        ) from error
    finally:
        text.detach()
