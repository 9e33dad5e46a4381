"""Watch the judges of a run: ask what watching takes, and say what the history and this dump
show.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from uuid import uuid4

from genrm_cli.errors import JudgeError, StorageError
from genrm_cli.groups.check import asks_nothing
from genrm_cli.groups.group import Group
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.index import InputIndex
from genrm_cli.jobs.stores import OutcomeStore
from genrm_cli.judging.lookup import profile_of
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.opening.open_judges import OpenJudges, open_judges
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.settings import Settings
from genrm_cli.settings.judge_settings import WatchTable
from genrm_cli.settings.panel import auditor_of
from genrm_cli.storage.location import folder_of
from genrm_cli.storage.places import place_of
from genrm_cli.watching.asking import (
    Dump,
    Panel,
    ask_auditor,
    ask_canaries,
    ask_sentinels,
    count_audits,
    read_sentinels,
)
from genrm_cli.watching.history import History, Timelines, read_history
from genrm_cli.watching.watched_records import WatchRecord


@dataclass(frozen=True, slots=True)
class HistoryEvent(Event):
    """A record of the history is left out, or has a doubtful time."""

    severity = Severity.WARNING
    detail: str

    def text(self) -> str:
        """Say which one, and why."""
        return self.detail


class Watcher:
    """Watches the judges of one run. All its inputs share what the judges say of the sentinels."""

    def __init__(self, settings: Settings) -> None:
        self.table = settings.panel.watch or WatchTable()
        self._auditor = auditor_of(settings)
        self._sentinels: list[Group] = []
        self._asked: WatchRecord | None = None
        self._noted: set[str] = set()
        self._asking = asyncio.Lock()  # inputs of a run are scored side by side

    def check(self, run: RunContext) -> None:
        """Read the sentinels, before any call is paid.

        Raises:
            InputError: they cannot be read.
        """
        if self.table.sentinels is not None:
            self._sentinels = read_sentinels(self.table.sentinels, run)

    def count_calls(self, comparisons: int) -> int:
        """Return about how many calls a run adds to these comparisons, one a response."""
        audits = 0.0 if self._auditor is None else self.table.audit_share * comparisons
        judges = 1 if self._auditor is None else 2
        return round(judges * len(self._sentinels) + audits + self.table.canaries * comparisons)

    async def observe(
        self,
        output: str,
        index: InputIndex,
        outcomes: OutcomeStore,
        judges: OpenJudges,
        run: RunContext,
    ) -> WatchRecord:
        """Ask what watching takes, and return it with the state after this dump.

        It is blind if a judge cannot be used: the calls of the run are paid, and its outputs do
        not depend on this.
        """
        totals = run_totals(run.settings, run.metrics, index.plan, judges.specs, 0.0)
        history = await run.in_thread(lambda: _read_history(self.table.history, output, run))
        for note in set(history.notes) - self._noted:  # once, and not for each input
            self._noted.add(note)
            run.on_event(HistoryEvent(note))
        found = WatchRecord()
        if run.exchange is None and not asks_nothing(run.settings):
            try:
                found = await self._ask(Dump(output, index, outcomes), judges, run)
            except JudgeError as error:
                return WatchRecord(reasons=(str(error),))
        state = Timelines(history).add(output, totals, found)
        return replace(found, state=state.state, reasons=state.reasons)

    async def _ask(self, dump: Dump, judges: OpenJudges, run: RunContext) -> WatchRecord:
        index = dump.index
        async with self.open_panels(index.plan, judges, run) as (panel, auditor):
            # Dumps of one run share the sentinels: the first that ends asks, the others wait.
            async with self._asking:
                if self._asked is None and self.table.sentinels is not None:
                    self._asked = await self.ask_sentinels(panel, auditor)
            found = self._asked or WatchRecord()
            if auditor is not None:
                count = self.table.audit_share * index.metrics.comparisons_planned
                found = count_audits(await ask_auditor(dump, count, auditor), found)
            if self.table.canaries:
                count = self.table.canaries * index.metrics.rollouts
                found = replace(found, canaries=await ask_canaries(dump, count, panel))
            return panel.with_cost(found)

    async def ask_sentinels(self, panel: Panel, auditor: Panel | None) -> WatchRecord:
        """Ask the judges and the auditor about the sentinels in the settings."""
        sentinels = self._sentinels
        of_auditor = None
        model = None if self._auditor is None else self._auditor.judge.model
        named = "\0".join((model or "", *(each.key or "" for each in sentinels)))
        if auditor is not None:
            of_auditor = await ask_sentinels(sentinels, auditor)
        return WatchRecord(
            sentinel_set=sha256(named.encode()).hexdigest()[:16],
            sentinel_count=len(sentinels),
            asked=uuid4().hex[:12],
            sentinels=await ask_sentinels(sentinels, panel),
            auditor_sentinels=of_auditor,
        )

    @asynccontextmanager
    async def open_panels(
        self, plan: GroupPlan, judges: OpenJudges, run: RunContext
    ) -> AsyncIterator[tuple[Panel, Panel | None]]:
        """Yield the judges, and the auditor if there is one."""
        run = replace(run, metrics=RunMetrics())
        panel = Panel(judges, plan, run)
        if self._auditor is None:
            yield panel, None
            return
        spec = JudgeSpec(self._auditor, profile_of(self._auditor))
        auditor_plan = replace(plan, judges=(JudgePlan(spec.config.name, spec.profile),), rooms=())
        async with open_judges([spec], run.open_options, run.on_event) as opened:
            yield panel, Panel(opened, auditor_plan, run)


def _read_history(given: str | None, output: str, run: RunContext) -> History:
    """Return the history of other outputs.

    `given`: the folder or prefix of the settings; by default that of the output, without those
    below it."""
    folder = folder_of(output) if given is None else given.rstrip("/")
    if not place_of(output).startswith(f"{place_of(folder)}/"):
        why = f"{output} is not below {folder}, the history in the settings: no run finds it there"
        return History(problems=(why,))
    try:
        history = read_history([folder], run.store, flat=given is None)
    except StorageError as error:
        return History(problems=(f"the history cannot be read: {error}",))
    others = (each for each in history.records if place_of(each.output) != place_of(output))
    return replace(history, records=tuple(others))
