"""Text tables (CSV, TSV): read each row as a record with the names of the first row."""

import csv
import io
from collections.abc import Iterator
from typing import BinaryIO

import orjson

from genrm_cli.errors import InputError
from genrm_cli.storage.encoding.records import EXCERPT_BYTES, Line


def iter_table(file: BinaryIO, uri: str, max_bytes: int, *, delimiter: str) -> Iterator[Line]:
    """Yield the rows as JSON objects of texts, numbered from 1; a row over `max_bytes` is marked oversize.

    Raises:
        InputError: it is not UTF-8, columns have no names of their own, or a row has more or fewer fields than these.
    """
    # The module limits fields to 128 KiB, for all of its readers.
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        names = next(rows, [])
        if len(set(names)) < len(names) or not all(names):
            raise InputError(f"{uri}: the columns of a table need a name each, expected them in its first row")
        for number, row in enumerate(filter(None, rows), 1):
            if len(row) != len(names):
                raise InputError(f"{uri}: row {number} has {len(row)} fields, but the first row names {len(names)}")
            raw = orjson.dumps(dict(zip(names, row, strict=True)))
            yield Line(number, raw) if len(raw) <= max_bytes else Line(number, raw[:EXCERPT_BYTES], len(raw))
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{uri}: cannot be read as a table ({error}); save it as UTF-8 text again") from error
    finally:
        text.detach()
