"""Parquet files: read each row as a record, and write records as rows."""

import base64
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

import orjson

from genrm_cli.errors import InputError, UsageError, how_to_install
from genrm_cli.json_types import Record
from genrm_cli.storage.encoding.codec import CHUNK_BYTES
from genrm_cli.storage.encoding.records import Line
from genrm_cli.storage.spool import Pieces, Spool, temporary_error

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


class ParquetWriter(AbstractContextManager["ParquetWriter"]):
    """Records in a temporary file, written as Parquet at the end; all values of a field must have
    one type.
    """

    def __init__(self, uri: str) -> None:
        try:
            import pyarrow
        except ImportError as error:
            raise UsageError(
                f"{uri}: writing Parquet needs pyarrow: {how_to_install('parquet')}"
            ) from error
        self._arrow = pyarrow
        self._uri = uri
        self._spool = Spool()
        self._lines = Pieces(self._spool)

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def append(self, line: bytes) -> None:
        """Add a record as a JSON line; takes 16 bytes of memory."""
        self._lines.add(len(self._lines), line)

    def write_to(self, write: Callable[[bytes], None]) -> None:
        """Write the file piece by piece."""
        from pyarrow import parquet

        arrow = self._arrow
        try:
            schemas = (
                arrow.schema(list(arrow.array(batch).type)) for batch in self._iter_batches()
            )
            schema = arrow.unify_schemas(schemas, promote_options="permissive")
            row = arrow.struct(list(schema))
            with tempfile.TemporaryFile() as file:
                with parquet.ParquetWriter(file, schema) as writer:
                    for batch in self._iter_batches():
                        rows = arrow.array(batch, type=row)
                        writer.write_table(arrow.Table.from_struct_array(rows))
                file.seek(0)
                while piece := file.read(CHUNK_BYTES):
                    write(piece)
        except arrow.ArrowException as error:
            raise UsageError(
                f"{self._uri}: a column has several types ({error}); write JSON lines instead"
            ) from error
        except OSError as error:
            raise temporary_error(error) from error

    def _iter_batches(self) -> Iterator[list[Record]]:
        for start in range(0, len(self._lines), _WRITTEN_ROWS):
            end = min(start + _WRITTEN_ROWS, len(self._lines))
            yield [orjson.loads(self._lines[row]) for row in range(start, end)]
