"""Watch the judges of a server, in windows of its groups."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from genrm_cli.errors import GenrmError
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.json_types import Record
from genrm_cli.judging.opening.open_judges import OpenJudges
from genrm_cli.metrics.event import Event
from genrm_cli.scored.describe_run import run_record
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.storage.encoding.records import render_document
from genrm_cli.watching.history import METRICS_SUFFIX, History, Timelines, read_history
from genrm_cli.watching.watched_records import WatchRecord
from genrm_cli.watching.watcher import HistoryEvent, Watcher

_ASKED_EVERY_S = 1_800.0  # windows follow each other within minutes, and each asking costs calls


@dataclass(frozen=True, slots=True)
class WatchEvent(Event):
    """A window of a server has been watched."""

    window: str
    state: str
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class WatchFailedEvent(Event):
    """A window could not be watched; the next one asks again."""

    detail: str


class WatchedWindows:
    """The timeline of a server's judges.

    Attributes:
        latest: the state after the last window, as JSON; None before the first.
    """

    def __init__(self, run: RunContext) -> None:
        """Read the sentinels and the history.

        Raises:
            GenrmError: they cannot be read.
        """
        self._run = run
        self._watcher = Watcher(run.settings)
        self._watcher.check(run)
        self.latest: Record | None = None
        folder = self._watcher.table.history
        history = History()
        if folder is not None:
            run.store.at(folder).make_folder()
            history = read_history([folder], run.store)
        for note in history.notes:
            run.on_event(HistoryEvent(note))
        self._timelines = Timelines(history)
        self._next_s = 0.0
        # Windows may end faster than sentinels are answered: they are watched in their order.
        self._lock = asyncio.Lock()
        # The event loop holds tasks weakly.
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, totals: RunTotals, plan: GroupPlan, judges: OpenJudges) -> None:
        """Watch a window that has ended; returns at once."""
        task = asyncio.ensure_future(self._add(totals, plan, judges))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for windows that are being watched."""
        await asyncio.gather(*self._tasks)

    async def _add(self, totals: RunTotals, plan: GroupPlan, judges: OpenJudges) -> None:
        async with self._lock:
            try:
                await self._watch(totals, plan, judges)
            except GenrmError as error:  # the next window asks again
                self._run.on_event(WatchFailedEvent(str(error)))

    async def _watch(self, totals: RunTotals, plan: GroupPlan, judges: OpenJudges) -> None:
        # Unique without a lock, since servers may share a history.
        name = f"window-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        found = WatchRecord()
        if self._watcher.table.sentinels is not None and time.monotonic() >= self._next_s:
            async with self._watcher.open_panels(plan, judges, self._run) as panels:
                found = panels[0].with_cost(await self._watcher.ask_sentinels(*panels))
            self._next_s = time.monotonic() + _ASKED_EVERY_S
        state = self._timelines.add(name, totals, found)
        self.latest = to_json(state)
        found = replace(found, state=state.state, reasons=state.reasons)
        self._run.on_event(WatchEvent(name, found.state, found.reasons))
        if (folder := self._watcher.table.history) is not None:
            place = f"{folder.rstrip('/')}/{name}"
            record = run_record(
                totals,
                self._run.settings,
                input_=None,
                output=place,
                output_mark=None,
                journal=None,
                watch=found,
            )
            data = render_document(to_json(record))
            await self._run.in_thread(
                lambda: self._run.store.at(f"{place}{METRICS_SUFFIX}").create(data)
            )
