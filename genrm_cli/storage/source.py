"""Inputs: lines and spans of bytes from a local file, a standard stream or an S3 object."""

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from genrm_cli.errors import ChangedInputError, InputError, StoppedError
from genrm_cli.storage.formats.codec import CHUNK_BYTES, is_compressed, iter_decoded
from genrm_cli.storage.formats.lines import Line, iter_lines
from genrm_cli.storage.formats.location import (
    InputIdentity,
    S3Options,
    is_s3,
    is_stream,
    parse_local_path,
)
from genrm_cli.storage.formats.spool import Spool

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

_STOP_EVERY_MS = 500


class Source:
    """An input that allows repeated reading of its lines and random access to its bytes.

    Offsets count decompressed bytes. Use as a context manager, or call `close`.

    Attributes:
        uri: as given by the user.
        identity: the version being read.
        stop: called before each read; True raises `StoppedError`.
    """

    def __init__(
        self,
        identity: InputIdentity,
        content: BinaryIO | Spool,
        max_line_bytes: int,
        verify_unchanged: Callable[[], None] | None = None,
    ) -> None:
        self.uri = identity.uri
        self.identity = identity
        self.stop: Callable[[], bool] | None = None
        self._content = content
        self._max_line_bytes = max_line_bytes
        self._verify_unchanged = verify_unchanged

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def iter_lines(self) -> Iterator[Line]:
        """Yield every non-blank line from the start; iterations may overlap."""
        return iter_lines(self._iter_chunks(), self._max_line_bytes)

    def read_span(self, offset: int, length: int) -> bytes:
        """Return bytes of the content: `read_span(line.offset, len(line.raw)) == line.raw`.

        Raises:
            ChangedInputError: the content ends before the span.
        """
        data = self._read(offset, length)
        while len(data) < length:
            more = self._read(offset + len(data), length - len(data))
            if not more:
                raise _changed(self.uri)
            data += more
        return data

    def verify_unchanged(self) -> None:
        """Check that a local file did not change since it was opened; other inputs are read from a copy.

        Raises:
            ChangedInputError: the size or the modification time changed.
        """
        if self._verify_unchanged is not None:
            self._verify_unchanged()

    def close(self) -> None:
        """Close the content; closing twice is harmless."""
        self._content.close()

    def _iter_chunks(self) -> Iterator[bytes]:
        offset = 0
        while chunk := self._read(offset, CHUNK_BYTES):
            yield chunk
            offset += len(chunk)

    def _read(self, offset: int, length: int) -> bytes:
        if self.stop is not None and self.stop():
            raise StoppedError
        try:
            if isinstance(self._content, Spool):
                return self._content.read(offset, length)
            return os.pread(self._content.fileno(), length, offset)
        except OSError as error:
            raise _unreadable(self.uri, error) from error


def open_source(uri: str, s3: S3Options, max_line_bytes: int, stop: Callable[[], bool] | None = None) -> Source:
    """Open an input; anything but an uncompressed local file is first copied, decompressed, into a temporary file.

    Args:
        stop: called while copying and reading; True raises `StoppedError`.

    Raises:
        ChangedInputError: the input changed while it was copied.
        StoppedError: `stop` returned True.
        InputError: a local file or stream cannot be read or decompressed.
        StorageError: an S3 object cannot be fetched, or the disk for temporary data is full.
        UsageError: a URI of another kind.
    """
    source = _open(uri, s3, max_line_bytes, stop)
    source.stop = stop
    return source


def _open(uri: str, s3: S3Options, max_line_bytes: int, stop: Callable[[], bool] | None) -> Source:
    if is_stream(uri):
        return Source(InputIdentity(uri), _spooled(_standard_input(), uri, stop), max_line_bytes)
    if is_s3(uri):
        # Imported here, as boto3 takes a fifth of a second to import.
        from genrm_cli.storage.s3.download import download

        identity, fetched = download(uri, s3, stop)
        if not is_compressed(uri):
            return Source(identity, fetched, max_line_bytes)
        with fetched:
            return Source(identity, _spooled(fetched, uri, stop), max_line_bytes)
    return _open_local(uri, max_line_bytes, stop)


def identity_of(uri: str, s3: S3Options) -> InputIdentity:
    """Return the current version of an input.

    Raises:
        InputError: the file does not exist, or cannot be inspected.
        StorageError: the S3 request fails, or the object does not exist.
    """
    if is_stream(uri):
        return InputIdentity(uri)
    if is_s3(uri):
        from genrm_cli.storage.s3.connection import identify_object

        return identify_object(uri, s3)
    try:
        now = os.stat(parse_local_path(uri))  # noqa: PTH116
    except (OSError, ValueError) as error:
        raise _unreadable(uri, error) from error
    if not stat.S_ISREG(now.st_mode):  # a pipe yields other bytes each time
        return InputIdentity(uri)
    return InputIdentity(uri, size_bytes=now.st_size, mtime_ns=now.st_mtime_ns)


def _open_local(uri: str, max_line_bytes: int, stop: Callable[[], bool] | None) -> Source:
    try:
        file = open(parse_local_path(uri), "rb", buffering=0)  # noqa: SIM115, PTH123  (closed by the source)
    except (OSError, ValueError) as error:
        raise _unreadable(uri, error) from error
    try:
        opened = os.fstat(file.fileno())
        if not stat.S_ISREG(opened.st_mode):  # a pipe, as from <(...), can be read only once
            with file:
                return Source(InputIdentity(uri), _spooled(file, uri, stop), max_line_bytes)
        identity = InputIdentity(uri, size_bytes=opened.st_size, mtime_ns=opened.st_mtime_ns)

        def verify() -> None:
            now = os.fstat(file.fileno())
            if (now.st_size, now.st_mtime_ns) != (identity.size_bytes, identity.mtime_ns):
                raise _changed(uri)

        if not is_compressed(uri):
            return Source(identity, file, max_line_bytes, verify)
        with file:
            content = _spooled(file, uri, stop)
            source = Source(identity, content, max_line_bytes)
            try:
                verify()
            except InputError:
                source.close()
                raise
            return source
    except BaseException:
        file.close()
        raise


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("-: standard input is closed; name a file, or pipe one in")
    return sys.stdin.buffer


def _spooled(stream: BinaryIO, uri: str, stop: Callable[[], bool] | None) -> Spool:
    """Copy a stream, decompressed, into a spool."""
    spool = Spool()
    try:
        for chunk in iter_decoded(_awaited(stream, stop), uri):
            spool.append(chunk)
    except OSError as error:
        spool.close()
        raise _unreadable(uri, error) from error
    except BaseException:
        spool.close()
        raise
    return spool


def _awaited(stream: BinaryIO, stop: Callable[[], bool] | None) -> BinaryIO:
    """Make reads of a stream interruptible by `stop`; streams without a file descriptor never wait."""
    try:
        stream.fileno()
    except OSError:
        return stream
    return stream if stop is None else io.BufferedReader(_Awaited(stream, stop))


class _Awaited(io.RawIOBase):
    """Stream that polls `stop` while it waits for data."""

    def __init__(self, stream: BinaryIO, stop: Callable[[], bool]) -> None:
        self._stream = stream
        self._stop = stop
        self._ready = select.poll()
        self._ready.register(stream, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer") -> int:
        with memoryview(buffer) as view:
            while not self._ready.poll(_STOP_EVERY_MS):
                self._raise_if_stopped()
            self._raise_if_stopped()
            data = os.read(self._stream.fileno(), len(view))
            view[: len(data)] = data
            return len(data)

    def _raise_if_stopped(self) -> None:
        if self._stop():
            raise StoppedError


def _unreadable(uri: str, error: OSError | ValueError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{uri}: no such file; check the path")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{uri}: is a folder; name a file in it")
    if isinstance(error, PermissionError):
        return InputError(f"{uri}: permission denied; make it readable for this user")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"{uri}: cannot be read: {reason}")


def _changed(uri: str) -> ChangedInputError:
    return ChangedInputError(f"{uri}: changed while being read; run again once nothing writes to it")
