"""Hidden files that become outputs once they are complete.

Their names are those of their targets, with a number for each process that writes one at the same
time. A writer locks its file, and the kernel drops the lock of a process that ends, however it
ends. So a file that can be locked is one that a killed process left: the next writer of the target
removes it."""

import contextlib
import fcntl
import hashlib
import os
from itertools import count
from pathlib import Path

from genrm_cli.storage.location import UNFINISHED_PREFIX, UNFINISHED_SUFFIX

# O_EXCL: no other process can have made, or linked, a file of this name.
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# Not a link, nor a pipe that waits for its writer. Over NFS, only a file that is open for writing
# can be locked.
_LEFT_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LEFT_AT_MOST = 8  # by processes that wrote to one target at the same time, and were all killed


class UnfinishedFile:
    """A new hidden file in the folder of its target, for writing and renaming.

    Attributes:
        path: its name until it is renamed.
        descriptor: -1 once it is closed.
    """

    def __init__(self, target: Path, mode: int) -> None:
        """Create it, and remove what killed processes left for the target."""
        remove_left(target)
        for number in count():
            self.path = _hidden(target, number)
            try:
                self.descriptor = os.open(self.path, _NEW_FILE, mode)
            except FileExistsError:
                continue
            # Another process may have taken it for a left one before it was locked: it has the lock
            # and removes the file now, or has removed it.
            if _is_ours(self.descriptor) and _is_at(self.path, self.descriptor):
                return
            os.close(self.descriptor)

    def close(self) -> None:
        """Close it, and remove it unless it has been renamed; harmless when closed."""
        if self.descriptor < 0:
            return
        # While it is locked, nobody else can take its name.
        if _is_at(self.path, self.descriptor):
            self.path.unlink(missing_ok=True)
        os.close(self.descriptor)
        self.descriptor = -1


def remove_left(target: Path) -> None:
    """Remove the hidden files that killed processes left for a target."""
    for number in range(_LEFT_AT_MOST):
        path = _hidden(target, number)
        with contextlib.suppress(OSError):  # none, somebody's, or it only takes up space
            descriptor = os.open(path, _LEFT_FILE)
            try:
                _lock(descriptor)
                # Who has the lock of the file at this name is the only one to remove it. Another
                # file may have got the name in the meantime.
                if _is_at(path, descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def _hidden(target: Path, number: int) -> Path:
    # A digest, as the name itself may be too long to be part of another.
    digest = hashlib.blake2b(os.fsencode(target.name), digest_size=8).hexdigest()
    return target.with_name(f"{UNFINISHED_PREFIX}{digest}-{number}{UNFINISHED_SUFFIX}")


def _lock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_ours(descriptor: int) -> bool:
    """Lock a file; return False if another process has the lock."""
    try:
        _lock(descriptor)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116
    except OSError:
        return False
