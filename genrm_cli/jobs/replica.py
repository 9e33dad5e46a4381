"""Replicate a journal to S3 in small segments, so that another machine can continue.

Entries that the journal has committed wait in memory. A task copies them when half of
`segment_calls` wait, or when the oldest is `_AGE_S` old; meanwhile the other half may fill up,
and then calls wait. So a machine that is lost loses at most `segment_calls` verdicts. Segments are
never changed: each has a name of its own, and reading them in any order gives the same journal.
"""

import asyncio
import contextlib
import time
import uuid
from itertools import islice
from typing import Any, Self

import orjson
from msgspec.structs import replace

from genrm_cli.errors import GenrmError, StorageError, naming
from genrm_cli.jobs.context import RunContext
from genrm_cli.judging.journal import Journal
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.storage.encoding.codec import pack, unpack
from genrm_cli.storage.store import Store
from genrm_cli.tasks import in_thread

_SUFFIX = ".journal.zst"  # never listed as a rollout file
_AGE_S = 10.0  # of verdicts that a lost machine may cost
_RETRY_S = 5.0  # after the attempts of a request, which take half a minute


class CopyFailingEvent(Event, frozen=True):
    """Verdicts of the journal could not be copied to their folder."""

    severity = Severity.WARNING
    folder: str
    detail: str

    def text(self) -> str:
        """Say where the verdicts are."""
        return (
            f"cannot copy verdicts to {self.folder} ({self.detail}); they stay in the local "
            "journal and are copied when the store recovers"
        )


class JournalReplica:
    """Copies committed entries to `<folder>/<time>-<id>.journal.zst`, each object written once.

    At most `segment_calls` verdicts are not yet copied: half of them are collected while the other
    half is uploaded, and no new call is made beyond that. When the store fails for half a minute,
    calls go on and the copy is retried. Use it as an asynchronous context manager; leaving it
    copies the rest."""

    def __init__(self, folder_uri: str, run: RunContext, age_s: float = _AGE_S) -> None:
        self._folder = folder_uri
        self._age_s = age_s
        self._run = run
        self._most = run.settings.journal.segment_calls
        self._waiting: list[bytes] = []
        self._under_way = 0
        self._failing = False
        self._half_full = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._copy_now_and_then())
        # Calls that wait for room must not wait for a task that has ended.
        self._task.add_done_callback(lambda _: self._has_room.set())
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if not self._waiting:
            return
        # After an error or interruption, do not wait through all attempts.
        store = self._run.store
        if error is not None:
            store = replace(store, max_attempts=2)
        try:
            # A second Ctrl-C ends the wait, and not the copy in the middle.
            await asyncio.shield(self._copy(store))
        except GenrmError as failed:
            if error is None:
                raise
            # The error that ended the run matters more; the local journal has everything.
            self._run.on_event(CopyFailingEvent(self._folder, str(failed)))

    def add(self, entry: dict[str, Any]) -> None:
        """Add an entry that the journal has committed."""
        self._waiting.append(orjson.dumps(entry))
        self._look()

    async def room(self) -> None:
        """Wait while `segment_calls` entries have not been copied."""
        await self._has_room.wait()
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()  # the task ends only by a bug, which must not hang the run

    def exchange(self, journal: Journal) -> None:
        """Import the segments of all machines, and copy what only this journal has. Blocks on
        storage.
        """
        import_segments(self._folder, journal, self._run.store)
        uncopied = (orjson.dumps(entry) for entry in journal.iter_uncopied())
        while batch := list(islice(uncopied, self._most)):
            self._write(batch, self._run.store)

    async def _copy_now_and_then(self) -> None:
        """Copy when half of `segment_calls` is waiting, or after `_AGE_S`."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._age_s):
                    await self._half_full.wait()
            if not self._waiting:
                continue
            try:
                await self._copy(self._run.store)
            except GenrmError as error:
                if not self._failing:
                    self._run.on_event(CopyFailingEvent(self._folder, str(error)))
                self._failing = True
                self._look()
                await asyncio.sleep(_RETRY_S)
            else:
                self._failing = False

    async def _copy(self, store: Store) -> None:
        """Copy the waiting entries as one segment; they wait again if that fails."""
        batch = self._waiting
        self._waiting = []
        self._under_way = len(batch)
        written: list[str] = []
        try:
            await in_thread(
                lambda: written.append(self._write(batch, store)), threads=self._run.threads
            )
        finally:
            # Also if the task is cancelled meanwhile, since the thread goes on to its end.
            if not written:
                self._waiting = batch + self._waiting
            self._under_way = 0
            self._look()

    def _write(self, batch: list[bytes], store: Store) -> str:
        uri = f"{self._folder}{time.time_ns():020d}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
        # The name is unique: nothing is replaced.
        store.at(uri).replace(pack(b"\n".join(batch)))
        return uri

    def _look(self) -> None:
        is_half_full = 2 * len(self._waiting) >= self._most
        has_room = self._failing or len(self._waiting) + self._under_way < self._most
        for event, on in ((self._half_full, is_half_full), (self._has_room, has_room)):
            (event.set if on else event.clear)()


def import_segments(folder_uri: str, journal: Journal, store: Store) -> None:
    """Import the segments that all machines copied to a folder."""
    for found in store.at(folder_uri).iter_named():
        uri = found.identity.uri
        content = store.at(uri).read() if uri.endswith(_SUFFIX) else None
        if content is None:
            continue
        try:
            entries = [orjson.loads(line) for line in unpack(content, uri).splitlines()]
        except orjson.JSONDecodeError as error:
            raise StorageError(
                f"{uri}: not a journal segment ({error}); ",
                naming("move it away, or name another folder with $journal."),
            ) from error
        journal.import_entries(entries, uri)
