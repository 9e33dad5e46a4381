"""Estimate a mean from few human labels beside many verdicts.

Verdicts are many and may be wrong; labels are few and count as right. The labelled items show how
wrong the verdicts are, and that corrects the mean of all verdicts. The estimate is unbiased for any
judge. With a good judge its interval is narrower than that of the labels alone; with a coin it is
as wide.

Labels must be of items drawn at random. Labels chosen because judges disagree bias every estimate
from them. An item is a prompt: average its pairs first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genrm_cli.metrics.running_stats import student_95
from genrm_cli.rewards.estimators.verdict_batch import Floats

# Two residuals for the variance and one for the weight.
LEAST_LABELS = 4
# Squares of residuals that are assumed at least: those of one wrong verdict. Without any wrong one,
# the interval would have no width.
_ONE_WRONG = 1.0


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
        # The weight of least variance; beyond 0 and 1 only the noise of few labels leads.
        weight = min(1.0, max(0.0, shared / ((1 + n / len(rest)) * spread)))
    residuals = truth - weight * judged
    mean = float(residuals.mean())
    variance = _variance_of_mean(residuals)
    if weight:
        mean += weight * float(rest.mean())
        if len(rest) > 1:
            variance += weight**2 * float(np.var(rest, ddof=1)) / len(rest)
    half = student_95(n - 2) * math.sqrt(variance)
    low, mean, high = np.clip([mean - half, mean, mean + half], 0, 1).tolist()
    narrower = math.sqrt(variance / _variance_of_mean(truth)) if weight else None
    return LabelledMean(mean, low, high, weight, narrower)


def _variance_of_mean(values: Floats) -> float:
    squares = max(float(((values - values.mean()) ** 2).sum()), _ONE_WRONG)
    return squares / ((len(values) - 2) * len(values))
