"""Watch the judges of a run: ask what watching takes, and say what the history and this dump
show.
"""

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

from genrm_cli.errors import StorageError
from genrm_cli.groups.check import asks_nothing
from genrm_cli.groups.plan import GroupPlan, JudgePlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.index import InputIndex
from genrm_cli.jobs.stores import OutcomeStore
from genrm_cli.judging.lookup import profile_of
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.opening.open_judges import open_judges
from genrm_cli.judging.opening.opened import OpenJudges
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.scored.run_record import RunTotals, WatchRecord
from genrm_cli.settings import Settings
from genrm_cli.settings.judge_settings import WatchTable
from genrm_cli.settings.panel import auditor_of
from genrm_cli.storage.location import folder_of
from genrm_cli.storage.sink import place_of
from genrm_cli.watching.asking import (
    Dump,
    Watched,
    ask_auditor,
    ask_canaries,
    ask_sentinels,
    sentinel_set_of,
)
from genrm_cli.watching.course import Course, Judgement, State
from genrm_cli.watching.history import History, follow, observe, read_history
from genrm_cli.watching.sentinels import BASELINE_RUNS

_AGAIN = 2  # runs of all sentinels that confirm an alarm


class Watcher:
    """Watches the judges of one run. All its inputs share what the judges say of the sentinels."""

    def __init__(self, settings: Settings) -> None:
        self.table = settings.panel.watch or WatchTable()
        self._auditor = auditor_of(settings)
        self._set = ""
        self._sentinels = 0
        self._asked: WatchRecord | None = None
        self._asking = asyncio.Lock()

    def check(self, run: RunContext) -> None:
        """Read the sentinels, before any call is paid.

        Raises:
            InputError: they cannot be read.
        """
        if self.table.sentinels is not None:
            self._set, self._sentinels = sentinel_set_of(self.table.sentinels, self._auditor, run)

    def count_calls(self, comparisons: int) -> int:
        """Return about how many calls a run adds to these comparisons, one a response, after the
        first day.
        """
        audits = 0.0 if self._auditor is None else self.table.audit_share * comparisons
        judges = 1 if self._auditor is None else 2
        return round(judges * self._sentinels + audits + self.table.canaries * comparisons)

    async def observe(
        self,
        output: str,
        index: InputIndex,
        outcomes: OutcomeStore,
        judges: OpenJudges,
        run: RunContext,
    ) -> WatchRecord:
        """Ask what watching takes, and return it with the state after this dump.

        Raises:
            JudgeError: a judge cannot be used.
            InputError: the sentinels cannot be read.
        """
        totals = run_totals(run.settings, run.metrics, index.plan, judges.specs, 0.0)
        history, trouble = await run.in_thread(
            lambda: _read_history(self.table.history, output, run)
        )
        course = follow(history, totals.judge)[0]
        found = WatchRecord()
        if run.exchange is not None or asks_nothing(run.settings):
            judgement = course.add(observe(output, totals, found))
        else:
            async with self.judges(index.plan, judges, run) as asking:
                async with self._asking:
                    if self._asked is None and self.table.sentinels is not None:
                        self._asked = await asking.sentinels(course)
                found = self._asked or found
                dump = Dump(output, index, outcomes)
                if asking.auditor is not None:
                    count = self.table.audit_share * index.metrics.planned
                    found = (await ask_auditor(dump, count, asking.auditor)).into(found)
                if self.table.canaries:
                    count = self.table.canaries * index.metrics.rollouts
                    found = replace(found, canaries=await ask_canaries(dump, count, asking.judges))
                found, judgement = await asking.judge(course, output, totals, found)
        state = State.BLIND if trouble and judgement.state is State.FINE else judgement.state
        return replace(found, state=state, reasons=(*judgement.reasons, *trouble))

    @asynccontextmanager
    async def judges(
        self, plan: GroupPlan, judges: OpenJudges, run: RunContext
    ) -> AsyncIterator["Asking"]:
        """Yield what asks the judges, and the auditor if there is one, outside the journal."""
        spent = RunMetrics()
        watched = Watched(plan, lambda: judges.with_journal(None, spent.add_outcome))
        if self._auditor is None:
            yield Asking(self.table, self._set, run, spent, watched)
            return
        spec = JudgeSpec(self._auditor, profile_of(self._auditor))
        async with open_judges([spec], run.open_options, run.on_event) as opened:
            own = replace(
                plan, judges=(JudgePlan(spec.config.name, spec.profile),), is_panel=False, rooms=()
            )
            auditor = Watched(own, lambda: opened.with_journal(None, spent.add_outcome))
            yield Asking(self.table, self._set, run, spent, watched, auditor)


@dataclass(frozen=True, slots=True)
class Asking:
    """The open judges that watching asks; `spent` counts the calls."""

    table: WatchTable
    sentinel_set: str
    run: RunContext
    spent: RunMetrics
    judges: Watched
    auditor: Watched | None = None

    async def sentinels(self, course: Course) -> WatchRecord:
        """Ask about the sentinels: several times if the course has no baseline of them."""
        uri = self.table.sentinels or ""
        times = BASELINE_RUNS if course.needs_baseline(self.sentinel_set) else 1
        said = await ask_sentinels(uri, self.judges, self.run, times)
        by_auditor = (
            () if self.auditor is None else await ask_sentinels(uri, self.auditor, self.run, times)
        )
        asked = uuid4().hex[:12]
        return WatchRecord(
            sentinel_set=self.sentinel_set,
            asked=asked,
            sentinels=said,
            auditor_sentinels=by_auditor,
        )

    async def judge(
        self, course: Course, dump: str, totals: RunTotals, found: WatchRecord
    ) -> tuple[WatchRecord, Judgement]:
        """Add a dump to a course; return what was found, with its cost, and the state.

        Before a run is told to stop, fresh calls about the sentinels must say the same.
        """
        doubted = copy.deepcopy(course).add(observe(dump, totals, found)).wants_confirmation
        if doubted and found.sentinels:
            said = await ask_sentinels(self.table.sentinels or "", self.judges, self.run, _AGAIN)
            found = replace(found, sentinels_again=said)
        cost = {
            name: getattr(self.spent, name)
            for name in ("calls", "prompt_tokens", "completion_tokens")
        }
        return replace(found, **cost), course.add(observe(dump, totals, found))


def _read_history(given: str | None, output: str, run: RunContext) -> tuple[History, list[str]]:
    """Return the history of other outputs, and what of it cannot be read.

    `given`: the folder or prefix of the settings; by default that of the output, without those
    below it."""
    folder = folder_of(output) if given is None else given.rstrip("/")
    if not place_of(output).startswith(f"{place_of(folder)}/"):
        return History(), [
            f"{output} is not below {folder}, the history in the settings: no run will find it "
            "there"
        ]
    try:
        history = read_history([folder], run.s3, flat=given is None)
    except StorageError as error:
        return History(), [f"the history cannot be read: {error}"]
    others = tuple(
        record for record in history.records if place_of(record.output) != place_of(output)
    )
    trouble = [f"{uri} cannot be read as part of the history" for uri in history.unreadable]
    return replace(history, records=others), trouble
