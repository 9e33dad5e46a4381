"""The Python API: score groups of responses without files."""

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from genrm_cli.errors import GenrmError
from genrm_cli.groups.check import check_settings, judge_specs, open_options
from genrm_cli.groups.comparisons import used_verdicts, verdicts_by_judge
from genrm_cli.groups.compile import compile_plan, fit_budget
from genrm_cli.groups.count_group import count_group
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.judge_group import judge_group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.groups.reward_group import reward_groups
from genrm_cli.groups.tasks import first_error_of
from genrm_cli.judging.engine import JudgeSet
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.open_judges import OnEvent, OpenJudges, ignore_event, open_judges
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.rewards.estimators import Calibration, CalibrationStatistics
from genrm_cli.settings import Settings
from genrm_cli.settings.keys import find_api_keys
from genrm_cli.settings.resolve import SettingsFile, resolve_settings

DEFAULT_CONCURRENCY = 64


class Scorer:
    """Compares the responses of groups and turns verdicts into rewards; an asynchronous context manager.

    All groups share the judge's connections, limits and budget, and its journal if there is one.

    Attributes:
        metrics: of everything scored so far.
    """

    def __init__(self, *, calibration: Calibration | None = None, **settings: Any) -> None:
        """Prepare a scorer; nothing is opened yet.

        Args:
            calibration: what earlier verdicts say of the judge, as `Scorer.calibration` gave it; by default a group
                that is scored alone is scored without, and groups scored together calibrate each other.
            settings: as in a settings file: `base_url`, `model`, `estimator`, `journal`, ... Neither settings files
                nor `GENRM_` variables are read, except for the API key.

        Raises:
            UsageError: a setting is unknown, has a wrong value, or no judge is named.
        """
        checked, _ = resolve_settings({}, {}, SettingsFile("Scorer", settings))
        self._set_up(checked, find_api_keys(checked), RunProgress(), ignore_event, calibration)

    @classmethod
    def of_run(cls, settings: Settings, api_keys: Mapping[str, str], progress: RunProgress, on_event: OnEvent) -> Self:
        """Return a scorer for resolved settings, which reports its progress."""
        scorer = cls.__new__(cls)
        scorer._set_up(settings, api_keys, progress, on_event, None)
        return scorer

    def _set_up(
        self,
        settings: Settings,
        api_keys: Mapping[str, str],
        progress: RunProgress,
        on_event: OnEvent,
        calibration: Calibration | None,
    ) -> None:
        check_settings(settings)
        self._settings, self._api_keys, self._on_event = settings, api_keys, on_event
        self._plan = compile_plan(settings)
        self._given = calibration
        self._seen = CalibrationStatistics()
        self._progress = progress
        self._opened = AsyncExitStack()
        self._judges: JudgeSet | None = None
        self._open_judges: OpenJudges | None = None
        self.metrics = progress.begin()

    async def __aenter__(self) -> Self:
        """Open the judges and try them.

        Raises:
            JudgeError: a judge cannot be used; `probe=False` skips the test.
            StorageError: the journal cannot be opened.
        """
        settings = self._settings
        options = open_options(settings, api_keys=self._api_keys)
        judges = await self._opened.enter_async_context(open_judges(judge_specs(settings), options, self._on_event))
        try:
            journal = None
            if settings.journal.journal is not None and settings.journal.use_journal:
                journal = self._opened.enter_context(Journal(settings.journal.journal))
            if judges.is_remote:
                self._progress.pace = judges
            await judges.probe()
        except BaseException:
            await self._opened.aclose()
            raise
        self._judges = judges.with_journal(journal, self.metrics.add_outcome)
        self._open_judges = judges
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open_judges is not None:
            self.metrics.stopped_by = self._open_judges.stopped_by
        self._judges = None
        await self._opened.aclose()

    async def score(
        self, prompt: object, responses: Sequence[object], *, key: str | None = None, principle: str | None = None
    ) -> GroupRewards:
        """Compare the responses to one prompt.

        Args:
            prompt: a text, or a list of messages.
            responses: texts, messages, lists of messages or Responses objects; None for one that failed.
            key: names the group; with the seed it decides which responses are compared. By default the prompt does.
            principle: what to judge by.

        Raises:
            InputError: the prompt or a response cannot be read.
            JudgeError: the judge has been down for too long.
        """
        return await self.score_group(Group.of(prompt, responses, key=key, principle=principle))

    async def score_group(self, group: Group) -> GroupRewards:
        """Compare the rollouts of one group."""
        plan = self._plan_for(group)
        judged = await self._judge(group, plan)
        return self._reward([judged], plan, self._given or Calibration())[0]

    async def score_groups(
        self, groups: Iterable[Group], *, concurrency: int = DEFAULT_CONCURRENCY
    ) -> list[GroupRewards]:
        """Compare the rollouts of many groups, and calibrate the judge on all of them, as `genrm score` does.

        Args:
            groups: taken one by one, as there is room.
            concurrency: groups in progress at once; calls in flight have their own limit.
        """
        room = asyncio.Semaphore(concurrency)
        tasks: list[asyncio.Task[JudgedGroup]] = []

        async def judge(group: Group) -> JudgedGroup:
            try:
                return await self._judge(group, self._plan)
            finally:
                room.release()

        try:
            async with asyncio.TaskGroup() as running:
                for group in groups:
                    await room.acquire()
                    tasks.append(running.create_task(judge(group)))
        except* GenrmError as errors:
            raise first_error_of(errors) from None
        judged = [task.result() for task in tasks]
        return self._reward(judged, self._plan, self._given or self._calibration_of(judged))

    @property
    def calibration(self) -> Calibration:
        """What the verdicts of all groups scored so far say of the judge; pass it to another scorer."""
        return self._seen.fit()

    def _plan_for(self, group: Group) -> GroupPlan:
        answered = sum(rollout.answer is not None for rollout in group.rollouts)
        return fit_budget(self._plan, {answered: 1}, self._settings.pairing.budget)

    async def _judge(self, group: Group, plan: GroupPlan) -> JudgedGroup:
        if self._judges is None:
            raise RuntimeError("the scorer is not open; use it as `async with genrm.Scorer(...) as scorer:`")
        metrics = self.metrics
        metrics.groups += 1
        metrics.rollouts += len(group.rollouts)
        metrics.rollouts_in_groups += len(group.rollouts) if len(group.rollouts) > 1 else 0
        metrics.planned += plan.count_requests(sum(rollout.answer is not None for rollout in group.rollouts))
        judged = await judge_group(group, plan, self._judges)
        self._seen.add_group(judged.size, used_verdicts(verdicts_by_judge(judged, plan), plan))
        metrics.groups_done += 1
        return judged

    def _calibration_of(self, groups: Sequence[JudgedGroup]) -> Calibration:
        statistics = CalibrationStatistics()
        for judged in groups:
            statistics.add_group(judged.size, used_verdicts(verdicts_by_judge(judged, self._plan), self._plan))
        return statistics.fit()

    def _reward(self, groups: Sequence[JudgedGroup], plan: GroupPlan, calibration: Calibration) -> list[GroupRewards]:
        rewards = reward_groups(groups, plan, calibration)
        for judged, result in zip(groups, rewards, strict=True):
            count_group(self.metrics, judged, result, plan)
        return rewards


def score(prompt: object, responses: Sequence[object], **settings: Any) -> GroupRewards:
    """Compare the responses to one prompt, from synchronous code; also inside a running event loop, in a thread.

    Args:
        prompt: as for `Scorer.score`. Likewise `responses`.
        settings: as for `Scorer`.

    Raises:
        GenrmError: its subclasses say what went wrong.
    """

    async def run() -> GroupRewards:
        async with Scorer(**settings) as scorer:
            return await scorer.score(prompt, responses)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    results: list[GroupRewards] = []
    errors: list[BaseException] = []

    def in_own_loop() -> None:
        try:
            results.append(asyncio.run(run()))
        except BaseException as error:  # noqa: BLE001  (raised again by the caller)
            errors.append(error)

    thread = threading.Thread(target=in_own_loop)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
