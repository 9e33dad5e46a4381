"""Outputs on this machine: files that appear whole, and streams."""

import contextlib
import errno
import os
import stat
import sys
import uuid
from pathlib import Path
from typing import BinaryIO

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.storage.formats.codec import CHUNK_BYTES, make_encoder
from genrm_cli.storage.formats.location import is_stream, parse_local_path
from genrm_cli.storage.formats.mark import Mark

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OPEN_FILES = "/proc/self/fd"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_UPLOAD_ATTRIBUTE = "user.genrm.upload"


class LocalSink:
    """A file that appears whole: written without a name in the target's folder, named in `commit`.

    A process that is killed leaves nothing behind; only where the system knows no nameless files (`O_TMPFILE`) is it
    a hidden one from the beginning.
    """

    def __init__(self, uri: str, *, overwrite: bool) -> None:
        self.uri = uri
        # The real path, so that a symbolic link stays one and what it points to is replaced.
        self._target = Path(os.path.realpath(parse_local_path(uri)))
        self._overwrite = overwrite
        if os.path.isdir(self._target):  # noqa: PTH112  (False, not an error, behind a closed folder)
            raise StorageError(f"{uri}: is a folder; name a file in it")
        self._temp = self._target.with_name(f".genrm-{uuid.uuid4().hex}.part")
        self._fd = _create_nameless(self._target.parent)
        self._named = self._fd < 0
        if self._named:
            self._fd = _create(self._temp, uri)
        _copy_mode(self._target, self._fd)
        self._encoder = make_encoder(uri)
        self._buffer = bytearray()
        self._mark: Mark | None = None

    @property
    def mark(self) -> Mark | None:
        """What tells this file from others; None before `finish`."""
        return self._mark

    def write(self, data: bytes) -> None:
        """Add bytes, before compression.

        Raises:
            StorageError: the disk is full.
        """
        self._buffer += self._encoder.compress(data)
        if len(self._buffer) >= CHUNK_BYTES:
            self._store()

    def finish(self) -> None:
        """End the content and see it on disk; only `commit` and `abort` may follow.

        Raises:
            StorageError: the disk is full.
        """
        if self._mark is not None:
            return
        self._buffer += self._encoder.flush()
        self._store()
        upload = _attach_upload(self._fd)
        try:
            os.fsync(self._fd)
            written = os.fstat(self._fd)
        except OSError as error:
            raise unwritable(self.uri, error) from error
        self._mark = Mark(written.st_size, upload, written.st_mtime_ns)

    def commit(self) -> None:
        """Give the file its name.

        Raises:
            StorageError: the disk is full, or the target exists by now and must not be replaced.
        """
        self.finish()
        try:
            if not self._named:
                # With a folder given, the call follows the link to the nameless file; without, it would not.
                os.link(f"{_OPEN_FILES}/{self._fd}", self._temp, src_dir_fd=self._fd)
                self._named = True
            if self._overwrite:
                self._temp.replace(self._target)
            else:
                publish_new(self._temp, self._target)
        except FileExistsError as error:
            raise StorageError(
                f"{self.uri}: exists by now, written by someone else; pass --force to replace it"
            ) from error
        except OSError as error:
            raise unwritable(self.uri, error) from error
        sync_folder(self._target.parent)
        self.abort()

    def abort(self) -> None:
        """Remove what is not committed; harmless after `commit`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            if self._named:
                self._temp.unlink(missing_ok=True)

    def _store(self) -> None:
        write_all(self._fd, self._buffer, self.uri)


class StreamSink:
    """The standard output, a pipe or a device: bytes go out as they come, and cannot be taken back.

    `BrokenPipeError` is let through: a reader that has seen enough is no fault of storage.
    """

    mark: Mark | None = None

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._encoder = make_encoder(uri)
        self._stream = _standard_output() if is_stream(uri) else _open_special(uri)

    def write(self, data: bytes) -> None:
        """Write bytes, before compression."""
        self._send(self._encoder.compress(data))

    def finish(self) -> None:
        """Do nothing, as the content ends in `commit`."""

    def commit(self) -> None:
        """End the content and flush it."""
        self._send(self._encoder.flush())
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(self.uri, error) from error
        self.abort()

    def abort(self) -> None:
        """Close a device or pipe; the standard output stays open."""
        if not is_stream(self.uri):
            self._stream.close()

    def _send(self, data: bytes) -> None:
        unsent = memoryview(data)
        try:
            while unsent:
                unsent = unsent[self._stream.write(unsent) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(self.uri, error) from error


def is_special(path: str) -> bool:
    """Say whether a path leads to something that is neither a file nor a folder: a device, a pipe."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def make_parent(uri: str) -> None:
    """Make the folder of a file, unless it is there.

    Raises:
        StorageError: it cannot be made.
    """
    try:
        Path(parse_local_path(uri)).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(uri, error) from error


def check_file_writable(uri: str) -> None:
    """Prove that a file could be written, by making and removing another in its folder.

    Raises:
        StorageError: the folder is missing or refuses, or the target is a folder.
    """
    LocalSink(uri, overwrite=True).abort()


def mark_of_file(uri: str) -> Mark | None:
    """Return the mark of the file that is there now, None where there is none.

    Raises:
        StorageError: it cannot be looked at.
    """
    path = parse_local_path(uri)
    try:
        found = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"{uri}: cannot be looked at: {error.strerror or error}") from error
    if stat.S_ISDIR(found.st_mode):
        raise StorageError(f"{uri}: is a folder; name a file in it")
    return Mark(found.st_size, _read_upload(path), found.st_mtime_ns)


def publish_new(temp: Path, target: Path) -> None:
    """Give a file its name, unless something has that name already (FileExistsError)."""
    try:
        # A hard link, as a rename would silently replace a file that appeared meanwhile.
        os.link(temp, target)
    except FileExistsError:
        raise
    except OSError:
        reserve_and_replace(temp, target)
    else:
        temp.unlink()


def reserve_and_replace(temp: Path, target: Path) -> None:
    """Do the same where the file system has no hard links; a crash in between leaves an empty target."""
    os.close(os.open(target, _NEW_FILE, 0o666))
    temp.replace(target)


def write_all(fd: int, buffer: bytearray, uri: str) -> None:
    """Write and empty a buffer; one call may take less than all near a full disk."""
    try:
        while buffer:
            del buffer[: os.write(fd, buffer)]
    except OSError as error:
        raise unwritable(uri, error) from error


def unwritable(uri: str, error: OSError) -> StorageError:
    """Say why an output cannot be written, and what to do."""
    if isinstance(error, PermissionError):
        return StorageError(f"{uri}: permission denied; make it and its folder writable for this user")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return StorageError(f"{uri}: the folder {Path(uri).parent} does not exist; create it")
    reason = error.strerror or str(error)
    advice = "free some disk" if error.errno in _NO_ROOM else "choose another place"
    return StorageError(f"{uri}: cannot be written: {reason}; {advice}. A file of before is intact")


def _attach_upload(fd: int) -> str | None:
    """Give a file an id to carry with it; None where the system or the file system cannot."""
    upload = uuid.uuid4().hex
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(fd, _UPLOAD_ATTRIBUTE, upload.encode())
            return upload
    return None


def _read_upload(path: str) -> str | None:
    if hasattr(os, "getxattr"):
        with contextlib.suppress(OSError):
            return os.getxattr(path, _UPLOAD_ATTRIBUTE).decode(errors="replace")
    return None


def _create_nameless(folder: Path) -> int:
    """Make a new file without a name, with the permissions that the umask leaves; -1 where that cannot be done."""
    flags = getattr(os, "O_TMPFILE", 0)
    if not flags or not os.path.isdir(_OPEN_FILES):  # noqa: PTH112
        return -1
    try:
        return os.open(folder, os.O_WRONLY | os.O_CLOEXEC | flags, 0o666)
    except (OSError, ValueError):
        return -1  # the hidden file that is tried next fails with a better reason, if it fails


def _create(path: Path, uri: str) -> int:
    try:
        return os.open(path, _NEW_FILE, 0o666)
    except OSError as error:
        raise unwritable(uri, error) from error
    except ValueError as error:
        raise UsageError(f"{uri!r} is not a file name: {error}") from error


def _copy_mode(path: Path, fd: int) -> None:
    """Give an open file the mode of the one it replaces; without one it keeps what the umask left."""
    with contextlib.suppress(OSError):  # no such file, or a file system without modes
        os.fchmod(fd, stat.S_IMODE(os.stat(path).st_mode))  # noqa: PTH116


def sync_folder(folder: Path) -> None:
    """See on disk that a folder holds a file that was just named."""
    # The file has its name already, so a folder that cannot be opened or synced must not fail the output.
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _open_special(uri: str) -> BinaryIO:
    try:
        return open(uri, "wb", buffering=0)  # noqa: PTH123  (the sink closes it)
    except OSError as error:
        raise unwritable(uri, error) from error


def _standard_output() -> BinaryIO:
    if sys.stdout is None:
        raise StorageError("-: the standard output is closed; name an output file")
    return sys.stdout.buffer
