"""Evidence that a rate or a mean has moved, valid after any number of dumps.

Each detector is an e-detector in the form of Shiryaev and Roberts: for alternatives j with the log
likelihood ratio L_j of a dump,

    R_j ← (1 + R_j)·exp(L_j),  R_j(0) = 0;  M = mean over j of R_j.

While the null holds, M minus the number of dumps is a supermartingale, so an alarm at M ≥ A that
restarts the detector is expected at most once in A dumps, under any dependence between detectors: m
detectors raise at most m·T/A false alarms in T dumps. That is exact for a null that is known. For a
null that a baseline estimates, `tests/bench/watching.py` shows what remains of it.

Source: J. Shin, A. Ramdas and A. Rinaldo, E-detectors: a nonparametric framework for sequential
change detection, New England Journal of Statistics in Data Science 2 (2024) 229."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from genrm_cli.metrics.figures import rounded

Ratios = Mapping[str, float]
"""Log likelihood ratios of a dump by alternative."""

_ONE_SIDED_95 = 1.64  # quantiles of the standard normal distribution
_Z_80 = 0.8416
_RATES = (0.005, 0.995)  # A baseline that saw only good ones, or only bad ones, has a finite ratio.
_EFFECTS = (0.25, 0.5, 1.0, 2.0)  # standard deviations; each further alternative dilutes the mean
_FARTHEST = 2.5
"""Standard deviations beyond which a dump counts no more. With 2 % outliers of 8 deviations, 12
means raised 5 false looks in 100 dumps without this bound.
"""
_MOST_CORRELATED = 0.9  # beyond it, dumps hardly count as evidence at all


@dataclass(slots=True)
class _Alternative:
    """One R_j in logarithms, and the interval up to now with the largest sum of ratios."""

    log: float = -math.inf
    sum: float = 0.0
    start: int = 0

    def add(self, dump: int, ratio: float) -> None:
        if self.sum <= 0:
            self.sum = 0.0
            self.start = dump
        self.sum += ratio
        # log(1 + exp(log)) without overflow
        self.log = max(self.log, 0.0) + math.log1p(math.exp(-abs(self.log))) + ratio


@dataclass(slots=True)
class Detector:
    """Evidence against one null, in natural logarithms."""

    _alternatives: dict[str, _Alternative] = field(default_factory=dict)

    def add(self, dump: int, ratios: Ratios) -> None:
        """Add a dump; an alternative may be measured later than others."""
        for name, ratio in ratios.items():
            self._alternatives.setdefault(name, _Alternative()).add(dump, ratio)

    @property
    def log_evidence(self) -> float:
        """log M; minus infinity before the first dump."""
        return log_mean([each.log for each in self._alternatives.values()])

    @property
    def best_start(self) -> int | None:
        """The dump with which the change most probably began; None without evidence."""
        best = max(self._alternatives.values(), key=lambda each: each.sum, default=_Alternative())
        return best.start if best.sum > 0 else None


def log_mean(logs: Sequence[float]) -> float:
    """Return the logarithm of the mean of these logarithms' exponentials, rounded, as it is
    compared with thresholds; minus infinity for none.
    """
    most = max(logs, default=-math.inf)
    if most == -math.inf:
        return most
    return rounded(most + math.log(math.fsum(math.exp(log - most) for log in logs) / len(logs)))


@dataclass(frozen=True, slots=True)
class RateNull:
    """The null that a rate is at most `rate`.

    Attributes:
        inflation: variance of the counts relative to that of independent ones, at least 1.
    """

    rate: float
    inflation: float = 1.0

    def ratios(self, shifts: Sequence[float], bad: int, count: int) -> list[float]:
        """Return the log likelihood ratio of `bad` among `count` for each increase of the rate;
        zeros if `count` is 0.
        """
        low, high = _RATES
        null = min(high, max(low, self.rate))
        ratios = []
        for shift in shifts:
            rate = min(high, null + shift)
            ratio = bad * math.log(rate / null) + (count - bad) * math.log((1 - rate) / (1 - null))
            ratios.append(ratio / self.inflation)
        return ratios


def rate_null(
    counts: Sequence[tuple[int, int]], least: float = 0.0, *, is_cautious: bool = False
) -> RateNull | None:
    """Return the null that a rate has not grown, from the (bad, count) of the baseline's dumps:
    the upper end of a one-sided 95 % interval, but at least `least`; None without an observation.

    Args:
        is_cautious: take the upper 80 % limit of the inflation, and not its estimate. A 95 % limit
            would halve the false looks of sentinels, which are few, but double the dumps until a
            change of a tenth of them is a stop.
    """
    observed = [(bad, count) for bad, count in counts if count]
    if not observed:
        return None
    bad, count = (sum(column) for column in zip(*observed, strict=True))
    rate = bad / count
    inflation = 1.0
    if len(observed) > 2 and 0 < rate < 1:
        squares = math.fsum((x - n * rate) ** 2 / (n * rate * (1 - rate)) for x, n in observed)
        freedom = len(observed) - 1
        inflation = max(1.0, squares / (chi_square_20(freedom) if is_cautious else freedom))
    rate = (bad + 1) / (count + 2)
    error = math.sqrt(inflation * rate * (1 - rate) / count)
    return RateNull(max(least, rate + _ONE_SIDED_95 * error), inflation)


def chi_square_20(freedom: int) -> float:
    """Return the 20 % point of the chi-square distribution, to 2 % from 2 degrees of freedom on.

    Source: E. B. Wilson and M. M. Hilferty, PNAS 17 (1931) 684.
    """
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread - _Z_80 * math.sqrt(spread)) ** 3)


def mean_ratios(baseline: Sequence[float], value: float, least: float) -> list[float]:
    """Return the log likelihood ratio of a dump against the null that a mean has not grown, for
    shifts of ¼, ½, 1 and 2 standard deviations.

    The null is the upper end of a one-sided 95 % interval. The correlation of a dump with the next
    is one standard error above its estimate, which is corrected for the bias of a short series:
    what a baseline understates, a sound judge pays for with false looks.

    Args:
        baseline: the values of its dumps, four or more, in order.
        least: the smallest standard deviation of a value to assume, more than 0.

    Source: M. G. Kendall, Biometrika 41 (1954) 403, for the bias -(1 + 3r)/k.
    """
    k = len(baseline)
    mean = math.fsum(baseline) / k
    squares = math.fsum((each - mean) ** 2 for each in baseline)
    s = max(math.sqrt(squares / (k - 1)) * math.sqrt((k - 1) / (k - 3)), least)
    lagged = math.fsum((a - mean) * (b - mean) for a, b in pairwise(baseline))
    r = lagged / squares if squares else 0.0
    r += (1 + 3 * max(0.0, r)) / k + 1 / math.sqrt(k)
    r = min(_MOST_CORRELATED, max(0.0, r))
    f = (1 + r) / (1 - r)
    z = (value - mean) / s - _ONE_SIDED_95 * math.sqrt(f / k)
    z = min(_FARTHEST, max(-_FARTHEST, z))
    return [(effect * z - effect * effect / 2) / f for effect in _EFFECTS]
