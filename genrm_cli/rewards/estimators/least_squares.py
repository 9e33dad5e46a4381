"""Scores and rankings of a group, combined by least squares."""

from dataclasses import replace

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimate_errors import (
    BatchEstimate,
    Errors,
    errors_of,
    laplacian_of,
    position_noise,
)
from genrm_cli.rewards.estimators.judge_noise import (
    GAP,
    RANKING,
    JudgeNoise,
    Weights,
    weights_of,
)
from genrm_cli.rewards.estimators.verdict_batch import (
    Floats,
    VerdictBatch,
    inverse_of,
    rounded_array,
    scored_means,
)
from genrm_cli.verdicts import MIDDLE_RANKING

# A group's mean lead is shrunk as if this many further verdicts had shown none: a few verdicts have
# a lead by chance.
_UNBIASED_ALONE = 12


def combine(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Combine gaps, rankings and levels of the scores with the weights of a typical judge."""
    return _combine(batch, calibration, Weights())


def weigh(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Combine scores and rankings with the weights for this kind of judge."""
    return _combine(batch, calibration, weights_of(calibration.kind))


def weigh_alone(batch: VerdictBatch) -> Floats:
    """Return [G, n] the base scores of a typical judge, less their mean, by each group's verdicts
    alone.

    The shrunk mean lead of a group's verdicts counts as the judge's position preference. A rollout
    without a verdict has 0. The scores are rounded, because further pairs are planned from them."""
    verdicts = batch.valid.sum(axis=1, keepdims=True) + _UNBIASED_ALONE
    gaps = ((batch.score_1 - batch.score_2) * batch.valid).sum(axis=1, keepdims=True) / verdicts
    leads = ((MIDDLE_RANKING - batch.ranking) * batch.valid).sum(axis=1, keepdims=True) / verdicts
    first = batch.score_1 - gaps / 2
    second = batch.score_2 + gaps / 2
    even = replace(batch, score_1=first, score_2=second, ranking=batch.ranking + leads)
    made = weigh(even, Calibration())
    centred = made.base_scores - scored_means(made.base_scores, made.scored)
    return rounded_array(np.where(made.scored, centred, 0.0))


def _combine(batch: VerdictBatch, calibration: Calibration, weights: Weights) -> BatchEstimate:
    """Solve (I + p L + q Q) x = sums of gaps and levels, where x sums to 0 in each group.

    L is the sum of (e_i - e_j)(e_i - e_j)' over the verdicts, Q that of (e_i + e_j)(e_i + e_j)'
    less n n' / M, with n the verdicts on each rollout and M those of the group. The solution is on
    the scale of the scores, shrunk towards the group's mean, and finite on every graph of
    comparisons.

    Source: Liusie et al. 2024, arXiv 2405.05894 (product of experts, Gaussian closed form); ridge
    regression."""
    laplacian = laplacian_of(batch)
    counts = batch.counts()
    verdicts = np.maximum(batch.valid.sum(axis=1), 1)[:, None, None]
    sums = 2 * counts[:, :, None] * np.eye(batch.n) - laplacian
    levels = sums - counts[:, :, None] * counts[:, None, :] / verdicts
    inverse = weights.scale * inverse_of(
        np.eye(batch.n) + weights.precision * laplacian + weights.level_precision * levels
    )
    solution = (inverse @ _right_side(batch, calibration, weights)[..., None])[..., 0]
    errors = None
    if calibration.noise is not None:
        graphs = laplacian, levels
        errors = _errors(batch, solution, inverse, graphs, weights, calibration.noise)
    mean_scores = batch.means((batch.score_1 + batch.score_2) / 2)
    return BatchEstimate(rounded_array(mean_scores + solution), counts > 0, errors)


def _right_side(batch: VerdictBatch, calibration: Calibration, weights: Weights) -> Floats:
    """Return [G, n] the weighted sums of gaps, rankings and levels, minus the judge's position
    preference.
    """
    corrected = batch.corrected()
    gaps = weights.gap * (batch.score_1 - batch.score_2 - calibration.gap_bias * corrected)
    gaps += weights.ranking * (
        MIDDLE_RANKING - batch.ranking - calibration.ranking_bias * corrected
    )
    levels = (batch.score_1 + batch.score_2) / 2
    levels = levels - batch.means(levels)
    return batch.sum_by_rollout(gaps, -gaps) + weights.level * batch.sum_by_rollout(levels, levels)


def _errors(
    batch: VerdictBatch,
    solution: Floats,
    inverse: Floats,
    graphs: tuple[Floats, Floats],
    weights: Weights,
    noise: JudgeNoise,
) -> Errors:
    """Return the errors of a solution whose weights need not suit the judge's noise."""
    laplacian, levels = graphs
    gap_weights = np.array([weights.gap, weights.ranking])
    slope = weights.gap * noise.slopes[GAP] + weights.ranking * noise.slopes[RANKING]
    seen = slope * laplacian + weights.level * noise.level_slope * levels
    noisy = float(gap_weights @ np.array(noise.noise) @ gap_weights) * laplacian
    noisy += weights.level**2 * noise.level_noise * levels
    prompt = max(0.0, float(gap_weights @ np.array(noise.prompt_bias) @ gap_weights))
    noisy += position_noise(batch, prompt)
    limit = weights.scale * slope / weights.precision
    return errors_of(batch, solution, inverse, seen, noisy, limit)
