"""Average the scores of each rollout, regardless of the opponents."""

import numpy as np

from genrm_cli.rewards.estimators.accuracy import (
    BatchEstimate,
    errors_of,
    laplacian_of,
    position_noise,
)
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.judge_noise import GAP
from genrm_cli.rewards.estimators.verdict_batch import VerdictBatch, scored_means
from genrm_cli.verdicts import MIDDLE_RANKING


def average_scores(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Average each rollout's scores; where the two scores of a verdict are equal, its ranking moves
    them apart.

    A tie adds 3.5 - ranking to the first and takes it from the second; otherwise the ranking is
    ignored. On the scale of the scores, but a tie can leave it: (3, 3, 1) counts as 5.5 and 0.5.

    Source: NVIDIA NeMo Gym, `genrm_compare`, `aggregate_scores`, method `simple_tiebreaker`.
    """
    shifts = np.where(batch.score_1 == batch.score_2, MIDDLE_RANKING - batch.ranking, 0.0)
    counts = batch.counts()
    scored = counts > 0
    sums = batch.sum_by_rollout(batch.score_1 + shifts, batch.score_2 - shifts)
    base_scores = sums / np.maximum(counts, 1)
    noise = calibration.noise
    if noise is None:
        return BatchEstimate(base_scores, scored)
    # A score is the level of the verdict and half of its gap; what ties add is not modelled.
    laplacian = laplacian_of(batch)
    levels = 2 * counts[:, :, None] * np.eye(batch.n) - laplacian
    slope = noise.slopes[GAP] / 2
    seen = noise.level_slope * levels + slope * laplacian
    noisy = noise.level_noise * levels + noise.noise[GAP][GAP] / 4 * laplacian
    bias = calibration.gap_bias**2 + max(0.0, noise.prompt_bias[GAP][GAP])
    noisy += position_noise(batch, bias / 4)
    shares = scored / np.maximum(scored.sum(axis=1, keepdims=True), 1)
    centring = np.eye(batch.n) - shares[:, None, :]
    errors = errors_of(
        batch,
        np.where(scored, base_scores - scored_means(base_scores, scored), 0.0),
        centring / np.maximum(counts, 1)[:, None, :],
        seen,
        noisy,
        noise.level_slope + slope,
    )
    return BatchEstimate(base_scores, scored, errors)
