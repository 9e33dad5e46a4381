"""Scores and rankings of a group, combined by least squares."""

import numpy as np

from genrm_cli.rewards.estimators.judge_fit import JudgeFit, JudgeNoise, Weights
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, Flags, Floats, VerdictBatch, inverse_of


def combine(batch: VerdictBatch, fit: JudgeFit) -> BatchEstimate:
    """Solve for the qualities that explain gaps, rankings and levels of the scores best, with the usual weights.

    On the scale of the scores, drawn towards the group's mean; finite on every graph of comparisons.

    Source: Liusie et al. 2024, arXiv 2405.05894 (product of experts, Gaussian closed form); ridge regression.
    """
    return _combine(batch, fit, Weights())


def combine_fitted(batch: VerdictBatch, fit: JudgeFit) -> BatchEstimate:
    """Combine with the weights that suit this judge; with the usual ones where none could be fitted."""
    return _combine(batch, fit, fit.weights or Weights())


def solve_combined(batch: VerdictBatch, gaps: Floats, levels: Floats, weights: Weights) -> tuple[Floats, Floats]:
    """Solve (I + p L + q Q) x = sums of gaps and levels.

    L is the sum of (e_i - e_j)(e_i - e_j)' over the verdicts, Q that of (e_i + e_j)(e_i + e_j)' less n n' / M, with
    n the verdicts on each rollout and M those of the group.

    Args:
        batch: who was compared with whom.
        gaps: [G, M], by how much the first is better.
        levels: [G, M], centred: they sum to 0 in each group.
        weights: p, q and the level's share of the right side.

    Returns:
        x [G, n], summing to 0 in each group, and the inverse [G, n, n] of the left matrix.
    """
    right = batch.sum_by_rollout(gaps, -gaps) + weights.level * batch.sum_by_rollout(levels, levels)
    laplacian, level_part = _graphs(batch)
    inverse = inverse_of(np.eye(batch.n) + weights.precision * laplacian + weights.level_precision * level_part)
    return (inverse @ right[..., None])[..., 0], inverse


def _combine(batch: VerdictBatch, fit: JudgeFit, weights: Weights) -> BatchEstimate:
    means = (batch.score_1 + batch.score_2) / 2
    level = batch.means(means)
    gaps = weights.gap * (batch.score_1 - batch.score_2 - fit.gap_bias)
    gaps += weights.ranking * (3.5 - batch.ranking - fit.ranking_bias)
    solution, inverse = solve_combined(batch, gaps, means - level, weights)
    qualities, scored = weights.scale * solution, batch.counts() > 0
    if fit.noise is None:
        variances = np.zeros_like(qualities)
    else:
        variances = _variances(batch, inverse, scored, weights, fit.noise)
    known = np.full(batch.groups, fit.noise is not None)
    return BatchEstimate(
        base_scores=level + qualities,
        scored=scored,
        variances=variances,
        known=known,
        reliabilities=shrunk_reliabilities(qualities, variances, scored),
        converged=np.ones(batch.groups, dtype=np.bool_),
    )


def shrunk_reliabilities(qualities: Floats, variances: Floats, scored: Flags) -> Floats:
    """Return [G] the share of signal where estimates are drawn towards the mean: spread / (spread + errors).

    0 without a spread.

    Source: the empirical reliability of expected a posteriori estimates, M. du Toit, IRT from SSI (2003).
    """
    spread = np.where(scored, qualities**2, 0.0).sum(axis=1)
    errors = np.where(scored, variances, 0.0).sum(axis=1)
    total = spread + errors
    shares: Floats = np.divide(spread, total, out=np.zeros_like(spread), where=total > 0)
    return shares


def _graphs(batch: VerdictBatch) -> tuple[Floats, Floats]:
    """Return L and Q, both [G, n, n]."""
    pairs = batch.sum_by_pair(np.ones_like(batch.score_1))
    counts = batch.counts()
    degrees = counts[:, :, None] * np.eye(batch.n)
    verdicts = np.maximum(batch.there.sum(axis=1), 1)[:, None, None]
    return degrees - pairs, degrees + pairs - counts[:, :, None] * counts[:, None, :] / verdicts


def _variances(batch: VerdictBatch, inverse: Floats, scored: Flags, weights: Weights, noise: JudgeNoise) -> Floats:
    """Return [G, n] the expected squared errors of the qualities, against the mean of the scored ones.

    They are those of a solution with any weights for a judge with any noise: what the solution misses of the true
    qualities, what noise adds, and what a bias of the prompt adds where a rollout was not as often first as second.
    With the weights fitted to the noise that is the diagonal of the inverse times the variance of the noise.
    """
    gap_weights = np.array([weights.gap, weights.ranking])
    laplacian, level_part = _graphs(batch)
    centre = scored[:, :, None] * np.eye(batch.n)
    centre -= scored[:, :, None] * scored[:, None, :] / np.maximum(scored.sum(axis=1), 1)[:, None, None]
    slope = float(gap_weights @ np.array(noise.slopes))
    seen = slope * laplacian + weights.level * noise.level_slope * level_part
    missed = weights.scale * inverse @ seen - noise.scale * centre
    spread = float(gap_weights @ np.array(noise.noise) @ gap_weights) * laplacian
    spread += weights.level**2 * noise.level_noise * level_part
    ones = np.ones_like(batch.score_1)
    leanings = (inverse @ batch.sum_by_rollout(ones, -ones)[..., None])[..., 0]
    prompt = max(0.0, float(gap_weights @ np.array(noise.prompt_bias) @ gap_weights))
    noisy = ((inverse @ spread) * inverse).sum(axis=2) + prompt * leanings**2
    variances: Floats = (missed**2).sum(axis=2) + weights.scale**2 * noisy
    return variances
