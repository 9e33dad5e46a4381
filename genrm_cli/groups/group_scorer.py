"""Score groups in memory: judge them, calibrate the judge, compute the rewards."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from genrm_cli.errors import UsageError
from genrm_cli.groups.check import check_settings, judge_specs, open_options
from genrm_cli.groups.compile import compile_plan, fit_budget
from genrm_cli.groups.count_group import count_group
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.groups.reward_group import JudgedVerdicts, reward_verdicts, verdicts_of
from genrm_cli.groups.tasks import first_error_of
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.open_judges import OnEvent, OpenJudges, ignore_event, open_judges
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.rewards.estimators import Calibration, CalibrationStatistics
from genrm_cli.settings import Settings

NOT_OPEN = "the scorer is not open; use it inside `async with genrm.Scorer(...) as scorer:`"
ALREADY_OPEN = "the scorer is already open; open another one"
MAX_GROUPS_AT_ONCE = 64


class GroupScorer:
    """Scores groups under one plan; an asynchronous context manager.

    All groups share the judges' connections, limits, budget and journal. Several tasks of one event loop may score
    groups at once.

    Attributes:
        metrics: counts over all groups scored so far.
    """

    def __init__(
        self,
        settings: Settings,
        api_keys: Mapping[str, str],
        progress: RunProgress | None = None,
        on_event: OnEvent = ignore_event,
    ) -> None:
        """Check and compile the settings; opens nothing.

        Args:
            settings: the effective settings.
            api_keys: of the judges that need one, by name.
            progress: reports the progress to another thread.
            on_event: called when something happens that a person or a log should know.

        Raises:
            UsageError: the settings name no judge, contradict each other, or cannot be compiled.
        """
        check_settings(settings)
        self._settings, self._api_keys, self._on_event = settings, api_keys, on_event
        self._plan = compile_plan(settings)
        self._progress = progress or RunProgress()
        self._statistics = CalibrationStatistics()
        self._resources = AsyncExitStack()
        self._open_judges: OpenJudges | None = None
        self._judges: JudgeSet | None = None
        self.metrics = self._progress.begin()

    async def __aenter__(self) -> Self:
        """Open the judges and the journal, and probe the judges.

        Raises:
            JudgeError: the probe of a judge fails.
            StorageError: the journal cannot be opened.
        """
        if self._open_judges is not None:
            raise RuntimeError(ALREADY_OPEN)
        async with AsyncExitStack() as resources:
            options = open_options(self._settings, api_keys=self._api_keys)
            specs = judge_specs(self._settings)
            judges = self._open_judges = await resources.enter_async_context(
                open_judges(specs, options, self._on_event)
            )
            resources.callback(self._forget_judges)
            given = self._settings.journal
            journal = None
            if given.journal is not None and given.use_journal:
                journal = resources.enter_context(Journal(given.journal))
            if judges.is_remote:
                self._progress.pace = judges
            await judges.probe()
            self._judges = judges.with_journal(journal, self.metrics.add_outcome)
            self._resources = resources.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._resources.aclose()

    def _forget_judges(self) -> None:
        if self._open_judges is not None:
            self.metrics.stopped_by = self._open_judges.stopped_by
        self._open_judges = self._judges = None

    @property
    def calibration(self) -> Calibration:
        """The calibration of the judge on all groups scored so far; pass it on to score later groups with it."""
        return self._statistics.fit()

    async def score_group(self, group: Group, *, calibration: Calibration | None = None) -> GroupRewards:
        """Compare the rollouts of one group and return their rewards.

        Args:
            group: the rollouts of one task.
            calibration: of the judge; by default none.

        Raises:
            JudgeError: the judge refuses every request, or did not answer for `give_up_after`.
            StorageError: the journal cannot be written.
            RuntimeError: the scorer is not open.
        """
        plan = self._fitted_plan([group])
        judged = await self._judge(group, plan)
        (rewards,) = self._reward([judged], plan, calibration or Calibration())
        return rewards

    async def score_groups(
        self, groups: Iterable[Group], *, concurrency: int = MAX_GROUPS_AT_ONCE, calibration: Calibration | None = None
    ) -> list[GroupRewards]:
        """Compare the rollouts of many groups and return the rewards of each, in the order of the groups.

        Args:
            groups: any iterable. It is consumed lazily, and the texts of a finished group are released; with the
                setting `budget`, all groups are read first.
            concurrency: groups in progress at once, at least 1; `concurrency` of the settings limits calls.
            calibration: of the judge; by default it is fitted to these groups, as `genrm score` does.

        Raises:
            UsageError: `concurrency` is below 1.
            JudgeError: the judge refuses every request, or did not answer for `give_up_after`.
            StorageError: the journal cannot be written.
            RuntimeError: the scorer is not open.
        """
        if concurrency < 1:
            raise UsageError(f"score_groups: concurrency is {concurrency}; expected at least 1.")
        if self._settings.pairing.budget is not None:
            groups = list(groups)
            plan = self._fitted_plan(groups)
        else:
            plan = self._plan
        judged = await self._judge_all(iter(groups), plan, concurrency)
        return self._reward(judged, plan, calibration or _calibration_of(judged))

    def _fitted_plan(self, groups: Iterable[Group]) -> GroupPlan:
        sizes: dict[int, int] = {}
        for group in groups:
            sizes[group.answered] = sizes.get(group.answered, 0) + 1
        return fit_budget(self._plan, sizes, self._settings.pairing.budget)

    async def _judge_all(self, groups: Iterator[Group], plan: GroupPlan, concurrency: int) -> list[JudgedVerdicts]:
        room = asyncio.Semaphore(concurrency)
        tasks: list[asyncio.Task[JudgedVerdicts]] = []

        async def judge(group: Group) -> JudgedVerdicts:
            try:
                return await self._judge(group, plan)
            finally:
                room.release()

        try:
            async with asyncio.TaskGroup() as running:
                await room.acquire()
                for group in groups:
                    tasks.append(running.create_task(judge(group)))
                    await room.acquire()
        except BaseExceptionGroup as errors:
            raise first_error_of(errors) from None
        return [task.result() for task in tasks]

    async def _judge(self, group: Group, plan: GroupPlan) -> JudgedVerdicts:
        if self._judges is None:
            raise RuntimeError(NOT_OPEN)
        metrics, size = self.metrics, len(group.rollouts)
        metrics.groups += 1
        metrics.rollouts += size
        metrics.rollouts_in_groups += size if size > 1 else 0
        metrics.planned += plan.count_requests(group.answered)
        judged = verdicts_of(await judge_group(group, plan, self._judges), plan)
        self._statistics.add_group(size, judged.used)
        metrics.groups_done += 1
        return judged

    def _reward(self, groups: list[JudgedVerdicts], plan: GroupPlan, calibration: Calibration) -> list[GroupRewards]:
        results = reward_verdicts(groups, plan, calibration)
        for group, result in zip(groups, results, strict=True):
            count_group(self.metrics, group.judged, result, plan)
        return results


def _calibration_of(groups: list[JudgedVerdicts]) -> Calibration:
    statistics = CalibrationStatistics()
    for group in groups:
        statistics.add_group(group.judged.size, group.used)
    return statistics.fit()
