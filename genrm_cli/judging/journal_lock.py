"""The lock of a journal: one process records in it at a time, which the lock file names.

The kernel drops the lock of a process that ends, however it ends, so no lock outlives its holder.
The file of the journal itself cannot be locked: closing it a second time would drop the locks that
SQLite holds on it."""

import contextlib
import fcntl
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from genrm_cli.errors import Part, SettingRef, StorageError

SUFFIX = "-lock"
"""Appended to the path of a journal, as SQLite does with its own side files."""
_HOLDER_BYTES = 200  # more is not what we wrote
# Several inputs of a run may share a journal: the process opens its lock once.
_guard = threading.Lock()
_locks: dict[str, int] = {}
_uses: Counter[str] = Counter()


@contextlib.contextmanager
def holding(journal: str, at_end: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a journal; the last in the process to hold it calls `at_end` with the path
    before it unlocks.

    Raises:
        StorageError: another process holds it; the message names that process.
    """
    path = os.path.realpath(journal) + SUFFIX
    with _guard:
        if path not in _locks:
            _locks[path] = _lock(path, journal)
        _uses[path] += 1
    try:
        yield
    finally:
        with _guard:
            _uses[path] -= 1
            if not _uses[path]:
                at_end(journal)
                # Removed before it is unlocked: the next holder finds that it is gone.
                with contextlib.suppress(OSError):
                    Path(path).unlink()
                os.close(_locks.pop(path))


def is_held(journal: str) -> bool:
    """Return whether a process records in a journal, or was killed while it did."""
    return Path(os.path.realpath(journal) + SUFFIX).exists()


def _lock(path: str, journal: str) -> int:
    """Return the open and locked file."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            raise _refusal(journal, "its folder does not exist; ") from error
        except OSError as error:
            raise _refusal(journal, f"cannot write {path}: {error.strerror}; ") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, file):
                os.truncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return file
        except OSError as error:
            holder = os.pread(file, _HOLDER_BYTES, 0).decode(errors="replace")
            os.close(file)
            if not isinstance(error, BlockingIOError):
                raise _refusal(journal, f"cannot lock {path}: {error.strerror}; ") from error
            found = f"{holder or 'another process'} is recording in it; wait for it to end, or "
            raise _refusal(journal, found) from error
        os.close(file)  # its holder removed it just before


def _is_at(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))  # noqa: PTH116
    except FileNotFoundError:
        return False


def _refusal(journal: str, found: Part) -> StorageError:
    return StorageError(
        f"journal {journal}: {found}", "set ", SettingRef("journal"), " to another file."
    )
