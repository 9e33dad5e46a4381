"""Parquet files: read each row as a record, and write records as rows."""

import base64
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO

import orjson

from genrm_cli.errors import InputError, UsageError, how_to_install
from genrm_cli.json_types import Record
from genrm_cli.storage.encoding.codec import CHUNK_BYTES
from genrm_cli.storage.encoding.records import Line, parse_record
from genrm_cli.storage.spool import temporary_error

_BATCH_ROWS = 64  # a row may hold megabytes
_WRITTEN_ROWS = 1_024  # of one batch


def iter_rows(file: BinaryIO, uri: str, max_bytes: int) -> Iterator[Line]:
    """Yield the rows as JSON: dates as ISO texts, bytes as base64, NaN as null; those over
    `max_bytes` are oversize.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"{uri}: reading Parquet needs pyarrow: {how_to_install('parquet')}"
        ) from error
    number = 0
    try:
        with parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20) as opened:
            for batch in opened.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    raw = orjson.dumps(row, default=_plain)
                    yield Line.of_item(number, raw, max_bytes)
    except (arrow.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"{uri}: cannot be read as Parquet ({error}); copy or write it again"
        ) from error


def _plain(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def require_parquet(uri: str) -> None:
    """Refuse an output in an environment that cannot write Parquet."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"{uri}: writing Parquet needs pyarrow: {how_to_install('parquet')}"
        ) from error


def write_parquet(
    uri: str, iter_lines: Callable[[], Iterator[bytes]], write: Callable[[bytes], object]
) -> None:
    """Write records as Parquet, piece by piece; all values of a field must have one type.

    Args:
        uri: for errors.
        iter_lines: yields the records as JSON lines, the same again at each call: the first pass
            finds the types of all fields, the second one writes them.
        write: takes the bytes of the file.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    def iter_batches() -> Iterator[list[Record]]:
        lines = iter_lines()
        while batch := [parse_record(line) for line in islice(lines, _WRITTEN_ROWS)]:
            yield batch

    try:
        schemas = (arrow.schema(list(arrow.array(batch).type)) for batch in iter_batches())
        schema = arrow.unify_schemas(schemas, promote_options="permissive")
        row = arrow.struct(list(schema))
        with tempfile.TemporaryFile() as file:
            with parquet.ParquetWriter(file, schema) as writer:
                for batch in iter_batches():
                    rows = arrow.array(batch, type=row)
                    writer.write_table(arrow.Table.from_struct_array(rows))
            file.seek(0)
            while piece := file.read(CHUNK_BYTES):
                write(piece)
    except arrow.ArrowException as error:
        raise UsageError(
            f"{uri}: a column has several types ({error}); write JSON lines instead"
        ) from error
    except OSError as error:
        raise temporary_error(error) from error
