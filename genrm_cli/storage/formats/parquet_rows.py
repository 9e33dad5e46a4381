"""Parquet files: each row is a record."""

import base64
from collections.abc import Iterator
from typing import BinaryIO

import orjson

from genrm_cli.errors import InputError
from genrm_cli.storage.formats.lines import EXCERPT_BYTES, Line

_BATCH_ROWS = 64  # a row may hold megabytes


def iter_rows(file: BinaryIO, uri: str, max_bytes: int) -> Iterator[Line]:
    """Yield the rows as JSON, numbered from 1; a row over `max_bytes` is marked oversize.

    Dates become ISO texts, bytes become base64, and NaN becomes null.

    Raises:
        InputError: pyarrow is not installed, or the file is damaged.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(f"{uri}: reading Parquet needs pyarrow: pip install 'genrm-cli[parquet]'") from error
    number = 0
    try:
        with parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20) as opened:
            for batch in opened.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    raw = orjson.dumps(row, default=_plain)
                    yield Line(number, raw) if len(raw) <= max_bytes else Line(number, raw[:EXCERPT_BYTES], len(raw))
    except (arrow.ArrowException, OSError, orjson.JSONEncodeError) as error:
        raise InputError(f"{uri}: cannot be read as Parquet ({error}); copy or write it again") from error


def _plain(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
