"""Evidence that a rate or a mean has moved, valid after any number of dumps.

Each detector is an e-detector in the form of Shiryaev and Roberts: for alternatives j with the log
likelihood ratio L_j of a dump,

    R_j ← (1 + R_j)·exp(L_j),  R_j(0) = 0;  M = mean over j of R_j.

While the null holds, M minus the number of dumps is a supermartingale, so an alarm at M ≥ A that
restarts the detector is expected at most once in A dumps, under any dependence between detectors: m
detectors raise at most m·T/A false alarms in T dumps.

Source: J. Shin, A. Ramdas and A. Rinaldo, E-detectors: a nonparametric framework for sequential
change detection, New England Journal of Statistics in Data Science 2 (2024) 229."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_ONE_SIDED_95 = 1.64
_RATES = (0.005, 0.995)
_EFFECTS = (0.25, 0.5, 1.0, 2.0)


@dataclass(slots=True)
class Detector:
    """Evidence against one null, in natural logarithms; `add` takes one dump.

    Attributes:
        best_start: index of the dump with which the change most probably began; None without
            evidence.
    """

    _logs: list[float] = field(default_factory=list)
    _sums: list[float] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)

    def add(self, dump: int, ratios: Sequence[float]) -> None:
        """Add the log likelihood ratios of a dump, one for each alternative."""
        if not self._logs:
            self._logs = [-math.inf] * len(ratios)
            self._sums = [0.0] * len(ratios)
            self._starts = [dump] * len(ratios)
        for j, ratio in enumerate(ratios):
            log = self._logs[j]
            self._logs[j] = (
                max(log, 0.0) + math.log1p(math.exp(-abs(log))) + ratio
            )  # log(1 + exp(log))
            if self._sums[j] <= 0:
                self._sums[j] = 0.0
                self._starts[j] = dump
            self._sums[j] += ratio

    @property
    def log_evidence(self) -> float:
        """log M; minus infinity before the first dump."""
        return log_mean(self._logs)

    @property
    def best_start(self) -> int | None:
        """The first dump of the interval up to now with the largest sum of log likelihood
        ratios.
        """
        if not self._sums or max(self._sums) <= 0:
            return None
        return self._starts[max(range(len(self._sums)), key=self._sums.__getitem__)]


def log_mean(logs: Sequence[float]) -> float:
    """Return the logarithm of the mean of these logarithms' exponentials; minus infinity for
    none.
    """
    most = max(logs, default=-math.inf)
    if most == -math.inf:
        return most
    return most + math.log(math.fsum(math.exp(log - most) for log in logs) / len(logs))


@dataclass(frozen=True, slots=True)
class RateNull:
    """The null that a rate is at most `rate`, against rates that are larger by each of `shifts`.

    Attributes:
        inflation: variance of the counts relative to that of independent ones, at least 1.
    """

    rate: float
    shifts: tuple[float, ...]
    inflation: float = 1.0

    def ratios(self, bad: int, count: int) -> list[float]:
        """Return the log likelihood ratio of `bad` among `count` for each alternative; zeros if
        `count` is 0.
        """
        low, high = _RATES
        null = min(high, max(low, self.rate))
        changed = (min(high, null + shift) for shift in self.shifts)
        return [
            (bad * math.log(rate / null) + (count - bad) * math.log((1 - rate) / (1 - null)))
            / self.inflation
            for rate in changed
        ]


def rate_null(counts: Sequence[tuple[int, int]], shifts: tuple[float, ...]) -> RateNull | None:
    """Return the null of a rate from the (bad, count) of the baseline's dumps; None without an
    observation.

    The rate is the upper end of a one-sided 95 % interval, with the variance between the dumps
    where that exceeds the binomial one."""
    total = sum(count for _, count in counts)
    if not total:
        return None
    bad = sum(bad for bad, _ in counts)
    rate = (bad + 1) / (total + 2)
    inflation = _inflation(counts, bad / total)
    error = math.sqrt(rate * (1 - rate) / total * inflation)
    return RateNull(rate + _ONE_SIDED_95 * error, shifts, inflation)


def _inflation(counts: Sequence[tuple[int, int]], rate: float) -> float:
    """Return the mean squared distance of the dumps' rates in units of the binomial variance, at
    least 1.
    """
    told = [(bad, count) for bad, count in counts if count]
    if len(told) < 3 or not 0 < rate < 1:
        return 1.0
    squares = math.fsum(
        (bad - count * rate) ** 2 / (count * rate * (1 - rate)) for bad, count in told
    )
    return max(1.0, squares / (len(told) - 1))


@dataclass(frozen=True, slots=True)
class MeanNull:
    """The null that the mean of a quantity over dumps has not grown.

    Attributes:
        mean: upper end of a one-sided 95 % interval of the mean.
        deviation: of one dump.
        correlation: (1 + r) / (1 - r) for the correlation r of a dump with the next.
    """

    mean: float
    deviation: float
    correlation: float

    def ratios(self, value: float) -> list[float]:
        """Return the log likelihood ratio of a dump for shifts of ¼, ½, 1 and 2 standard
        deviations.
        """
        z = (value - self.mean) / self.deviation
        return [(effect * z - effect * effect / 2) / self.correlation for effect in _EFFECTS]


def mean_null(values: Sequence[float], least: float) -> MeanNull:
    """Return the null of a mean from the values of the baseline's dumps, in order.

    Args:
        values: one for each dump, four or more.
        least: the smallest standard deviation of a value to assume, more than 0.
    """
    k = len(values)
    mean = math.fsum(values) / k
    squares = math.fsum((value - mean) ** 2 for value in values)
    s = max(math.sqrt(squares / (k - 1)) * math.sqrt((k - 1) / (k - 3)), least)
    lagged = math.fsum((a - mean) * (b - mean) for a, b in pairwise(values))
    r = min(0.8, max(0.0, (lagged / squares if squares else 0.0) + 1 / k))
    f = (1 + r) / (1 - r)
    return MeanNull(mean + _ONE_SIDED_95 * s * math.sqrt(f / k), s, f)
