"""Scores and wins of the two rollouts of a verdict, and their variances over a run: an analysis of variance."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from genrm_cli.rewards.estimators.verdict_batch import Floats, VerdictBatch, scored_means
from genrm_cli.verdicts import MIDDLE_RANKING

MIN_FREEDOM = 12  # degrees of freedom; with these, standard errors are accurate to about 20 %

_Given = tuple[Floats, Floats]
_KIND_SUMS, _SHARED_SUMS = 3, 4
_LEADS = 2  # the last of the sums of a kind


class Variances(NamedTuple):
    """Variances of the numbers that verdicts give to rollouts.

    Attributes:
        within: variance of those of one rollout in one position.
        between: variance between the rollouts of a group in the limit of many verdicts.
        position: what position 1 gains and position 2 loses, on average.
    """

    within: float
    between: float
    position: float


def scores_given(batch: VerdictBatch) -> _Given:
    """Return what the first and the second get, [G, M]: their scores, moved apart by the ranking where equal."""
    shifts = np.where(batch.score_1 == batch.score_2, MIDDLE_RANKING - batch.ranking, 0.0)
    return batch.score_1 + shifts, batch.score_2 - shifts


def wins_given(batch: VerdictBatch) -> _Given:
    """Return 5 for the preferred rollout and 1 for the other, 3 for both of an even verdict."""
    wins = 3 + 2 * np.sign(batch.preferences())
    return wins, 6 - wins


KINDS: tuple[Callable[[VerdictBatch], _Given], ...] = (scores_given, wins_given)
SUMS = _KIND_SUMS * len(KINDS) + _SHARED_SUMS


def sums_of(batch: VerdictBatch) -> Floats:
    """Return the sums from which `variances_of` works; those of several batches add up."""
    counts, scored = batch.counts(), batch.counts() > 0
    n = np.maximum(scored.sum(axis=1, keepdims=True), 1)
    ones = np.ones_like(batch.score_1)
    position_spread = (counts - batch.sum_by_rollout(ones, -ones) ** 2 / np.maximum(counts, 1)).sum(axis=1)
    sums = [number for kind in KINDS for number in _sums_of_kind(batch, kind(batch), position_spread)]
    within_freedom = np.maximum(counts - 1, 0).sum() - (position_spread > 0).sum()
    noise_share = np.where(scored, (1 - 1 / n) / np.maximum(counts, 1), 0.0).sum()
    return np.array(
        [*sums, batch.valid.sum(), within_freedom, noise_share, np.maximum(scored.sum(axis=1) - 1, 0).sum()]
    )


def variances_of(sums: Floats, kind: int) -> Variances | None:
    """Split the variance of the numbers of one of `KINDS`; None where there are too few verdicts.

    Source: one-way analysis of covariance, the position within each group as the covariate; R. A. Fisher, Statistical
    Methods for Research Workers (4th edition, 1932).
    """
    verdicts, within_freedom, noise_share, freedom = sums[-_SHARED_SUMS:].tolist()
    if min(within_freedom, freedom) < MIN_FREEDOM:
        return None
    squares_within, squares_between, leads = sums[kind * _KIND_SUMS : (kind + 1) * _KIND_SUMS].tolist()
    within = max(0.0, squares_within) / within_freedom
    between = max(0.0, squares_between - within * noise_share) / freedom
    return Variances(within, between, leads / verdicts)


def sum_of_leads(sums: Floats, kind: int) -> float:
    """Return half of what position 1 got more than position 2, over all verdicts, of one of `KINDS`."""
    return float(sums[kind * _KIND_SUMS + _LEADS])


def _sums_of_kind(batch: VerdictBatch, given: _Given, position_spread: Floats) -> tuple[float, float, float]:
    """Return the squares within rollouts, less what position explains; between rollouts; and the sum of half leads."""
    one, two = given[0] - 3, given[1] - 3  # loses less in rounding
    counts, scored = batch.counts(), batch.counts() > 0
    means = batch.sum_by_rollout(one, two) / np.maximum(counts, 1)
    ones = np.ones_like(one)
    within = (batch.sum_by_rollout(one**2, two**2) - means**2 * counts).sum(axis=1)
    with_position = (batch.sum_by_rollout(one, -two) - means * batch.sum_by_rollout(ones, -ones)).sum(axis=1)
    explained = np.divide(with_position**2, position_spread, out=np.zeros_like(within), where=position_spread > 0)
    between = np.where(scored, (means - scored_means(means, scored)) ** 2, 0.0).sum()
    leads = ((one - two) / 2 * batch.valid).sum()
    return float((within - explained).sum()), float(between), float(leads)
