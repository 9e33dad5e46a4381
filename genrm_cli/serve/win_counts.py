"""Win rates of responses against fixed answers, with an interval."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from genrm_cli.metrics.running_stats import (
    Mergeable,
    RunningStats,
    clustered_interval,
    wilson_interval,
)


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
        other, so groups are the clusters of the interval.
        """
        mean = self.shares.mean
        if mean is None:
            return None
        groups = self.shares.count
        if groups == 1:
            low, high = wilson_interval(mean, self.comparisons)
        else:
            error = (self.shares.squares / groups / (groups - 1)) ** 0.5
            low, high = clustered_interval(mean, error, groups, self.comparisons)
        return WinRate(100 * mean, 100 * low, 100 * high, self.comparisons, self.failed)
