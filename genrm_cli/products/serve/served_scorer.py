"""The judges of a server, and the calibration that grows with every group they judge."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from genrm_cli.group_scorer import GroupScorer, scaled_together
from genrm_cli.groups.asking.arriving import ArrivingGroup
from genrm_cli.groups.comparisons import verdicts_of
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.groups.reward_group import reward_verdicts
from genrm_cli.judging.journal_file import KeptSums, faded
from genrm_cli.judging.opening.open_judges import OpenJudges
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.list_scores import ListScores
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.settings import Settings
from genrm_cli.settings.table import digest_of

_REFIT_AFTER = 0.05  # of the groups of the last fit: a calibration moves as their number does
# Groups whose sums are not in the journal yet: a kill loses them, and other servers lack them.
_MOST_PENDING = 64

# Comparisons. Judges change; the guide says how far served rewards are from those of a file.
_HALF_LIFE = 1024.0


class RunningCalibration:
    """Fading sums over the groups judged so far, each counted once, and the calibration that is
    fitted to them.

    A group counts half as much once `half_life` further comparisons were judged: a judge that
    changes is noticed. The sums of groups are added a few groups at a time, because that costs
    hardly more than one group. A killed server loses the sums not yet added, but not their
    verdicts.

    Attributes:
        fitted: the calibration.
        groups: groups that it is based on; older ones count for less.
        comparisons: comparisons that it is based on; older ones count for less.
    """

    def __init__(
        self,
        sums: KeptSums | None,
        name: str,
        half_life: float = _HALF_LIFE,
        *,
        of_lists: bool = False,
    ) -> None:
        """Continue with the sums of these judges and settings in the journal; without `sums`,
        nothing is kept.
        """
        self._of_lists = of_lists
        self._sums = sums
        self._half_life = half_life
        self._numbers = self._no_group().numbers()
        self.name = f"{name} {len(self._numbers)}"
        self._pending: dict[bytes, CalibrationStatistics] = {}
        self._variances: list[
            float
        ] = []  # of rewards that are known since the last group was added
        if sums is not None:
            self._numbers = sums.read(self.name) or self._numbers
        self._fit()

    def _no_group(self) -> CalibrationStatistics:
        return CalibrationStatistics(is_listwise=self._of_lists)

    def add(
        self, part: bytes, size: int, verdicts: Verdicts, lists: Sequence[ListScores] = ()
    ) -> bool:
        """Add the verdicts of a group of this size, unless they have been added before; return
        whether they were.

        Equal groups have equal digests `part`."""
        if part in self._pending or (self._sums is not None and self._sums.has(self.name, part)):
            return False
        self._pending[part] = self._no_group()
        self._pending[part].add_group(size, verdicts, lists)
        for variance in self._variances:
            self._pending[part].add_variance(variance)
        self._variances = []
        return True

    def add_variance(self, variance: float | None) -> None:
        """Add the variance of the rewards of a group that was added; it counts from the next group
        on.
        """
        if variance is not None:
            self._variances.append(variance)

    def refitted(self) -> Calibration:
        """Return the calibration, fitted again if enough groups have come."""
        enough = min(_MOST_PENDING, _REFIT_AFTER * self.groups)
        if self._pending and len(self._pending) >= enough:
            self.flush()
            self._fit()
        return self.fitted

    def flush(self) -> None:
        """Write pending sums to the journal, and import those that other servers added."""
        parts = {
            part: (0.5 ** (each.verdicts / self._half_life), each.numbers())
            for part, each in self._pending.items()
        }
        if parts and self._sums is not None:
            self._numbers = self._sums.add(self.name, parts)
        else:
            for share, numbers in parts.values():
                self._numbers = faded(self._numbers, share, numbers)
        self._pending = {}

    def _fit(self) -> None:
        total = CalibrationStatistics.of_numbers(self._numbers)
        self.fitted = total.fit()
        self.groups = total.groups
        self.comparisons = total.verdicts


class RunningMean:
    """The mean of the rewards of all groups so far, each counted once; it goes on after a
    restart.
    """

    def __init__(self, sums: KeptSums | None, name: str) -> None:
        """Continue with the sums of this name in the journal; without `sums`, nothing is kept."""
        self._sums = sums
        self._name = f"{name} rewards"
        self._numbers = (None if sums is None else sums.read(self._name)) or [0.0, 0.0]
        self._pending: dict[bytes, tuple[float, Sequence[float]]] = {}

    @property
    def mean(self) -> float | None:
        """None before the first reward."""
        parts = [self._numbers, *(numbers for _, numbers in self._pending.values())]
        count = sum(part[0] for part in parts)
        return sum(part[1] for part in parts) / count if count else None

    def add(self, part: bytes, rewards: Sequence[float | None]) -> None:
        """Add the rewards of a group; equal groups have equal digests `part`."""
        known = [reward for reward in rewards if reward is not None]
        self._pending[part] = (1.0, [float(len(known)), sum(known)])
        if len(self._pending) >= min(_MOST_PENDING, 1 + _REFIT_AFTER * self._numbers[0]):
            self.flush()

    def flush(self) -> None:
        """Write pending sums to the journal."""
        if self._sums is not None and self._pending:
            self._numbers = self._sums.add(self._name, self._pending)
        else:
            for share, numbers in self._pending.values():
                self._numbers = faded(self._numbers, share, numbers)
        self._pending = {}


class ServedScorer(GroupScorer):
    """Judges groups that arrive; keeps asking after the judge was down."""

    def __init__(
        self,
        settings: Settings,
        api_keys: Mapping[str, str],
        on_event: OnEvent = ignore_event,
    ) -> None:
        """Check and compile the settings; opens nothing."""
        super().__init__(settings, api_keys, on_event=on_event, resumes=True)
        self._running: RunningCalibration
        self.rewards: RunningMean

    async def __aenter__(self) -> Self:
        """Open the judges and the journal, probe the judges, and continue the calibration."""
        await super().__aenter__()
        profiles = [judge.profile for judge in self._plan.judges if judge.profile is not None]
        versions = [f"{profile.name}-{profile.version}" for profile in profiles]
        name = " ".join((digest_of(self._settings), *versions))
        sums = None if self.journal is None else self.journal.sums
        self._running = RunningCalibration(
            sums,
            name,
            of_lists=self._plan.is_listwise,
        )
        self.rewards = RunningMean(sums, name)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._running.flush()
            self.rewards.flush()
        finally:
            await super().__aexit__(kind, error, trace)

    @property
    def settings(self) -> Settings:
        """The effective settings."""
        return self._settings

    @property
    def open_judges(self) -> OpenJudges:
        """The judges, while the server runs."""
        if self._open_judges is None:
            raise RuntimeError("the scorer is not open")
        return self._open_judges

    @property
    def running(self) -> RunningCalibration:
        """The calibration so far; its name is that of the judges and settings."""
        return self._running

    def arriving(self, key: str, size: int, plan: GroupPlan | None = None) -> ArrivingGroup:
        """Begin a group of this size, under this plan or the server's."""
        return ArrivingGroup(key, plan or self._plan, self._open_set(), size)

    def conclude(
        self, groups: Sequence[tuple[bytes, JudgedGroup]], *, has_halves: bool
    ) -> list[GroupRewards]:
        """Return the rewards of judged groups, each given with its digest; `has_halves` as for
        `reward_verdicts`.

        Several groups together cost little more than one. Raises `StorageError` if the journal
        cannot be written."""
        found = []
        are_new = []
        for part, judged in groups:
            verdicts = verdicts_of(judged, self._plan)
            # A group that is judged again counts once: its verdicts are the same.
            is_new = self._running.add(part, judged.size, verdicts.used, verdicts.lists)
            are_new.append(is_new)
            found.append(verdicts)
        calibration = self._fitted()
        made = reward_verdicts(found, self._plan, calibration, has_halves=has_halves)
        advantage = self._plan.rewards.settings.advantage
        results = scaled_together(made, advantage, calibration.reward_variance)
        for (part, _), result, is_new in zip(groups, results, are_new, strict=True):
            if is_new:
                self._running.add_variance(result.variance)
                self.rewards.add(part, result.rewards)
        return results

    def reward_late(self, judged: JudgedGroup) -> GroupRewards:
        """Return the rewards of a group with a late rollout; the statistics stay unchanged."""
        found = [verdicts_of(judged, self._plan)]
        (rewards,) = reward_verdicts(found, self._plan, self._fitted(), has_halves=False)
        return rewards

    def _fitted(self) -> Calibration:
        return self._running.refitted()
