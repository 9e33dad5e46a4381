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

from genrm_cli.metrics.running_stats import student_95

# Two residuals for the variance and one for the weight.
LEAST_LABELS = 4
# Squares of residuals that are assumed at least: those of one wrong verdict. Without any wrong one,
# the interval would have no width.
_ONE_WRONG = 1.0
_LEAST_IN_STRATUM = 10  # the variance of a stratum comes from its own labels


@dataclass(frozen=True, slots=True)
class LabelledMean:
    """A mean with its 95 % interval.

    Attributes:
        weight: of the verdicts, 0 to 1; 0 uses the labels alone.
        labels_alone: half the width of the interval that the labels alone give.
    """

    mean: float
    low: float
    high: float
    weight: float
    labels_alone: float

    @property
    def narrower(self) -> float:
        """The width of the interval as a share of that of the labels alone."""
        width = (self.high - self.low) / 2
        return width / self.labels_alone if self.labels_alone else 1.0


class LabelStratum(NamedTuple):
    """Items that are alike, such as those on which two verdicts agree.

    `labels` are those of some items drawn at random; `verdicts` are of the same items. `others` are
    the verdicts on the items without a label.
    """

    labels: Sequence[float]
    verdicts: Sequence[float]
    others: Sequence[float]


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
    n = len(labels)
    if n < LEAST_LABELS:
        return None
    truth = np.asarray(labels, dtype=np.float64)
    judged = np.asarray(verdicts, dtype=np.float64)
    rest = np.asarray(others, dtype=np.float64)
    weight = 0.0
    spread = float(np.var(np.concatenate([judged, rest]), ddof=1))
    if len(rest) and spread > 0:
        shared = float(np.cov(truth, judged)[0, 1])
        weight = min(1.0, max(0.0, shared / ((1 + n / len(rest)) * spread)))
    residuals = truth - weight * judged
    mean = float(residuals.mean())
    squares = max(float(((residuals - mean) ** 2).sum()), _ONE_WRONG)
    variance = squares / ((n - 2) * n)
    if weight:
        mean += weight * float(rest.mean())
        if len(rest) > 1:
            variance += weight**2 * float(np.var(rest, ddof=1)) / len(rest)
    half = student_95(n - 2) * math.sqrt(variance)
    alone = student_95(n - 1) * math.sqrt(float(np.var(truth, ddof=1)) / n)
    return LabelledMean(mean, mean - half, mean + half, weight, alone)


def stratified(strata: Sequence[LabelStratum]) -> LabelledMean | None:
    """Return the mean of the labels over the items of all strata; None if one has fewer than four
    labels.

    Source: W. G. Cochran, Sampling Techniques (3rd edition, 1977) §5.4; degrees of freedom by F. E.
    Satterthwaite, Biometrics Bulletin 2 (1946) 110.
    """
    sizes = [len(each.labels) + len(each.others) for each in strata]
    total = sum(sizes)
    shares = [size / total for size in sizes]
    parts = [prediction_powered(*each) for each in strata]
    known = [part for part in parts if part is not None]
    if not total or len(known) < len(strata):
        return None
    mean = math.fsum(share * part.mean for share, part in zip(shares, known, strict=True))
    weight = math.fsum(share * part.weight for share, part in zip(shares, known, strict=True))
    variances = []
    freedoms = []
    alone = 0.0
    for share, part, stratum in zip(shares, known, strata, strict=True):
        freedom = len(stratum.labels) - 2
        error = (part.high - part.low) / 2 / student_95(freedom)
        variances.append((share * error) ** 2)
        freedoms.append(freedom)
        alone += (share * part.labels_alone) ** 2
    variance = math.fsum(variances)
    parts_of = math.fsum(v**2 / free for v, free in zip(variances, freedoms, strict=True))
    half = student_95(max(1, round(variance**2 / parts_of))) * math.sqrt(variance)
    return LabelledMean(mean, mean - half, mean + half, weight, math.sqrt(alone))


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
