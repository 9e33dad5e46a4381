"""Records that a server appends to files of a folder, a new file from time to time.

The files being written have hidden names, `.served-1.scored.jsonl`, and are complete when they lose
the dot: after `every_s`, above 256 MB, and when the server ends. Hidden files of a folder on S3 are
in the user's state, and complete ones are uploaded. Their writer locks them. A hidden file without
a lock was left by a killed server, or could not be completed when it was due: the next server, and
the next completion, completes it. A kill may cut off the last line, which is dropped then."""

import asyncio
import errno
import fcntl
import hashlib
import mmap
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from genrm_cli.errors import SettingRef, StorageError
from genrm_cli.metrics.event import OnEvent
from genrm_cli.settings.resolve import state_folder
from genrm_cli.storage.local.local_files import LocalFile
from genrm_cli.storage.local.sinks import sync_folder
from genrm_cli.storage.location import is_remote, require_rl_prefix
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.record_events import RecordedEvent, RecordFailedEvent
from genrm_cli.storage.store import Store
from genrm_cli.tasks import in_thread

_MOST_BYTES = 256_000_000  # of one file
_COPY_BYTES = 1 << 20
_LOCK = fcntl.LOCK_EX | fcntl.LOCK_NB


class RecordFiles:
    """Files of records. A subclass names them.

    Attributes:
        kind: how names begin.
        suffixes: how the names of files that are written together end; readers wait for the last.
    """

    kind: str
    suffixes: Sequence[str]

    def __init__(
        self,
        folder: str,
        every_s: float,
        on_event: OnEvent,
        store: Store,
        *,
        any_prefix: bool,
    ) -> None:
        """Prepare the folder; writes nothing."""
        self._folder = folder.rstrip("/")
        require_rl_prefix(f"{self._folder}/x", any_prefix)
        self._every_s = every_s
        self._on_event = on_event
        self._store = store
        self._hidden = _hidden_folder(self._folder)
        self._begun = datetime.now(UTC)
        self._id = secrets.token_hex(8)  # not the pid, which in every container may be 1
        self._count = 0
        self._stem: str | None = None
        self._files: list[BinaryIO] = []
        self._size_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def _metrics(self, uri: str) -> bytes | None:
        """Return the metrics of the file that ends now, and forget them; None to write none."""
        return None

    @property
    def stem(self) -> str:
        """Name of the file that the next row goes to, without its suffix."""
        if self._size_bytes > _MOST_BYTES:
            self._rotate()
        if self._stem is None:
            self._count += 1
            self._begun = datetime.now(UTC)
            self._stem = f"{self.kind}-{self._begun:%Y%m%dT%H%M%SZ}-{self._id}-{self._count:05}"
        return self._stem

    def _append(self, *parts: bytes, begins: bool = False) -> None:
        """Append a part to each file, or raise `StorageError`; `begins` begins new files for it."""
        if begins:
            self._rotate()
        paths = [self._hidden / f".{self.stem}{suffix}" for suffix in self.suffixes]
        lengths: list[int] = []
        try:
            if not self._files:
                self._files = _open_locked(paths)
                self._timer = asyncio.get_running_loop().call_later(self._every_s, self._rotate)
            lengths = [file.tell() for file in self._files]
            for file, part in zip(self._files, parts, strict=True):
                if file.write(part) < len(part):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            for file, length in zip(self._files, lengths, strict=False):
                file.truncate(length)
                file.seek(length)
            raise StorageError(
                SettingRef("record"), f": {paths[-1]}: {error.strerror}. Free some disk space."
            ) from error
        self._size_bytes += sum(map(len, parts))

    def _rotate(self) -> None:
        """Complete the files written so far."""
        if self._timer is not None:
            self._timer.cancel()
        if self._files:
            metrics = self._metrics(f"{self._folder}/{self._stem}{self.suffixes[-1]}")
            task = asyncio.ensure_future(self._finish(self._files, self._stem or "", metrics))
            self._files = []
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._stem = None
        self._size_bytes = 0

    async def _finish(self, files: Sequence[BinaryIO], stem: str, metrics: bytes | None) -> None:
        """Release files, their metrics beside them, and complete them."""

        def finish() -> None:
            with ExitStack() as closing:
                for file in files:
                    closing.enter_context(file)
                if metrics is not None:
                    LocalFile(str(self._hidden / f".{stem}.metrics.json")).replace(metrics)
                for file in files:
                    os.fsync(file.fileno())
            self._complete_unlocked()

        try:
            await in_thread(finish)
        except (StorageError, OSError) as error:  # the latter without file descriptors, too
            self._on_event(RecordFailedEvent(str(error)))

    async def close(self) -> None:
        """Complete everything, or raise `StorageError`: the next server completes what is left."""
        self._rotate()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.complete_left()

    async def complete_left(self) -> None:
        """Complete the hidden files that have no writer."""
        try:
            await in_thread(self._complete_unlocked)
        except (StorageError, OSError) as error:
            raise StorageError(
                SettingRef("record", self._folder),
                f": files in {self._hidden} cannot be completed: {error} The next server that "
                "records there tries again.",
            ) from error

    def _complete_unlocked(self) -> None:
        main = self.suffixes[-1]
        for path in sorted(self._hidden.glob(f".{self.kind}-*{main}")):
            with ExitStack() as lock:
                try:
                    fcntl.flock(lock.enter_context(path.open("r+b")), _LOCK)
                except OSError:  # a server is writing it, or another has just completed it
                    continue
                if path.exists():
                    self._complete(path.name[1:].removesuffix(main))

    def _complete(self, stem: str) -> None:
        """Give files their names, the one that readers wait for last; remove them if it is
        empty.
        """
        main = self._hidden / f".{stem}{self.suffixes[-1]}"
        others = [path for path in self._hidden.glob(f".{stem}.*") if path != main]
        for path in (*others, main):
            if path.suffix == ".jsonl":
                _drop_partial_line(path)
        has_rows = main.stat().st_size > 0
        for path in (*others, main):
            if has_rows:
                self._publish(path, f"{self._folder}/{path.name[1:]}")
            else:
                path.unlink()
        if has_rows:
            self._on_event(RecordedEvent(f"{self._folder}/{main.name[1:]}"))

    def _publish(self, path: Path, uri: str) -> None:
        """Give a file its name, which no other file has, but the same one after a kill."""
        if not is_remote(uri):
            path.replace(uri)
            sync_folder(path.parent)
            return
        with Outputs(self._store, overwrite=True) as outputs, path.open("rb") as file:
            shutil.copyfileobj(file, outputs.open(uri), _COPY_BYTES)
            outputs.commit()
        path.unlink()


def _open_locked(paths: Sequence[Path]) -> list[BinaryIO]:
    """Create files and lock the last one, which is created first: alone it is nothing to read."""
    with ExitStack() as undo:
        files: list[BinaryIO] = [
            undo.enter_context(path.open("ab", buffering=0)) for path in reversed(paths)
        ]
        fcntl.flock(files[0], _LOCK)
        paths[-1].stat()  # raises if another server removed it, still empty, before the lock
        undo.pop_all()
    return files[::-1]


def _drop_partial_line(path: Path) -> None:
    """Remove what follows the last whole line."""
    with path.open("r+b") as file:
        if path.stat().st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                end = content.rfind(b"\n") + 1
            file.truncate(end)


def _hidden_folder(folder: str) -> Path:
    """Return where hidden files are: in the folder itself, or for one on S3 in the user's state."""
    path = Path(folder)
    if is_remote(folder):
        path = state_folder() / f"record-{hashlib.sha256(folder.encode()).hexdigest()[:16]}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            SettingRef("record", folder),
            f": {path} cannot be created: {error.strerror}; choose another folder.",
        ) from error
    return path
