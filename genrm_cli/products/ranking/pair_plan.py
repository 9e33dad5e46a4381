"""Plan comparisons of policies, and estimate the difference that such a plan can show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from genrm_cli.metrics.running_stats import POWER
from genrm_cli.products.ranking.looks import LEAST_PROMPTS, critical_z, power_z
from genrm_cli.rewards.estimators.verdict_batch import Floats

Pair = tuple[int, int]
"""Two policies, the lower number first."""
Offer = tuple[Pair, int]
"""A pair that a prompt allows, and the calls that comparing it takes."""
Offers = Mapping[int, Sequence[Offer]]
"""Offers by prompt."""

# Variance of the share won on a prompt: of prompts and of samples. Deviations are .38 with one
# sample and .29 with four for GPT-4 on close systems; with one order instead of both .455.
_OF_PROMPTS = 0.064
_OF_SAMPLES = 0.080
_OF_ONE_ORDER = 0.063
_LARGEST_DIFFERENCE = 0.5  # of a win rate from one half


def all_pairs(policies: int, anchor: int | None, *, is_curve: bool) -> set[Pair]:
    """Return the pairs to choose from: all, those with the anchor, or of a curve also steps near
    and far.
    """
    pairs = set(combinations(range(policies), 2))
    far = max(2, policies // 2)
    if is_curve:
        return {(a, b) for a, b in pairs if anchor in (a, b) or b - a in (1, far)}
    return pairs if anchor is None else {pair for pair in pairs if anchor in pair}


def count_prompts(chosen: Mapping[int, Sequence[Pair]], policies: int) -> Floats:
    """Return [K, K] the number of prompts on which two policies are compared."""
    counts = np.zeros((policies, policies))
    for pairs in chosen.values():
        for a, b in pairs:
            counts[a, b] += 1
    return counts + counts.T


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The precision that a plan has for a typical gap: the median of the pairs that count.

    Attributes:
        half_width: of the 95 % interval of a win rate; None with fewer than 20 prompts or above .5,
            all there is. Likewise `smallest_difference`.
        smallest_difference: from a win rate of one half, shown with this `power`; all comparisons
            are accounted for.
        deviation: assumed, of the share won on a prompt.
    """

    half_width: float | None
    smallest_difference: float | None
    power: float
    deviation: float


def assumed_deviation(samples: int, *, both_orders: bool) -> float:
    """Return the deviation over prompts of the share that one of two close policies wins."""
    return float(
        (_OF_PROMPTS + (_OF_SAMPLES + (0.0 if both_orders else _OF_ONE_ORDER)) / samples) ** 0.5
    )


def forecast(
    counts: Floats,
    deviation: float,
    anchor: int | None,
    *,
    prompts: int,
    one_look: bool = False,
) -> Forecast | None:
    """Return what comparisons on these numbers of prompts [K, K], and on so many `prompts` in all,
    can show; None if they do not join all policies.

    The variance of a gap is the resistance between two policies where each pair conducts by its
    number of prompts.

    Source: A. Ghosh, S. Boyd, A. Saberi, SIAM Review 50 (2008) 37; sample size of the normal test.
    """
    k = len(counts)
    laplacian = np.diag(counts.sum(axis=1)) - counts
    if np.linalg.matrix_rank(laplacian, hermitian=True) < k - 1:
        return None
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    resistances = [
        inverse[a, a] + inverse[b, b] - 2 * inverse[a, b]
        for a, b in combinations(range(k), 2)
        if anchor is None or anchor in (a, b)
    ]
    resistance = float(np.median(resistances))
    # The number of prompts of a direct comparison that would be as accurate.
    direct = max(1, round(1 / resistance))
    error = deviation * resistance**0.5
    z = critical_z(direct, len(resistances), one_look=one_look) + power_z(one_look=one_look)

    def possible(width: float) -> float | None:
        return width if prompts >= LEAST_PROMPTS and width < _LARGEST_DIFFERENCE else None

    return Forecast(
        half_width=possible(critical_z(direct, one_look=one_look) * error),
        smallest_difference=possible(z * error),
        power=POWER,
        deviation=deviation,
    )
