"""Average the verdicts on each rollout, regardless of the opponents."""

import math

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.judge_noise import GAP
from genrm_cli.rewards.estimators.least_squares import (
    Spread,
    chances_of,
    imbalance_of,
    laplacian_of,
    no_spread,
    reliabilities_of,
    spread_of,
)
from genrm_cli.rewards.estimators.verdict_batch import (
    BatchEstimate,
    Floats,
    VerdictBatch,
    scored_means,
)
from genrm_cli.verdicts import MIDDLE_RANKING


def average_scores(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Average each rollout's scores; where the two scores of a verdict are equal, its ranking moves
    them apart.

    A tie adds 3.5 - ranking to the first and takes it from the second; otherwise the ranking is
    ignored. On the scale of the scores, but a tie can leave it: (3, 3, 1) counts as 5.5 and 0.5.

    Source: NVIDIA NeMo Gym, `genrm_compare`, `aggregate_scores`, method `simple_tiebreaker`.
    """
    shifts = np.where(batch.score_1 == batch.score_2, MIDDLE_RANKING - batch.ranking, 0.0)
    given = (batch.score_1 + shifts, batch.score_2 - shifts)
    noise = calibration.noise
    if noise is None:
        return _average(batch, *given, None, assessed=calibration.signal_sought)
    # A score is the level of the verdict and half of its gap; what ties add is not modelled.
    laplacian = laplacian_of(batch)
    slope = noise.slopes[GAP] / 2
    levels = 2 * batch.counts()[:, :, None] * np.eye(batch.n) - laplacian
    seen = noise.level_slope * levels + slope * laplacian
    noisy = noise.level_noise * levels + noise.noise[GAP][GAP] / 4 * laplacian
    noisy += _position(batch, (calibration.gap_bias**2 + max(0.0, noise.prompt_bias[GAP][GAP])) / 4)
    return _average(batch, *given, _spread(batch, seen, noisy, noise.level_slope + slope))


def average_wins(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Return 1 + 4 times the share of its comparisons that a rollout won: 1 for none, 3 for half, 5
    for all.

    On this scale length and style terms, designed for scores of 1 to 5, keep their weight. The
    higher score wins; on equal scores the ranking decides; an even verdict is half a win for both.
    """
    wins = 3 + 2 * np.sign(batch.preferences())
    noise = calibration.win_noise
    if noise is None:
        return _average(batch, wins, 6 - wins, None)
    laplacian = laplacian_of(batch)
    slope = 2 * math.sqrt(noise.signal)
    noisy = 4 * noise.noise * laplacian + _position(batch, (4 * calibration.first_share - 2) ** 2)
    return _average(batch, wins, 6 - wins, _spread(batch, slope * laplacian, noisy, slope))


def _position(batch: VerdictBatch, variance: float) -> Floats:
    """Return [G, n, n] what a preference for a position adds to the covariance of sums."""
    lean = imbalance_of(batch)
    return variance * lean[:, :, None] * lean[:, None, :]


def _spread(batch: VerdictBatch, seen: Floats, noisy: Floats, limit: float) -> Spread:
    """Return the spread of means less the group's mean, from how their sums depend on qualities and
    noise.
    """
    counts = batch.counts()
    shares = (counts > 0) / np.maximum((counts > 0).sum(axis=1, keepdims=True), 1)
    centring = np.eye(batch.n) - shares[:, None, :]
    return spread_of(batch, centring / np.maximum(counts, 1)[:, None, :], seen, noisy, limit)


def _average(
    batch: VerdictBatch,
    of_first: Floats,
    of_second: Floats,
    spread: Spread | None,
    *,
    assessed: bool = False,
) -> BatchEstimate:
    counts = batch.counts()
    scored = counts > 0
    known = np.full(batch.groups, spread is not None)
    base_scores = batch.sum_by_rollout(of_first, of_second) / np.maximum(counts, 1)
    spread = spread or no_spread(batch)
    deviations = np.where(scored, base_scores - scored_means(base_scores, scored), 0.0)
    return BatchEstimate(
        base_scores=base_scores,
        scored=scored,
        variances=spread.variances,
        known=known,
        reliabilities=reliabilities_of(deviations, spread, scored),
        chances=chances_of(deviations, spread),
        assessed=known | assessed,
        converged=np.ones(batch.groups, dtype=np.bool_),
    )
