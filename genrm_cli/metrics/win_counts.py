"""Win rates of responses against fixed answers, with an interval."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from genrm_cli.metrics.running_stats import (
    Mergeable,
    RunningStats,
    student_95,
    wilson_interval,
)

# With as many comparisons on the rarer side, what they show of their dependence counts as much as
# the worst case; with twice as many, it is eight ninths. Smaller numbers let the interval jump.
_FEW_RARER = 4


@dataclass(frozen=True, slots=True)
class WinRate:
    """How often responses beat fixed answers to their prompts.

    Attributes:
        win_percent: mean over groups of the share of comparisons won, ties half, 0 to 100; its 95 %
            interval is from `low_percent` to `high_percent`.
        comparisons: number of comparisons with a verdict.
        failed: number of comparisons without one, which count neither as won nor as lost.
    """

    win_percent: float
    low_percent: float
    high_percent: float
    comparisons: int
    failed: int


@dataclass(slots=True)
class WinCounts(Mergeable):
    """The share of comparisons won in each group, and what `WinRate` counts."""

    shares: RunningStats = field(default_factory=RunningStats)
    comparisons: int = 0
    failed: int = 0

    def add(self, wins: Sequence[float], failed: int) -> None:
        """Add a group: 1 for each comparison won, 0.5 for a tie, 0 for a loss, and the number of
        failed ones.
        """
        self.comparisons += len(wins)
        self.failed += failed
        if wins:
            self.shares.add(sum(wins) / len(wins))

    def rate(self) -> WinRate | None:
        """Return the win rate; None without a verdict. Comparisons of one group depend on each
        other.
        """
        mean = self.shares.mean
        if mean is None:
            return None
        if self.shares.count == 1:
            low, high = wilson_interval(mean, self.comparisons)
        else:
            point = student_95(self.shares.count - 1)
            low, high = wilson_interval(mean, self._independent(mean), point)
        return WinRate(100 * mean, 100 * low, 100 * high, self.comparisons, self.failed)

    def _independent(self, mean: float) -> float:
        """Return how many independent comparisons would say as much as these, which depend on each
        other within groups.

        Only comparisons on the rarer side show how much they depend, so near 0 and 100 % the
        estimate is drawn towards groups in which all have the same result.

        Source: the design effect; L. Kish, Survey Sampling (1965) §8.2."""
        groups = self.shares.count
        variance = self.shares.squares / groups / (groups - 1)
        spread = mean * (1 - mean) * (groups - 1) / groups
        observed = max(1.0, self.comparisons * variance / spread) if spread > 0 else 1.0
        all_alike = self.comparisons / groups
        rarer = self.comparisons * min(mean, 1 - mean)
        doubt = 1 / (1 + (rarer / _FEW_RARER) ** 3)
        return self.comparisons / (doubt * all_alike + (1 - doubt) * observed)
