"""Anonymous temporary files."""

import os
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

from genrm_cli.errors import StorageError

_BUFFER_BYTES = 1 << 18  # a run has several spools
_BLOCK_BYTES = 1 << 20


class Spool(AbstractContextManager["Spool"]):
    """Anonymous file in `TMPDIR`; it disappears when closed or when the process dies. Not
    thread-safe.
    """

    def __init__(self) -> None:
        try:
            # Unbuffered: with Python's own buffer, a full disk would raise again on close.
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (closed by `close`)
        except OSError as error:
            raise temporary_error(error) from error
        self._buffer = bytearray()
        self._stored_bytes = 0

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._stored_bytes + len(self._buffer)

    def write(self, data: bytes | memoryview) -> tuple[int, int]:
        """Add bytes at the end; return their offset and length."""
        offset = self._stored_bytes + len(self._buffer)
        self._buffer += data
        if len(self._buffer) >= _BUFFER_BYTES:
            self.flush()
        return offset, len(data)

    def read(self, offset: int, length: int) -> bytes:
        """Return appended bytes, including buffered ones; fewer than `length` at the end."""
        if offset + length > self._stored_bytes:
            self.flush()
        return os.pread(self._file.fileno(), length, offset)

    def flush(self) -> BinaryIO:
        """Write everything appended so far to the file, and return it."""
        try:
            while self._buffer:
                # Near a full disk a write may be partial.
                written = os.write(self._file.fileno(), self._buffer)
                self._stored_bytes += written
                del self._buffer[:written]
        except OSError as error:
            raise temporary_error(error) from error
        return self._file

    def room_bytes(self) -> int:
        """Return how many bytes of temporary data fit now: nine tenths of the free space."""
        disk = os.fstatvfs(self._file.fileno())
        return disk.f_bavail * disk.f_frsize * 9 // 10

    def close(self) -> None:
        """Delete the file; closing twice is harmless."""
        self._buffer.clear()
        self._file.close()


class Pieces:
    """Pieces of a spool by number; 16 bytes of memory each."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._spans = array("Q")  # offset and length of each

    def __len__(self) -> int:
        return len(self._spans) // 2

    def __contains__(self, number: int) -> bool:
        return number < len(self) and self._spans[2 * number + 1] > 0

    def __getitem__(self, number: int) -> bytes:
        return self._spool.read(self._spans[2 * number], self._spans[2 * number + 1])

    def add(self, number: int, part: bytes | memoryview) -> None:
        """Append a piece, or another part of the one that was added last."""
        missing = 2 * (number + 1) - len(self._spans)
        if missing > 0:
            self._spans.frombytes(bytes(8 * missing))
        offset, length = self._spool.write(part)
        if not self._spans[2 * number + 1]:
            self._spans[2 * number] = offset
        self._spans[2 * number + 1] += length

    def iter_blocks(self) -> Iterator[bytes]:
        """Yield the bytes of all pieces by number, at most 1 MiB at a time."""
        for start, length in zip(self._spans[::2], self._spans[1::2], strict=True):
            for offset in range(0, length, _BLOCK_BYTES):
                yield self._spool.read(start + offset, min(_BLOCK_BYTES, length - offset))


def temporary_error(error: OSError) -> StorageError:
    """Return the error for temporary data that cannot be stored."""
    return no_room(f"cannot store temporary data: {error.strerror or error}")


def no_room(problem: str) -> StorageError:
    """Return the error for a lack of temporary space, with its remedy."""
    return StorageError(
        f"{problem}; free some disk space, or set TMPDIR to a folder with more space"
    )
