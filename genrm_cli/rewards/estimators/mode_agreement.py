"""How far two ways of asking a judge agree on the same rollouts, beyond the noise of both."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from genrm_cli.metrics.figures import FigureForm, rounded
from genrm_cli.metrics.running_stats import Estimated, student_95

DISAGREE_BELOW = 0.9
"""Agreement of two modes below which they say different things."""
AGREEMENT = FigureForm(2, (DISAGREE_BELOW,))
_LEAST_GROUPS = 3

Scores = Mapping[str, Sequence[float | None]]
"""The base scores of each group, in the order of its rollouts."""


def mode_agreement(one: Scores, other: Scores, reliabilities: tuple[float, float]) -> Estimated:
    """Return the correlation of two sets of base scores within groups, without the noise of both,
    with its 95 % interval; unknown for fewer than three groups that both know, or without signal.

    It is 1 if both say the same but for noise; what exceeds 1 by chance counts as 1.

    Source: correction for attenuation, C. Spearman, American Journal of Psychology 15 (1904) 72;
    jackknife over groups, B. Efron and C. Stein, Annals of Statistics 9 (1981) 586."""
    sums = [each for key in one.keys() & other.keys() if (each := _sums(one[key], other[key]))]
    return agreement_of_sums(sums, math.sqrt(max(0.0, reliabilities[0] * reliabilities[1])))


def agreement_of_sums(sums: Sequence[tuple[float, float, float]], scale: float = 1.0) -> Estimated:
    """Return the sum of products over the root of both sums of squares, divided by `scale`, with
    its 95 % interval over groups; at most 1.

    Args:
        sums: the squares of the one, of the other, and their products, of each group.
    """
    total = [math.fsum(each) for each in zip(*sums, strict=True)]
    if len(sums) < _LEAST_GROUPS or scale <= 0 or min(total[0], total[1]) <= 0:
        return Estimated(None, None, None)
    count = len(sums)
    without = []
    for each in sums:
        first, second, both = (whole - part for whole, part in zip(total, each, strict=True))
        square = first * second
        without.append(both / math.sqrt(square) if square > 0 else 0.0)
    middle = fmean(without)
    variance = (count - 1) / count * math.fsum((each - middle) ** 2 for each in without)
    value = total[2] / math.sqrt(total[0] * total[1]) / scale
    half = student_95(count - 1) * math.sqrt(variance) / scale
    ends = value, value - half, value + half
    return Estimated(*(rounded(min(1.0, each)) for each in ends))


def _sums(
    one: Sequence[float | None], other: Sequence[float | None]
) -> tuple[float, float, float] | None:
    """Return the squares and the products of the scores that both know, less their means."""
    both = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if len(both) < 2:
        return None
    first = fmean(a for a, _ in both)
    second = fmean(b for _, b in both)
    return (
        math.fsum((a - first) ** 2 for a, _ in both),
        math.fsum((b - second) ** 2 for _, b in both),
        math.fsum((a - first) * (b - second) for a, b in both),
    )
