"""Parquet files: read each row as a record, and write records as rows."""

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, BinaryIO

import orjson

from genrm_cli.errors import InputError, UsageError, how_to_install
from genrm_cli.json_types import Record
from genrm_cli.storage.encoding.records import Line
from genrm_cli.storage.spool import Pieces, Spool

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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

        try:
            schemas = (
                self._arrow.schema(list(self._arrow.array(batch).type))
                for batch in self._iter_batches()
            )
            schema = self._arrow.unify_schemas(schemas, promote_options="permissive")
            row = self._arrow.struct(list(schema))
            with parquet.ParquetWriter(
                self._arrow.PythonFile(_RowGroupSink(write), mode="w"), schema
            ) as writer:
                for batch in self._iter_batches():
                    writer.write_table(
                        self._arrow.Table.from_struct_array(self._arrow.array(batch, type=row))
                    )
        except self._arrow.ArrowException as error:
            raise UsageError(
                f"{self._uri}: a column has several types ({error}); write JSON lines instead"
            ) from error

    def _iter_batches(self) -> Iterator[list[Record]]:
        for start in range(0, len(self._lines), _WRITTEN_ROWS):
            end = min(start + _WRITTEN_ROWS, len(self._lines))
            yield [orjson.loads(self._lines[row]) for row in range(start, end)]


class _RowGroupSink(io.RawIOBase):
    """A file for writing only."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._position = 0

    def write(self, data: "ReadableBuffer") -> int:
        piece = bytes(data)
        self._write(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def writable(self) -> bool:
        return True
