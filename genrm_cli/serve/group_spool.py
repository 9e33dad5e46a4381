"""Groups that have been served and are not in a file yet: a hidden local file that outlives a killed server."""

import base64
import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from genrm_cli.errors import SettingRef, StorageError

_SUFFIX = ".spool"
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class GroupSpool:
    """Blocks of scored lines and comparisons, one group after another; locked while a process writes it."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.stem = path.name.removeprefix(".").removesuffix(_SUFFIX)
        self.size_bytes = path.stat().st_size
        self._file = file

    @classmethod
    def create(cls, folder: Path, stem: str) -> "GroupSpool":
        """Create a spool."""
        path = folder / f".{stem}{_SUFFIX}"
        try:
            file = os.fdopen(os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600), "a+b")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StorageError(SettingRef("record", str(folder)), f": cannot be written: {error.strerror}.") from error
        return cls(path, file)

    @classmethod
    def iter_left(cls, folder: Path) -> Iterator["GroupSpool"]:
        """Yield the spools that killed servers left in a folder."""
        for path in sorted(folder.glob(f".*{_SUFFIX}")):
            with contextlib.suppress(OSError):  # another server writes it, or has just finished it
                file = os.fdopen(os.open(path, _FLAGS), "a+b")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    file.close()
                    raise
                yield cls(path, file)

    def add(self, scored: bytes, comparisons: bytes) -> None:
        """Add a group."""
        block = b" ".join(map(base64.b64encode, (scored, comparisons))) + b"\n"
        try:
            self._file.write(block)
            self._file.flush()
        except OSError as error:
            raise StorageError(SettingRef("record"), f": {self.path} cannot be written: {error.strerror}.") from error
        self.size_bytes += len(block)

    def iter_blocks(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield scored lines and comparisons of each group; a block that a kill cut off is left out."""
        self._file.seek(0)
        for line in self._file:
            if line.endswith(b"\n"):
                scored, comparisons = map(base64.b64decode, line.rstrip(b"\n").split(b" "))
                yield scored, comparisons

    def close(self) -> None:
        """Release the file, and leave it."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file, now that its groups are elsewhere."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()
