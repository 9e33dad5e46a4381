"""Scores and rankings of a group, combined by least squares."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.judge_noise import GAP, RANKING, JudgeNoise, Weights, weights_of
from genrm_cli.rewards.estimators.verdict_batch import (
    BatchEstimate,
    Flags,
    Floats,
    VerdictBatch,
    inverse_of,
    rounded_array,
    scored_means,
)
from genrm_cli.verdicts import MIDDLE_RANKING

# Base score of one standard deviation of quality, of the kinds of judges as they are.
_QUALITY_POINTS = 0.7
# A group's mean lead is shrunk as if this many further verdicts had shown none: a few verdicts have
# a lead by chance.
_UNBIASED_ALONE = 12


class Spread(NamedTuple):
    """Propagation of the qualities and of noise into a linear solution.

    Attributes:
        variances: [G, n], of each number of the solution against the quality, less the mean of the
            scored.
        shared: [G], trace of the matrix that maps qualities of variance 1 to the solution.
        total: [G], sum of the variances of the numbers of the solution.
        noise: [G], the part of it that noise has, which is all of it if the qualities are equal.
        noise_square: [G], sum of the squared covariances of that part.
    """

    variances: Floats
    shared: Floats
    total: Floats
    noise: Floats
    noise_square: Floats


def combine(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Solve for the qualities that best explain gaps, rankings and levels of the scores, with the
    default weights.

    On the scale of the scores, shrunk towards the group's mean; finite on every graph of
    comparisons.

    Source: Liusie et al. 2024, arXiv 2405.05894 (product of experts, Gaussian closed form); ridge
    regression."""
    return _combine(batch, calibration, Weights())


def weigh(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Combine scores and rankings with the weights for this kind of judge."""
    return _combine(batch, calibration, _weights_by_kind(calibration))


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


def _weights_by_kind(calibration: Calibration) -> Weights:
    return weights_of(calibration.kind, _QUALITY_POINTS) or Weights()


def _scale_of(weights: Weights, noise: JudgeNoise) -> float:
    """Return the base score of one standard deviation of quality, in the limit of many verdicts."""
    slope = weights.gap * noise.slopes[GAP] + weights.ranking * noise.slopes[RANKING]
    return weights.scale * slope / weights.precision


def _combine(batch: VerdictBatch, calibration: Calibration, weights: Weights) -> BatchEstimate:
    """Solve (I + p L + q Q) x = sums of gaps and levels, where x sums to 0 in each group.

    L is the sum of (e_i - e_j)(e_i - e_j)' over the verdicts, Q that of (e_i + e_j)(e_i + e_j)'
    less n n' / M, with n the verdicts on each rollout and M those of the group."""
    noise = calibration.noise
    level = batch.means((batch.score_1 + batch.score_2) / 2)
    solution, spread = _solve(batch, right_side(batch, calibration, weights), weights, noise)
    solution = weights.scale * solution
    scored = batch.counts() > 0
    return BatchEstimate(
        base_scores=rounded_array(level + solution),
        scored=scored,
        variances=spread.variances,
        known=np.full(batch.groups, noise is not None),
        reliabilities=reliabilities_of(solution, spread, scored),
        chances=chances_of(solution, spread),
        assessed=np.full(batch.groups, calibration.signal_sought),
        converged=np.ones(batch.groups, dtype=np.bool_),
    )


def right_side(batch: VerdictBatch, calibration: Calibration, weights: Weights) -> Floats:
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


def reliabilities_of(solution: Floats, spread: Spread, scored: Flags) -> Floats:
    """Return [G] the share of signal in the qualities that a linear solution [G, n] predicts.

    The solution sums to 0 in each group. It is shrunk to the mean by the amount that suits this
    judge, which follows from how the judge responds to any group with these verdicts, not from the
    assumptions of the solution: a noisier judge is shrunk further. The variance of predictions is
    their reliability.

    Source: linear regression of the qualities on the solution; T. L. Kelley, Statistical Method
    (1923)."""
    shared = np.maximum(0.0, spread.shared)
    kept = np.divide(shared, spread.total, out=np.zeros_like(shared), where=spread.total > 0)
    missed = np.maximum(0.0, np.maximum(scored.sum(axis=1) - 1, 0) - kept * shared)
    qualities = kept[:, None] * solution
    return signal_share((qualities**2).sum(axis=1), missed)


def chances_of(solution: Floats, spread: Spread) -> Floats:
    """Return [G] the probability that a group of equal qualities spreads as much as this solution
    [G, n], which sums to 0 in each group; 1 without noise or spread.

    Source: F. E. Satterthwaite (1946), An Approximate Distribution of Estimates of Variance
    Components; E. B. Wilson and M. M. Hilferty (1931), The Distribution of Chi-Square."""
    is_known = (spread.noise > 0) & (spread.noise_square > 0)
    noise = np.where(is_known, spread.noise, 1.0)
    freedom = np.where(is_known, noise**2 / np.where(is_known, spread.noise_square, 1.0), 1.0)
    ratios = np.where(is_known, (solution**2).sum(axis=1) / noise, 0.0)
    step = 2 / (9 * freedom)
    deviations = (np.cbrt(ratios) - (1 - step)) / np.sqrt(step)
    tails = [math.erfc(each / math.sqrt(2)) / 2 for each in deviations.tolist()]
    chances: Floats = np.where(ratios > 0, np.array(tails), 1.0)
    return chances


def signal_share(spread: Floats, errors: Floats) -> Floats:
    """Return spread / (spread + errors) of estimates that were shrunk to the mean; 0 if both are 0.

    Source: the empirical reliability of expected a posteriori estimates, M. du Toit, IRT from SSI
    (2003)."""
    total = spread + errors
    shares: Floats = np.divide(spread, total, out=np.zeros_like(spread), where=total > 0)
    return shares


def laplacian_of(batch: VerdictBatch) -> Floats:
    """Return [G, n, n] the sum of (e_i - e_j)(e_i - e_j)' over the verdicts."""
    degrees: Floats = batch.counts()[:, :, None] * np.eye(batch.n)
    return degrees - batch.sum_by_pair(np.ones_like(batch.score_1))


def imbalance_of(batch: VerdictBatch) -> Floats:
    """Return [G, n] how much more often each rollout was shown first than second."""
    ones = np.ones_like(batch.score_1)
    return batch.sum_by_rollout(ones, -ones)


def _solve(
    batch: VerdictBatch, right: Floats, weights: Weights, noise: JudgeNoise | None
) -> tuple[Floats, Spread]:
    """Solve for the right side; the weights need not suit the judge's noise."""
    laplacian, level_part = dense_graphs(batch)
    inverse = inverse_of(
        np.eye(batch.n) + weights.precision * laplacian + weights.level_precision * level_part
    )
    solution = (inverse @ right[..., None])[..., 0]
    if noise is None:
        return solution, no_spread(batch)
    gap_weights = np.array([weights.gap, weights.ranking])
    seen = (
        float(gap_weights @ np.array(noise.slopes)) * laplacian
        + weights.level * noise.level_slope * level_part
    )
    noisy = float(gap_weights @ np.array(noise.noise) @ gap_weights) * laplacian
    noisy += weights.level**2 * noise.level_noise * level_part
    prompt = max(0.0, float(gap_weights @ np.array(noise.prompt_bias) @ gap_weights))
    lean = imbalance_of(batch)
    noisy += prompt * lean[:, :, None] * lean[:, None, :]
    scale = weights.scale
    return solution, spread_of(batch, scale * inverse, seen, noisy, _scale_of(weights, noise))


def no_spread(batch: VerdictBatch) -> Spread:
    """Return the spread where the noise of the judge is unknown."""
    nothing = np.zeros(batch.groups)
    return Spread(np.zeros((batch.groups, batch.n)), nothing, nothing, nothing, nothing)


def spread_of(
    batch: VerdictBatch, inverse: Floats, seen: Floats, noisy: Floats, limit: float | Floats
) -> Spread:
    """Return the spread of a linear solution.

    Args:
        inverse: [G, n, n], maps the right side of the system to the solution.
        seen: [G, n, n], maps the qualities to the right side.
        noisy: [G, n, n], covariance of the right side, given the qualities.
        limit: the solution for a quality of 1, in the limit of many verdicts; of all groups, or [G,
            1, 1].
    """
    passed = inverse @ seen
    # A variance; rounding may leave a little less than 0.
    covariance = inverse @ noisy @ inverse.swapaxes(1, 2)
    errors = np.maximum(0.0, np.diagonal(covariance, axis1=1, axis2=2))
    scored = batch.counts() > 0
    n = np.maximum(scored.sum(axis=1), 1)[:, None, None]
    centring = scored[:, :, None] * np.eye(batch.n) - scored[:, :, None] * scored[:, None, :] / n
    return Spread(
        variances=((passed - limit * centring) ** 2).sum(axis=2) + errors,
        shared=np.trace(passed, axis1=1, axis2=2),
        total=(passed**2).sum(axis=(1, 2)) + errors.sum(axis=1),
        noise=errors.sum(axis=1),
        noise_square=(covariance**2).sum(axis=(1, 2)),
    )


def dense_graphs(batch: VerdictBatch) -> tuple[Floats, Floats]:
    """Return L and Q, both [G, n, n]."""
    laplacian = laplacian_of(batch)
    counts = batch.counts()
    verdicts = np.maximum(batch.valid.sum(axis=1), 1)[:, None, None]
    level_part = 2 * counts[:, :, None] * np.eye(batch.n) - laplacian
    return laplacian, level_part - counts[:, :, None] * counts[:, None, :] / verdicts
