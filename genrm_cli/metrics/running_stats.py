"""Statistics of numbers and latencies in constant memory, counts that can be merged, and confidence
intervals.
"""

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import Struct, field

from genrm_cli.metrics.figures import FigureForm

Z_95 = 1.959963984540054  # the normal distribution's 97.5 % point
POWER = 0.8  # the usual chance of finding a difference that there is
_LEAST_NOISE = 1e-4  # share of noise in a reliability
LEAST_SPREAD = 1e-9
"""A smaller spread is rounding, not signal."""


def has_spread(values: Sequence[float]) -> bool:
    """Return whether values differ by more than rounding, relative to the largest of them if that
    exceeds 1.
    """
    return len(values) > 1 and max(values) - min(values) > LEAST_SPREAD * max(
        1.0, *map(abs, values)
    )


def sample_variance(values: Sequence[float]) -> float:
    """Return the sample variance (n - 1) of two or more values; `statistics.variance` takes twenty
    times as long.
    """
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


class Mergeable(Struct):
    """Counts. Counts of two parts of a run are merged field by field."""

    def merge(self, other: Self) -> None:
        """Add the counts of another part of the run, which must not change during the call."""
        for name in self.__struct_fields__:
            setattr(self, name, _merged(getattr(self, name), getattr(other, name)))


def _merged(mine: Any, theirs: Any) -> Any:
    """Merge two values of one field: add numbers, also those of lists and arrays, merge counts and
    those in tables, keep the first of other values.
    """
    if mine is None:
        # Lists hold numbers, some of them thousands, which a deep copy looks at one by one.
        return theirs.copy() if isinstance(theirs, list) else copy.deepcopy(theirs)
    if theirs is None or isinstance(mine, (str, tuple)):
        return mine
    if isinstance(mine, list):
        return [a + b for a, b in zip(mine, theirs, strict=True)]
    # Before numbers: True is one, too, and two of them would be 2.
    if isinstance(mine, bool):
        return mine or theirs
    if isinstance(mine, (int, float, np.ndarray)):
        return mine + theirs
    if isinstance(mine, dict):
        for key, value in theirs.items():
            # Not `mine.get`: counters and default tables have a value for every key.
            mine[key] = _merged(dict.get(mine, key), value)
    else:
        mine.merge(theirs)
    return mine


class Statistics(Struct, frozen=True, kw_only=True):
    """Mean, population standard deviation and range of some numbers; None without a number."""

    count: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None


class RunningStats(Struct):
    """Mean, deviation and range of a stream of numbers, kept in constant memory.

    Source: Welford's recurrence, Technometrics 4 (1962) 419.
    """

    count: int = 0
    mean: float | None = None
    low: float = math.inf
    high: float = -math.inf
    squares: float = 0.0  # sum of squared distances from the mean

    def add(self, value: float) -> None:
        """Add a number."""
        self.count += 1
        before = 0.0 if self.mean is None else self.mean
        self.mean = before + (value - before) / self.count
        self.squares += (value - before) * (value - self.mean)
        self.low = min(self.low, value)
        self.high = max(self.high, value)

    def merge(self, other: "RunningStats") -> None:
        """Add the numbers of another stream.

        Source: Chan, Golub and LeVeque, COMPSTAT 1982, pairwise update.
        """
        if other.mean is None:
            return
        if self.mean is None:
            self.mean = other.mean
        count = self.count + other.count
        gap = other.mean - self.mean
        self.squares += other.squares + gap * gap * self.count * other.count / count
        self.mean += gap * other.count / count
        self.count = count
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    def deviation(self) -> float | None:
        """Return the population standard deviation; None without a number."""
        return math.sqrt(self.squares / self.count) if self.count else None

    def interval(self) -> tuple[float, float] | None:
        """Return the normal 95 % interval of the mean; None for fewer than two numbers."""
        if self.mean is None or self.count < 2:
            return None
        # The variance of a sample, n - 1, over n for that of its mean.
        half = Z_95 * math.sqrt(self.squares / self.count / (self.count - 1))
        return self.mean - half, self.mean + half

    def summary(self) -> Statistics:
        """Return the statistics of the numbers so far."""
        return Statistics(
            count=self.count,
            mean=self.mean,
            std=self.deviation(),
            min=self.low if self.count else None,
            max=self.high if self.count else None,
        )


# Each bucket is a tenth wider than the previous one: quantiles are accurate to 5 %.
_LATENCY_STEP = 1.1
_LEAST_LATENCY_S = 0.001  # no call over a network is faster


class LatencySummary(Struct, frozen=True, kw_only=True):
    """Latencies in seconds."""

    mean_s: float | None
    median_s: float | None
    p99_s: float | None


class Latencies(Mergeable):
    """A histogram of latencies with buckets that grow by a tenth."""

    count: int = 0
    _sum_s: float = 0.0
    _buckets: Counter[int] = field(default_factory=Counter)

    def add(self, latency_s: float) -> None:
        """Add a latency."""
        self.count += 1
        self._sum_s += latency_s
        above_least = max(latency_s, _LEAST_LATENCY_S) / _LEAST_LATENCY_S
        self._buckets[max(0, math.ceil(math.log(above_least, _LATENCY_STEP)))] += 1

    def since(self, earlier: "Latencies") -> "Latencies":
        """Return the latencies that were added to a copy, `earlier`, to become these."""
        return Latencies(
            self.count - earlier.count,
            self._sum_s - earlier._sum_s,
            self._buckets - earlier._buckets,
        )

    def quantile_s(self, share: float) -> float | None:
        """Return the latency that this share (0 to 1) of the calls did not exceed; None without
        calls.
        """
        if not self.count:
            return None
        needed = share * self.count
        counted = 0
        buckets = dict(self._buckets)  # a copy: another thread may be adding
        for bucket in sorted(buckets):
            counted += buckets[bucket]
            if counted >= needed:
                break
        return float(_LEAST_LATENCY_S * _LATENCY_STEP ** (bucket - 0.5))

    def doubling_buckets(self) -> list[tuple[float, int]]:
        """Return a histogram: upper bounds that double, in seconds, each with its own count."""
        histogram: Counter[float] = Counter()
        for bucket, count in self._buckets.items():
            latency_s = _LEAST_LATENCY_S * _LATENCY_STEP ** (bucket - 0.5)
            histogram[2.0 ** math.ceil(math.log2(latency_s))] += count
        return [(bound, histogram[bound]) for bound in sorted(histogram)]

    def summary(self) -> LatencySummary:
        """Return the statistics of the latencies so far."""
        return LatencySummary(
            mean_s=self._sum_s / self.count if self.count else None,
            median_s=self.quantile_s(0.5),
            p99_s=self.quantile_s(0.99),
        )


def student_95(freedom: int, z: float = Z_95) -> float:
    """Return the 97.5 % point of Student's distribution, to 3 % from two degrees of freedom on; the
    normal one for 0.

    Args:
        freedom: degrees of freedom.
        z: the point of the normal distribution, for another probability; further out it needs more
            freedom.

    Source: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions (1964), 26.7.5.
    """
    v = freedom or math.inf
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / v**power for power, term in enumerate(terms))


def joint_z_95(comparisons: int) -> float:
    """Return the quantile of the normal distribution for 95 % intervals of so many comparisons
    together.

    Source: C. E. Bonferroni; see R. G. Miller, Simultaneous Statistical Inference (1981).
    """
    return NormalDist().inv_cdf(1 - 0.025 / max(1, comparisons))


class Estimated(Struct, frozen=True):
    """A figure with its 95 % interval; None if unknown."""

    value: float | None
    low: float | None
    high: float | None

    def text(self, form: FigureForm) -> str:
        """Return the figure with its interval; `-` if unknown."""
        return form.text(self.value, self.low, self.high)


class Mean(Estimated, frozen=True):
    """A mean over groups or rollouts."""

    count: int


class Share(Estimated, frozen=True):
    """A share of a count."""

    count: int
    of: int


def paired_difference(
    one: Mapping[str, float],
    other: Mapping[str, float],
    comparisons: int,
    least_squares: float = 0.0,
) -> Estimated:
    """Return the mean over items of one less the other, with an interval that all of so many
    comparisons hold together in 95 % of cases; None for fewer than three items in common.

    `least_squares` is the sum of squares that is assumed at least: 1 for shares, as if one item
    differed from all others. Without it, items that are all alike give no width.

    Source: Student's t for the mean of paired differences, with Bonferroni's correction.
    """
    gaps = [value - other[item] for item, value in one.items() if item in other]
    if len(gaps) < 3:  # `student_95` is far too small for two
        return Estimated(None, None, None)
    mean = fmean(gaps)
    variance = max(sample_variance(gaps), least_squares / (len(gaps) - 1))
    error = math.sqrt(variance / len(gaps))
    half = student_95(len(gaps) - 1, joint_z_95(comparisons)) * error
    return Estimated(mean, mean - half, mean + half)


class ExpectedSignal(NamedTuple):
    """The reliability that a judge's noise lets expect in a typical group.

    Attributes:
        share: above 0 and below 1.
        distance: of the ends of its 95 % interval.
    """

    share: float
    distance: float

    def interval_of(self, reliability: float) -> tuple[float, float]:
        """Return the interval of a reliability, for what is known of the noise.

        The odds of both are proportional. Its lower end is 0 where that of the share is; nothing is
        certain to be without noise.
        """
        odds = (1 - self.share) / self.share

        def end(at: float) -> float:
            signal = reliability * odds * max(0.0, at)
            noise = (1 - reliability) * max(_LEAST_NOISE, 1 - at)
            return signal / (signal + noise) if signal else 0.0

        return end(self.share - self.distance), end(self.share + self.distance)

    def interval_of_mean(self, reliabilities: RunningStats) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean reliability of all groups, of which these are a
        sample; None without any.

        The error of the noise and the chance of the sample add up in squares, at each end.
        """
        mean = reliabilities.mean
        if mean is None:
            return None
        low, high = self.interval_of(mean)
        chance = mean - (reliabilities.interval() or (mean, mean))[0]
        below = math.hypot(mean - low, chance)
        above = math.hypot(high - mean, chance)
        return max(0.0, mean - below), min(1.0, mean + above)


def wilson_interval(share: float, count: float, quantile: float = Z_95) -> tuple[float, float]:
    """Return the 95 % interval of a share of `count` independent observations (more than 0).

    It stays within 0 and 1, and has a positive width even at shares of 0 and 1 and for few
    observations. With ties that count half, or averages of two orders, it is conservative: of all
    observations between 0 and 1 with the same mean, those that are 0 or 1 vary most.

    Source: E. B. Wilson, Journal of the American Statistical Association 22 (1927) 209.
    """
    squared = quantile * quantile / count
    middle = (share + squared / 2) / (1 + squared)
    half = quantile / (1 + squared) * math.sqrt(share * (1 - share) / count + squared / (4 * count))
    # Rounding must not leave a share of 0 or 1 outside its own interval.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def clustered_interval(
    share: float, error: float, n: int, verdicts: float, z: float = Z_95
) -> tuple[float, float]:
    """Return Wilson's interval of the mean of n > 1 shares, for as many independent verdicts as
    would vary like them.

    Args:
        error: standard error of the mean.
        verdicts: behind the shares: no more count as independent; infinite for no limit.
        z: see `student_95`.

    Source: N. Dean and M. Pagano, Journal of Survey Statistics and Methodology 3 (2015) 484.
    """
    alike = min(share * (1 - share) / error**2 * (n - 1) / n, verdicts) if error > 0 else float(n)
    return wilson_interval(share, alike, student_95(n - 1, z))


def share_of(count: int, of: int) -> Share:
    """Return a share with its Wilson interval."""
    if not of:
        return Share(None, None, None, count, of)
    return Share(count / of, *wilson_interval(count / of, of), count, of)
