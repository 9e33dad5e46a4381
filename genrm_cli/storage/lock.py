"""Lock between processes of one machine. The system releases it when its holder ends."""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from genrm_cli.errors import StorageError


@contextmanager
def locked(folder: Path, words: Sequence[str]) -> Iterator[None]:
    """Hold the lock for a command line and the working folder. Lock files are never removed.

    Raises:
        StorageError: another process holds the lock, or its file cannot be created.
    """
    name = hashlib.sha256("\0".join([str(Path.cwd()), *words]).encode()).hexdigest()[:16]
    path = folder / f"{name}.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"--lock: {path} cannot be created: {error.strerror}.") from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StorageError(
                f"the same command is still running (process {owner}), and --lock was given; nothing was done. "
                f"The lock is {path}."
            ) from error
        with suppress(OSError):  # on a full disk the lock works, but its message lacks the process
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)
