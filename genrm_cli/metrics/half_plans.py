"""A check of the reliability that knows no model of the judge: do two halves of the verdicts agree?

The base scores of each group are computed from the verdicts on every second pair, and from the
others. Their correlation within groups is the reliability of half of the verdicts.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.group_measures import RELIABILITY
from genrm_cli.metrics.running_stats import LEAST_SPREAD, Mergeable, student_95

_LEAST_GROUPS = 10  # the interval is an approximation
_APART = 0.1
"""Halves of a plan are plans of their own, and the prediction from them is that far off for the
simulated judge, in groups of 4 to 16 with one to three rings (`tests/rewards/test_half_plans.py`).
"""


class HalfSums(NamedTuple):
    """Sums over the rollouts of a group that both halves know, of base scores less their mean: the
    squares of each half, and the products of both.
    """

    first: float
    second: float
    both: float


class HalfPlanSummary(Struct, frozen=True):
    """The reliability of a run by its halves, with its 95 % interval."""

    groups: int
    reliability: float
    low: float
    high: float

    def text(self) -> str:
        """Return it in words, as in `two halves of the verdicts 0.81 (0.76 to 0.86)`."""
        found = RELIABILITY.text(self.reliability, self.low, self.high)
        return f"two halves of the verdicts {found}"

    def contradicts(self, interval: Sequence[float]) -> bool:
        """Return whether a reliability with this interval is surely too high.

        It is often lower, and rightly so: halves that agree in a few groups of a wide spread say
        nothing of the others, which the mean over groups counts as much.
        """
        return self.high < interval[0] - _APART


class HalfPlans(Mergeable):
    """Sums over groups, from which the correlation of halves and its error follow."""

    groups: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0] * 3)
    products: list[float] = field(default_factory=lambda: [0.0] * 9)

    def add(self, group: HalfSums) -> None:
        """Add a group."""
        self.groups += 1
        self.sums = [old + new for old, new in zip(self.sums, group, strict=True)]
        pairs = [one * other for one in group for other in group]
        self.products = [old + new for old, new in zip(self.products, pairs, strict=True)]

    def summary(self) -> HalfPlanSummary | None:
        """Return the reliability; None for fewer than ten groups, or halves without a spread.

        Source: C. Spearman, British Journal of Psychology 3 (1910) 271; W. Brown, ibid. 296. The
        interval: the delta method for a ratio of sums over groups, W. G. Cochran, Sampling
        Techniques (1977) §6.
        """
        first, second, both = self.sums
        if self.groups < _LEAST_GROUPS or min(first, second) < LEAST_SPREAD:
            return None
        correlation = min(1.0, max(0.0, both / math.sqrt(first * second)))
        slopes = [-0.5 * correlation / first, -0.5 * correlation / second]
        slopes.append(1 / math.sqrt(first * second))
        weights = [one * other for one in slopes for other in slopes]
        terms = [weight * each for weight, each in zip(weights, self.products, strict=True)]
        error = math.sqrt(max(0.0, math.fsum(terms) * self.groups / (self.groups - 1)))
        half = student_95(self.groups - 1) * error
        ends = (correlation, correlation - half, correlation + half)
        return HalfPlanSummary(self.groups, *(rounded(_stepped_up(each)) for each in ends))


def _stepped_up(correlation: float) -> float:
    within = min(1.0, max(0.0, correlation))
    return 2 * within / (1 + within)
