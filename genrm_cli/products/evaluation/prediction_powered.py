"""Estimate a mean from few human labels beside many verdicts.

Verdicts are many and may be wrong; labels are few and count as right. The labelled items show how
wrong the verdicts are, and that corrects the mean of all verdicts. The estimate is unbiased for any
judge. With a good judge its interval is narrower than that of the labels alone; with a coin it is
as wide.

    >>> from genrm_cli.metrics.prediction_powered import prediction_powered
    >>> estimate = prediction_powered(labels=[1, 0, 1, 1], verdicts=[1, 0, 1, 0], others=[1, 1, 0])
    >>> round(estimate.mean, 3), round(estimate.weight, 3)
    (0.792, 0.25)

Labels must be of items drawn at random, or at random within strata (`stratified`). Labels chosen
because judges disagree bias every estimate from them. An item is a prompt: average its pairs first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genrm_cli.metrics.running_stats import student_95

# Two residuals for the variance and one for the weight.
LEAST_LABELS = 4
# Squares of residuals that are assumed at least: those of one wrong verdict. Without any wrong one,
# the interval would have no width.
_ONE_WRONG = 1.0
_LEAST_IN_STRATUM = 10  # the variance of a stratum comes from its own labels


@dataclass(frozen=True, slots=True)
class LabelledMean:
    """A mean from 0 to 1 with its 95 % interval.

    Attributes:
        weight: of the verdicts, 0 to 1; 0 uses the labels alone.
        narrower: the width of the interval, before it is cut at 0 and 1, as a share of that which
            the labels alone give by the same rule; None if the labels are used alone.
    """

    mean: float
    low: float
    high: float
    weight: float
    narrower: float | None


class LabelStratum(NamedTuple):
    """Items that are alike, such as those on which two verdicts agree.

    `labels` are those of some items drawn at random; `verdicts` are of the same items. `others` are
    the verdicts on the items without a label.
    """

    labels: Sequence[float]
    verdicts: Sequence[float]
    others: Sequence[float]


class _StratumPart(NamedTuple):
    """An estimate of one stratum: its mean, its variance, and that of the labels alone."""

    mean: float
    weight: float
    variance: float
    alone: float
    freedom: int


def prediction_powered(
    labels: Sequence[float], verdicts: Sequence[float], others: Sequence[float]
) -> LabelledMean | None:
    """Return the mean of the labels over all items; None for fewer than four labels.

    Args:
        labels: of the labelled items, 0 to 1, such as won or lost.
        verdicts: on the same items in the same order.
        others: verdicts on the items without a label.

    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++, arXiv 2311.01453; Student's
    quantile and n - 2 for small n, simulated.
    """
    return stratified([LabelStratum(labels, verdicts, others)])


def stratified(strata: Sequence[LabelStratum]) -> LabelledMean | None:
    """Return the mean of the labels over the items of all strata; None if one has fewer than four
    labels.

    Source: W. G. Cochran, Sampling Techniques (3rd edition, 1977) §5.4; degrees of freedom by F. E.
    Satterthwaite, Biometrics Bulletin 2 (1946) 110.
    """
    parts = [_part_of(each) for each in strata if len(each.labels) >= LEAST_LABELS]
    if not parts or len(parts) < len(strata):
        return None
    sizes = np.array([len(each.labels) + len(each.others) for each in strata])
    shares = sizes / sizes.sum()
    means, weights, variances, alone, freedoms = np.array(parts).T
    weight = float(shares @ weights)
    half = _half_of(shares**2 * variances, freedoms)
    mean = shares @ means
    low, mean, high = np.clip([mean - half, mean, mean + half], 0, 1).tolist()
    half_alone = _half_of(shares**2 * alone, freedoms)
    return LabelledMean(
        low=low, mean=mean, high=high, weight=weight, narrower=half / half_alone if weight else None
    )


def _part_of(stratum: LabelStratum) -> _StratumPart:
    n = len(stratum.labels)
    truth = np.asarray(stratum.labels, dtype=np.float64)
    judged = np.asarray(stratum.verdicts, dtype=np.float64)
    rest = np.asarray(stratum.others, dtype=np.float64)
    weight = 0.0
    spread = float(np.var(np.concatenate([judged, rest]), ddof=1))
    if len(rest) and spread > 0:
        shared = float(np.cov(truth, judged)[0, 1])
        # The weight of least variance; beyond 0 and 1 only the noise of few labels leads.
        weight = min(1.0, max(0.0, shared / ((1 + n / len(rest)) * spread)))
    residuals = truth - weight * judged
    mean = float(residuals.mean())
    variance = _variance_of_mean(residuals)
    if weight:
        mean += weight * float(rest.mean())
        if len(rest) > 1:
            variance += weight**2 * float(np.var(rest, ddof=1)) / len(rest)
    return _StratumPart(mean, weight, variance, _variance_of_mean(truth), n - 2)


def _variance_of_mean(values: NDArray[np.float64]) -> float:
    squares = max(float(((values - values.mean()) ** 2).sum()), _ONE_WRONG)
    return squares / ((len(values) - 2) * len(values))


def _half_of(variances: NDArray[np.float64], freedoms: NDArray[np.float64]) -> float:
    """Return half the width of the interval of a sum of means with these variances."""
    variance = float(variances.sum())
    freedom = variance**2 / float((variances**2 / freedoms).sum())
    return student_95(max(1, round(freedom))) * math.sqrt(variance)


def plan_labels(sizes: Sequence[int], error_rates: Sequence[float], budget: int) -> list[int]:
    """Return how many items of each stratum to label: most where verdicts are most often wrong.

    Each stratum gets at least ten, or all that it has.

    Args:
        sizes: number of items of each stratum.
        error_rates: expected share of wrong verdicts in each, such as .05 where repeats agree and
            .5 where they do not.
        budget: labels in all.

    Source: J. Neyman, J. R. Stat. Soc. 97 (1934) 558.
    """
    counts = [min(size, _LEAST_IN_STRATUM) for size in sizes]
    needs = [
        size * math.sqrt(max(0.0, rate * (1 - rate)))
        for size, rate in zip(sizes, error_rates, strict=True)
    ]
    while sum(counts) < budget:
        open_strata = [place for place, size in enumerate(sizes) if counts[place] < size]
        if not open_strata:
            break
        # The stratum whose next label lowers the variance of the estimate most.
        place = max(open_strata, key=lambda k: (needs[k] / max(1, counts[k]), -k))
        counts[place] += 1
    return counts
