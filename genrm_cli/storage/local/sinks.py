"""Local outputs: files that appear whole, and streams."""

import codecs
import contextlib
import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from genrm_cli.errors import StorageError, UsageError, naming
from genrm_cli.storage.contract import ANY_MODE, Mark
from genrm_cli.storage.encoding.codec import CHUNK_BYTES, make_encoder
from genrm_cli.storage.local.unfinished import UnfinishedFile, remove_left
from genrm_cli.storage.location import is_remote, is_stream, parse_local_path
from genrm_cli.storage.printable import escaped_in_json

_UTF8 = codecs.getincrementaldecoder("utf-8")

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LocalSink:
    """A file that appears whole: written under a hidden name in the target's folder, renamed in
    `commit`.

    A replaced file keeps its mode; a new file gets `mode`, subject to the umask.
    """

    def __init__(self, uri: str, *, overwrite: bool, mode: int = ANY_MODE) -> None:
        self.uri = uri
        # The real path, so that the target of a symbolic link is replaced and not the link.
        self._target = Path(os.path.realpath(parse_local_path(uri)))
        self._overwrite = overwrite
        # False below an unreadable folder, where Path raises.
        if os.path.isdir(self._target):  # noqa: PTH112
            raise StorageError(f"{uri}: is a folder; name a file in it")
        try:
            self._file = UnfinishedFile(self._target, mode)
        except OSError as error:
            raise unwritable(uri, error) from error
        except ValueError as error:
            raise UsageError(f"{uri!r} is not a file name: {error}") from error
        with contextlib.suppress(OSError):  # no such file, or a file system without modes
            mode = stat.S_IMODE(os.stat(self._target).st_mode)  # noqa: PTH116
            os.fchmod(self._file.descriptor, mode)
        self._encoder = make_encoder(uri)
        self._buffer = bytearray()
        self._digest = hashlib.sha256()
        self.mark: Mark | None = None

    def write(self, data: bytes) -> None:
        """Add uncompressed bytes."""
        self._buffer += self._encoder.compress(data)
        if len(self._buffer) >= CHUNK_BYTES:
            self._store_buffer()

    def finish(self) -> None:
        """Finish the content and sync it to disk; only `commit` and `abort` may follow."""
        if self.mark is not None:
            return
        self._buffer += self._encoder.flush()
        self._store_buffer()
        try:
            os.fsync(self._file.descriptor)
            written = os.fstat(self._file.descriptor)
        except OSError as error:
            raise unwritable(self.uri, error) from error
        self.mark = Mark(written.st_size, None, written.st_mtime_ns, self._digest.hexdigest())

    def commit(self) -> None:
        """Give the file its name."""
        self.finish()
        try:
            if self._overwrite:
                self._file.path.replace(self._target)
            else:
                publish_new(self._file.path, self._target)
        except FileExistsError as error:
            raise appeared(self.uri) from error
        except OSError as error:
            raise unwritable(self.uri, error) from error
        sync_folder(self._target.parent)
        self.abort()

    def abort(self) -> None:
        """Discard uncommitted content; harmless after `commit`."""
        self._file.close()

    def _store_buffer(self) -> None:
        self._digest.update(self._buffer)
        try:
            while self._buffer:  # near a full disk a single write may be partial
                del self._buffer[: os.write(self._file.descriptor, self._buffer)]
        except OSError as error:
            raise unwritable(self.uri, error) from error


class StreamSink:
    """The standard output, a pipe or a device. `BrokenPipeError` is passed on: it is not a storage
    error.
    """

    mark: Mark | None = None

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._encoder = make_encoder(uri)
        self._stream = _open_stream(uri)
        # On a terminal: JSON of other tools may contain control characters that JSON need not
        # escape.
        self._to_terminal = _UTF8("replace") if self._stream.isatty() else None

    def write(self, data: bytes) -> None:
        """Compress and send bytes."""
        if self._to_terminal is not None:
            data = escaped_in_json(self._to_terminal.decode(data)).encode()
        self._send(self._encoder.compress(data))

    def finish(self) -> None:
        """Do nothing; `commit` ends the content."""

    def commit(self) -> None:
        """End the content and flush it."""
        self._send(self._encoder.flush(), flush=True)
        self.abort()

    def abort(self) -> None:
        """Close a device or pipe, but not the standard output."""
        if not is_stream(self.uri):
            self._stream.close()

    def _send(self, data: bytes, *, flush: bool = False) -> None:
        unsent = memoryview(data)
        try:
            while unsent:
                unsent = unsent[self._stream.write(unsent) :]
            if flush:
                self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(self.uri, error) from error


def is_streamed(uri: str) -> bool:
    """Return whether an output is a stream, a pipe or a device, so that no file can be stored next
    to it.
    """
    if is_stream(uri) or is_remote(uri):
        return is_stream(uri)
    try:
        mode = os.stat(parse_local_path(uri)).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def remove_unfinished(uris: Iterable[str]) -> None:
    """Remove the hidden files that killed processes left for these outputs."""
    for uri in uris:
        if not is_remote(uri) and not is_streamed(uri):
            remove_left(Path(os.path.realpath(uri)))


def publish_new(temp: Path, target: Path) -> None:
    """Rename a file, or raise FileExistsError if the target exists."""
    try:
        # A hard link, as a rename would silently replace a file created in the meantime.
        os.link(temp, target)
    except FileExistsError:
        raise
    except OSError:
        reserve_and_replace(temp, target)
    else:
        temp.unlink()


def reserve_and_replace(temp: Path, target: Path) -> None:
    """Do the same without hard links; a crash in between leaves an empty target."""
    target.touch(exist_ok=False)
    temp.replace(target)


def appeared(uri: str) -> StorageError:
    """Return the error for an output that another process created meanwhile."""
    return StorageError(
        f"{uri}: was created by another process; ", naming("use $force to replace it")
    )


def unwritable(uri: str, error: OSError) -> StorageError:
    """Return the error for an output that cannot be written, with a remedy."""
    if isinstance(error, PermissionError):
        return StorageError(
            f"{uri}: permission denied; make it and its folder writable for this user"
        )
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        folder = Path(uri).parent
        problem = (
            "does not take new files; choose another"
            if folder.is_dir()
            else "does not exist; create it"
        )
        return StorageError(f"{uri}: the folder {folder} {problem}")
    reason = error.strerror or str(error)
    advice = "free some disk space" if error.errno in _NO_ROOM else "choose another location"
    return StorageError(
        f"{uri}: cannot be written: {reason}; {advice}; the existing file is unchanged"
    )


def sync_folder(folder: Path) -> None:
    """Sync the entry of a newly named file to disk."""
    # The file is complete, so a folder that cannot be opened or synced must not fail the output.
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _open_stream(uri: str) -> BinaryIO:
    if not is_stream(uri):
        try:
            return open(uri, "wb", buffering=0)  # noqa: PTH123  (closed by the sink)
        except OSError as error:
            raise unwritable(uri, error) from error
    if sys.stdout is None:
        raise StorageError("-: the standard output is closed; name an output file")
    return sys.stdout.buffer
