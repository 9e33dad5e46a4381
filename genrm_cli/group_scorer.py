"""Score groups in memory: judge them, calibrate the judge, compute the rewards."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from statistics import fmean
from types import TracebackType
from typing import Self

from genrm_cli.groups.asking.begin import find_answered
from genrm_cli.groups.check import check_settings, judge_specs, open_options
from genrm_cli.groups.comparisons import JudgedVerdicts, verdicts_of
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.count_group import count_group
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import judge_group, judge_groups
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.open_judges import OpenJudges, open_judges
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.settings import Settings, changed

_NOT_OPEN = "the scorer is not open; use it inside `async with genrm.Scorer(...) as scorer:`"
_ALREADY_OPEN = "the scorer is already open; open another one"
_OTHER_LOOP = "the scorer belongs to another event loop; open one in each loop"


class GroupScorer:
    """Scores groups under one plan; an asynchronous context manager.

    All groups share the judges' connections, limits, budget and journal. Several tasks of one event
    loop may score groups at once.

    Attributes:
        metrics: counts over all groups scored so far.
        journal: while the scorer is open and keeps one.
    """

    def __init__(
        self,
        settings: Settings,
        api_keys: Mapping[str, str],
        progress: RunProgress | None = None,
        on_event: OnEvent = ignore_event,
        *,
        calibration: Calibration | None = None,
        resumes: bool = False,
    ) -> None:
        """Check and compile the settings; open nothing.

        Args:
            settings: the effective settings.
            api_keys: API keys by judge name.
            progress: progress that another thread may read.
            on_event: called for events that a user or a log should see.
            calibration: calibration of the judge; the default of the methods below.
            resumes: continue after the judge was down for `give_up_after`, as a server does.

        Raises:
            UsageError: the settings name no judge, contradict each other, or cannot be compiled.
        """
        settings = changed(settings, requests_to=None, replies_from=())  # of files, which can wait
        check_settings(settings)
        self._settings = settings
        self._api_keys = api_keys
        self._on_event = on_event
        self._resumes = resumes
        self._given_calibration = calibration
        self._plan = compile_plan(settings)
        self._progress = progress or RunProgress()
        self._statistics = CalibrationStatistics(is_listwise=self._plan.is_listwise)
        self._resources = AsyncExitStack()
        self._open_judges: OpenJudges | None = None
        self._judges: JudgeSet | None = None
        self.journal: Journal | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.metrics = self._progress.begin()

    async def __aenter__(self) -> Self:
        """Open the judges and the journal, and probe the judges.

        Raises:
            JudgeError: the probe of a judge fails; `probe=False` skips it.
            StorageError: the journal cannot be opened.
        """
        if self._open_judges is not None:
            raise RuntimeError(_ALREADY_OPEN)
        options = open_options(self._settings, api_keys=self._api_keys, resumes=self._resumes)
        opening = open_judges(judge_specs(self._settings), options, self._on_event)
        async with AsyncExitStack() as resources:
            judges = self._open_judges = await resources.enter_async_context(opening)
            resources.callback(self._forget_judges)
            given = self._settings.journal
            journal = None
            if given.journal is not None and given.use_journal:
                journal = resources.enter_context(Journal(given.journal))
            if judges.is_remote:
                self._progress.pace = judges
            await judges.settle(journal)
            await judges.probe()
            self._plan = self._plan.with_judges(judges.specs)
            self._judges = judges.with_journal(journal, self.metrics.add_outcome)
            self.journal = journal
            self._loop = asyncio.get_running_loop()
            self._resources = resources.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._resources.aclose()

    def _forget_judges(self) -> None:
        if self._open_judges is not None:
            self.metrics.stopped_by = self._open_judges.stopped_by
        self._open_judges = self._judges = self.journal = None

    @property
    def plan(self) -> GroupPlan:
        """The plan that groups are judged by."""
        return self._plan

    @property
    def is_open(self) -> bool:
        """Whether groups can be scored now."""
        return self._judges is not None

    @property
    def calibration(self) -> Calibration:
        """The calibration of the judge on all groups scored so far; pass it on to score later
        groups.
        """
        return self._statistics.fit()

    async def score_group(
        self, group: Group, *, calibration: Calibration | None = None
    ) -> GroupRewards:
        """Compare the rollouts of one group.

        A failed request never raises: it is in `failures` of the result, and a response without any
        verdict has a reason instead of a reward.

        Args:
            group: its rollouts; a single one gets no reward, or the setting `default_score`.
            calibration: calibration of the judge; by default the scorer's own, or none.

        Raises:
            JudgeError: the judge refuses every request, or did not answer for `give_up_after`.
            StorageError: the journal cannot be written.
            RuntimeError: the scorer is not open.
        """
        judges = self._open_set()
        judged = await judge_group(self._begin(group), self._plan, judges)
        finished = self._finish(judged)
        given = calibration or self._given_calibration
        if given is None:
            given = Calibration()
        (rewards,) = self._reward([finished], given)
        return rewards

    async def score_once(self, group: Group) -> GroupRewards:
        """Open the scorer, score one group, and close it; see `score_group`."""
        async with self:
            return await self.score_group(group)

    async def score_groups(
        self, groups: Iterable[Group], *, calibration: Calibration | None = None
    ) -> list[GroupRewards]:
        """Compare the rollouts of many groups and return the result of each, in the order of the
        groups.

        Args:
            groups: any iterable. The next group is taken when all requests of the previous one have
                been made, so the setting `concurrency` also limits the groups in progress. The
                texts of a finished group are released.
            calibration: calibration of the judge; by default the scorer's own, or else one fitted
                to these groups, as in `genrm score`.

        Raises:
            GenrmError: see `score_group`. Requests in flight are cancelled.
        """
        judges = self._open_set()
        judged: dict[int, JudgedVerdicts] = {}

        def keep(number: int, group: JudgedGroup) -> None:
            judged[number] = self._finish(group)

        numbered = ((number, self._begin(group)) for number, group in enumerate(groups))
        await judge_groups(numbered, self._plan, judges, keep)
        in_order = [judged[number] for number in range(len(judged))]
        given = calibration or self._given_calibration
        if given is None:
            statistics = CalibrationStatistics(is_listwise=self._plan.is_listwise)
            for group in in_order:
                statistics.add_group(group.judged.size, group.used, group.lists)
            given = statistics.fit()
        return self._reward(in_order, given)

    def _open_set(self) -> JudgeSet:
        if self._judges is None:
            raise RuntimeError(_NOT_OPEN)
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError(_OTHER_LOOP)
        return self._judges

    def _begin(self, group: Group) -> Group:
        """Count a group before it is judged."""
        plan = self._plan
        if plan.shows_as_gym:
            group = group.as_gym()
        planned = plan.count_requests(len(find_answered(group, plan)[1]))
        self.metrics.add_group_without_file(len(group.rollouts), planned)
        return group

    def _finish(self, judged: JudgedGroup) -> JudgedVerdicts:
        """Count a judged group and add its verdicts to the calibration."""
        verdicts = verdicts_of(judged, self._plan)
        self._statistics.add_group(judged.size, verdicts.used, verdicts.lists)
        self.metrics.groups_done += 1
        return verdicts

    def _reward(self, groups: list[JudgedVerdicts], calibration: Calibration) -> list[GroupRewards]:
        made = reward_verdicts(groups, self._plan, calibration)
        advantage = self._plan.rewards.settings.advantage
        results = scaled_together(made, advantage, calibration.reward_variance)
        for group, result in zip(groups, results, strict=True):
            if result.variance is not None:
                self._statistics.add_variance(result.variance)
            count_group(self.metrics, group.judged, result, self._plan)
        return results


def scaled_together(
    results: list[GroupRewards], advantage: str, earlier: float | None
) -> list[GroupRewards]:
    """Return the rewards with pooled advantages scaled by these groups, if no earlier ones of the
    run have given a mean variance.
    """
    if advantage != "pooled" or earlier is not None:
        return results
    variances = [result.variance for result in results if result.variance is not None]
    pool = fmean(variances) if variances else None
    return [result.scaled("pooled", pool) for result in results]
