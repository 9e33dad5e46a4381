"""The judges of a server, and the calibration that grows with every group they judge."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from genrm_cli.group_scorer import GroupScorer
from genrm_cli.groups.arriving import ArrivingGroup
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.groups.reward_group import reward_verdicts, verdicts_of
from genrm_cli.judging.open_judges import JudgeSpec, OnEvent, ignore_event
from genrm_cli.metrics.latency import Latencies
from genrm_cli.serve.answers import CalibrationRecord
from genrm_cli.serve.running_calibration import RunningCalibration
from genrm_cli.settings import Settings
from genrm_cli.settings.table import digest_of


class ServedScorer(GroupScorer):
    """Judges groups that arrive; keeps asking after the judge was down."""

    def __init__(self, settings: Settings, api_keys: Mapping[str, str], on_event: OnEvent = ignore_event) -> None:
        """Check and compile the settings; opens nothing.

        Raises:
            UsageError: as for `GroupScorer`.
        """
        super().__init__(settings, api_keys, on_event=on_event, resumes=True)
        self._running: RunningCalibration

    async def __aenter__(self) -> Self:
        """Open the judges and the journal, probe the judges, and continue the calibration.

        Raises:
            JudgeError: the probe of a judge fails.
            StorageError: the journal cannot be opened.
        """
        await super().__aenter__()
        profiles = [judge.profile for judge in self._plan.judges if judge.profile is not None]
        versions = [f"{profile.name}-{profile.version}" for profile in profiles]
        name = " ".join((digest_of(self._settings), *versions))
        judges = len(self._plan.judges) if self._plan.shares_pairs else 0
        self._running = RunningCalibration(None if self.journal is None else self.journal.sums, name, judges)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._running.flush()
        finally:
            await super().__aexit__(kind, error, trace)

    @property
    def plan(self) -> GroupPlan:
        """The compiled plan."""
        return self._plan

    @property
    def specs(self) -> list[JudgeSpec]:
        """The judges as they are asked."""
        return [] if self._open_judges is None else self._open_judges.specs

    @property
    def latest(self) -> CalibrationRecord:
        """The calibration so far."""
        return self._running.latest()

    @property
    def latencies(self) -> Latencies:
        """Of all calls."""
        return Latencies() if self._open_judges is None else self._open_judges.latencies

    @property
    def in_flight(self) -> int:
        """Calls in flight."""
        return 0 if self._open_judges is None else self._open_judges.in_flight

    async def is_ready(self, timeout_s: float) -> bool:
        """Whether the judges can be asked."""
        return self._open_judges is not None and await self._open_judges.is_reachable(timeout_s)

    def arriving(self, key: str, size: int | None) -> ArrivingGroup:
        """Begin a group; with its size, `ArrivingGroup.add` may ask early."""
        return ArrivingGroup(key, self._plan, self._open_set(), size)

    def conclude(
        self, groups: Sequence[tuple[bytes, Group, JudgedGroup]]
    ) -> tuple[list[GroupRewards], CalibrationRecord]:
        """Return the rewards of judged groups, with the calibration of everything judged so far.

        Args:
            groups: each with a digest of its rollouts. Several together cost little more than one.

        Raises:
            StorageError: the journal cannot be written.
        """
        found = []
        for part, group, judged in groups:
            self._begin(group, self._plan)
            verdicts = verdicts_of(judged, self._plan)
            self._running.add(part, judged.size, verdicts.used, verdicts.own)
            self.metrics.groups_done += 1
            found.append(verdicts)
        record = self._running.latest()
        return self._reward(found, self._plan, record.fitted), record

    def reward_late(self, judged: JudgedGroup) -> tuple[GroupRewards, CalibrationRecord]:
        """Return the rewards of a group with a late rollout; what is counted stays as it was without it."""
        record = self._running.latest()
        (rewards,) = reward_verdicts([verdicts_of(judged, self._plan)], self._plan, record.fitted)
        return rewards, record
