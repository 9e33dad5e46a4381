"""Inputs: the records of a local file, a standard stream or an S3 object."""

import dataclasses
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from genrm_cli.errors import InputError, StoppedError, naming
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.contract import InputIdentity, Stop, never
from genrm_cli.storage.encoding.codec import CHUNK_BYTES, is_compressed, iter_decoded
from genrm_cli.storage.encoding.containers import (
    HEAD_BYTES,
    Container,
    find_container,
    iter_as_lines,
)
from genrm_cli.storage.encoding.records import Line, iter_lines
from genrm_cli.storage.local.walk import identity_of
from genrm_cli.storage.location import changed, is_stream, unreadable
from genrm_cli.storage.spool import Spool, no_room
from genrm_cli.storage.store import Store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# How soon Ctrl-C ends a run that waits for data on stdin.
_STOP_EVERY_MS = 500


@dataclass(eq=False)
class Source(AbstractContextManager["Source"]):
    """An input whose records can be read repeatedly."""

    identity: InputIdentity
    content: BinaryIO
    is_copy: bool
    limits: InputSettings
    stop: Stop

    def __exit__(self, *_: object) -> None:
        self.content.close()

    @property
    def uri(self) -> str:
        """Its name, as the user gave it."""
        return self.identity.uri

    @property
    def unit(self) -> str:
        """Unit of its record numbers: `line`, or `item` of an array or another container."""
        return self._container.unit

    def iter_lines(self) -> Iterator[Line]:
        """Yield every record from the start; iterations may overlap. `stop` raises
        `StoppedError`.
        """
        container = self._container
        most = self.limits.max_line_bytes
        if container.read_packed is None:
            chunks = self._iter_chunks()
            if container.in_array is not None:
                chunks = iter_as_lines(chunks, self.uri, in_array=container.in_array)
            yield from iter_lines(chunks, most)
            return
        unpacked_bytes = 0
        try:
            # Opened again, as a duplicate of the descriptor would share its position.
            again = f"/dev/fd/{self.content.fileno()}"
            with open(again, "rb", CHUNK_BYTES) as file:  # noqa: PTH123
                for record in container.read_packed(file, self.uri, most):
                    if self.stop():
                        raise StoppedError
                    unpacked_bytes += len(record.raw)
                    _check_unpacked(self.uri, unpacked_bytes, self.limits)
                    yield record
        except OSError as error:
            raise unreadable(self.uri, error) from error

    def verify_unchanged(self) -> None:
        """Raise `ChangedInputError` if a local file has changed since opening. Other inputs are
        read from a copy.
        """
        if self.is_copy:
            return
        status = os.fstat(self.content.fileno())
        found = identity_of(self.uri, status)
        if status.st_nlink == 0:  # losing its name changed the ctime, but not the content
            found = replace(found, ctime_ns=self.identity.ctime_ns)
        if found != self.identity:
            raise changed(self.uri)

    @cached_property
    def _container(self) -> Container:
        return find_container(self.uri, self._read(0, HEAD_BYTES))

    def _iter_chunks(self) -> Iterator[bytes]:
        offset = 0
        while chunk := self._read(offset):
            yield chunk
            offset += len(chunk)

    def _read(self, offset: int, count: int = CHUNK_BYTES) -> bytes:
        if self.stop():
            raise StoppedError
        try:
            return os.pread(self.content.fileno(), count, offset)
        except OSError as error:
            raise unreadable(self.uri, error) from error


def open_source(uri: str, store: Store, limits: InputSettings, stop: Stop = never) -> Source:
    """Open an input; anything other than an uncompressed local file is first decompressed into a
    temporary file.

    `stop` is polled while copying and reading; if it returns True, `StoppedError` is raised."""
    if is_stream(uri):
        if sys.stdin is None:
            raise InputError("-: standard input is closed; name a file, or pipe one in")
        content = _copy(sys.stdin.buffer, uri, limits, stop)
        return Source(InputIdentity(uri), content, True, limits, stop)
    source = Source(*store.at(uri).open_input(stop), limits, stop)
    # A pipe, as from <(...), has no size and can be read only once.
    if source.identity.size_bytes is not None and not is_compressed(uri):
        return source
    with source, ExitStack() as on_error:
        copy = dataclasses.replace(
            source, content=_copy(source.content, uri, limits, stop), is_copy=True
        )
        on_error.enter_context(copy)
        source.verify_unchanged()
        on_error.pop_all()
        return copy


def _copy(stream: BinaryIO, uri: str, limits: InputSettings, stop: Stop) -> BinaryIO:
    with ExitStack() as on_error:
        spool = on_error.enter_context(Spool())
        room_bytes = spool.room_bytes()
        try:
            with suppress(OSError):  # a stream without a file descriptor never waits
                stream = io.BufferedReader(_Interruptible(stream.fileno(), stop))
            for chunk in iter_decoded(stream, uri):
                unpacked_bytes = len(spool) + len(chunk)
                _check_unpacked(uri, unpacked_bytes, limits)
                if unpacked_bytes > room_bytes:  # before it fills the disk
                    raise no_room(f"{uri}: unpacks to more than the {room_bytes:,} bytes of room")
                spool.write(chunk)
        except OSError as error:
            raise unreadable(uri, error) from error
        file = spool.flush()
        on_error.pop_all()
        return file


def _check_unpacked(uri: str, unpacked_bytes: int, limits: InputSettings) -> None:
    most = limits.max_unpacked
    if most is not None and unpacked_bytes > most:
        raise InputError(
            f"{uri}: unpacks to more than {most:,} bytes; ",
            naming("if the file is correct, raise $max_unpacked"),
        )


class _Interruptible(io.RawIOBase):
    """Stream that polls `stop` while it waits for data."""

    def __init__(self, fd: int, stop: Stop) -> None:
        self._fd = fd
        self._stop = stop
        self._ready = select.poll()
        self._ready.register(fd, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        while True:
            is_ready = self._ready.poll(_STOP_EVERY_MS)
            if self._stop():
                raise StoppedError
            if is_ready:
                return os.readv(self._fd, [memoryview(buffer)])
