"""Records that a server writes to files of a folder, a new file from time to time; each file
appears whole.

Records are spooled on a local disk first, so a killed server loses none: the next one writes what
it left."""

import asyncio
import base64
import contextlib
import errno
import fcntl
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from genrm_cli.errors import SettingRef, StorageError
from genrm_cli.json_types import Record
from genrm_cli.settings.resolve import state_folder
from genrm_cli.storage.location import is_s3, require_rl_prefix
from genrm_cli.tasks import in_thread

_MOST_BYTES = 256_000_000  # of one file's spool
_SUFFIX = ".spool"
SealedT = TypeVar("SealedT")


class RecordSpool:
    """Records that are not in a file yet: a hidden local file that outlives a killed server; its
    writer locks it.

    Blocks of some parts, one after another. Blocks that the disk has no room for wait in memory.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.stem = path.name.removeprefix(".").removesuffix(_SUFFIX)
        self.size_bytes = self._written_bytes = path.stat().st_size
        self._file = file
        self._waiting: list[bytes] = []

    @classmethod
    def create(cls, folder: Path, stem: str) -> "RecordSpool":
        """Create a spool."""
        try:
            return cls._locked(folder / f".{stem}{_SUFFIX}", os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise StorageError(
                SettingRef("record", str(folder)), f": cannot be written: {error.strerror}."
            ) from error

    @classmethod
    def iter_left(cls, folder: Path, kind: str) -> Iterator["RecordSpool"]:
        """Yield the spools of a kind that killed servers left in a folder."""
        for path in sorted(folder.glob(f".{kind}-*{_SUFFIX}")):
            with contextlib.suppress(OSError):  # another server is writing it, or has just finished
                yield cls._locked(path)

    @classmethod
    def _locked(cls, path: Path, flags: int = 0) -> "RecordSpool":
        file = os.fdopen(
            os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600), "a+b"
        )
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        return cls(path, file)

    def add(self, *parts: bytes) -> None:
        """Add a block, and write all that waits; raise `StorageError` if some of it still waits."""
        block = b" ".join(map(base64.b64encode, parts)) + b"\n"
        self._waiting.append(block)
        self.size_bytes += len(block)
        self.flush()

    def flush(self) -> None:
        """Write what waits, or raise `StorageError`."""
        while self._waiting:
            block = self._waiting[0]
            try:
                if os.write(self._file.fileno(), block) < len(block):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file.fileno(), self._written_bytes)
                raise StorageError(
                    SettingRef("record"), f": {self.path}: {error.strerror}."
                ) from error
            self._written_bytes += len(block)
            del self._waiting[0]

    @property
    def waiting_bytes(self) -> int:
        """Length of the blocks that wait."""
        return self.size_bytes - self._written_bytes

    def iter_blocks(self) -> Iterator[list[bytes]]:
        """Yield the parts of each block; a block that a kill cut off is left out."""
        self._file.seek(0)
        for line in chain(self._file, self._waiting):
            if line.endswith(b"\n"):
                yield [base64.b64decode(part) for part in line.rstrip(b"\n").split(b" ")]

    def close(self) -> None:
        """Release the file without removing it."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file, now that its records are elsewhere."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()


class RollingFiles(ABC, Generic[SealedT]):
    """Files of records. A subclass says what a file is, and what is known of it when it is
    complete.
    """

    kind: str

    def __init__(
        self,
        folder: str,
        every_s: float,
        on_event: Callable[[str, Record], None],
        *,
        any_prefix: bool,
    ) -> None:
        """Prepare the folder; writes nothing. Records are spooled for `every_s` before they become
        a file.
        """
        self._folder = folder.rstrip("/")
        require_rl_prefix(f"{self._folder}/x", any_prefix)
        self._every_s = every_s
        self._on_event = on_event
        self._spool_folder = _spool_folder(self._folder)
        self._spool: RecordSpool | None = None
        self._begun = datetime.now(UTC)
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._pid = os.getpid()
        self._unwritten: list[tuple[RecordSpool, SealedT | None]] = []
        self._has_failed = False

    @abstractmethod
    def _seal(self) -> SealedT:
        """Return what is known of the file whose last record has been spooled, and forget it."""

    @abstractmethod
    def _write_file(self, place: str, spool: RecordSpool, sealed: SealedT | None) -> str:
        """Write a file, and return its name; `sealed` is None for one that a killed server left."""

    @property
    def is_failing(self) -> bool:
        """Whether some records could not be written."""
        return bool(self._unwritten) or (self._spool is not None and self._spool.waiting_bytes > 0)

    async def write_left(
        self, on_spool: Callable[[RecordSpool], None] = lambda spool: None
    ) -> None:
        """Write the records that killed servers left, each spool after `on_spool`."""
        for left in RecordSpool.iter_left(self._spool_folder, self.kind):
            on_spool(left)
            await in_thread(lambda spool=left: self._write(spool, None))  # type: ignore[misc]

    @property
    def stem(self) -> str:
        """Name of the file that the next record goes to, without its suffix."""
        return self._next_spool().stem

    def _next_spool(self, *, begins: bool = False) -> RecordSpool:
        if self._spool is not None and (begins or self._spool.size_bytes > _MOST_BYTES):
            self._rotate()
        return self._spool or self._begin()

    def _spool_parts(self, *parts: bytes, begins: bool = False) -> None:
        """Spool a record; `begins` begins a new file for it."""
        spool = self._next_spool(begins=begins)
        if spool.waiting_bytes > _MOST_BYTES:
            spool.flush()
        try:
            spool.add(*parts)
        except StorageError as error:
            self._report(error)
        else:
            self._report()

    def _report(self, error: Exception | None = None) -> None:
        """Report the first failure, and the recovery once no record waits."""
        if error is not None and not self._has_failed:
            self._on_event("record_failed", {"detail": str(error)})
        elif error is None and self._has_failed and not self.is_failing:
            self._on_event("record_resumed", {})
        self._has_failed = error is not None or (self._has_failed and self.is_failing)

    def _begin(self) -> RecordSpool:
        self._count += 1
        self._begun = datetime.now(UTC)
        stem = f"{self.kind}-{self._begun:%Y%m%dT%H%M%SZ}-{self._pid}-{self._count:05}"
        self._spool = RecordSpool.create(self._spool_folder, stem)
        self._rotate_later()
        return self._spool

    def _rotate_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._rotate)

    def _rotate(self) -> None:
        """Write what is spooled so far, and what could not be written before, while more
        arrives.
        """
        spool = self._spool
        self._spool = None
        if self._timer is not None:
            self._timer.cancel()
        due = self._unwritten
        self._unwritten = []
        if spool is not None:
            due.append((spool, self._seal()))
        if due:
            task = asyncio.ensure_future(self._write_all(due))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _write_all(self, due: Sequence[tuple[RecordSpool, SealedT | None]]) -> None:
        for spool, sealed in due:
            try:
                await in_thread(lambda spool=spool, sealed=sealed: self._write(spool, sealed))  # type: ignore[misc]
            except (StorageError, OSError) as error:  # the latter without file descriptors, too
                self._unwritten.append((spool, sealed))
                self._report(error)
                if self._spool is None:
                    self._rotate_later()
        self._report()

    async def close(self) -> None:
        """Write everything, or raise `StorageError`: the next server writes what is spooled."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._rotate()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._timer is not None:
            self._timer.cancel()
        lost_bytes = sum(spool.waiting_bytes for spool, _ in self._unwritten)
        for spool, _ in self._unwritten:
            spool.close()
        if self._unwritten:
            raise StorageError(
                SettingRef("record", self._folder),
                f": {len(self._unwritten)} files of records could not be written. The next server "
                "that records "
                "there writes them"
                + (
                    f", but {lost_bytes:,} bytes of them were in memory only, and are lost."
                    if lost_bytes
                    else "."
                ),
            )

    def _write(self, spool: RecordSpool, sealed: SealedT | None) -> None:
        output = self._write_file(f"{self._folder}/{spool.stem}", spool, sealed)
        spool.remove()
        self._on_event("recorded", {"output": output})


def _spool_folder(folder: str) -> Path:
    """Return where records are spooled: the folder itself, or for one on S3 a folder in the user's
    state.
    """
    path = Path(folder)
    if is_s3(folder):
        path = state_folder() / f"record-{hashlib.sha256(folder.encode()).hexdigest()[:16]}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            SettingRef("record", folder), f": {path} cannot be created: {error.strerror}."
        ) from error
    return path
