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
    variances, reliabilities = np.zeros_like(qualities), np.zeros(batch.groups)
    if fit.noise is not None:
        seen, noisy = _seen_and_noisy(batch, inverse, weights, fit.noise)
        variances = ((seen - fit.noise.scale * _centring(scored)) ** 2).sum(axis=2) + noisy
        reliabilities = linear_reliabilities(qualities, seen, noisy, scored)
    return BatchEstimate(
        base_scores=level + qualities,
        scored=scored,
        variances=variances,
        known=np.full(batch.groups, fit.noise is not None),
        reliabilities=reliabilities,
        assessed=np.full(batch.groups, fit.signal_sought),
        converged=np.ones(batch.groups, dtype=np.bool_),
    )


def linear_reliabilities(solution: Floats, seen: Floats, noisy: Floats, scored: Flags) -> Floats:
    """Return [G] the share of signal in a linear solution, drawn to the mean as far as this judge needs.

    How far that is follows from what the judge shows of any group with these verdicts, not from the assumptions of
    the solution: a noisier judge is drawn further.

    Args:
        solution: [G, n], summing to 0 in each group.
        seen: [G, n, n], by how much each quality, of variance 1, moves each number of the solution.
        noisy: [G, n], variances that noise adds to the solution.
        scored: [G, n].

    Source: linear regression of the qualities on the solution; T. L. Kelley, Statistical Method (1923).
    """
    shared = np.maximum(0.0, np.trace(seen, axis1=1, axis2=2))
    total = (seen**2).sum(axis=(1, 2)) + noisy.sum(axis=1)
    kept = np.divide(shared, total, out=np.zeros_like(total), where=total > 0)
    missed = np.maximum(0.0, np.maximum(scored.sum(axis=1) - 1, 0) - kept * shared)
    return signal_share(((kept[:, None] * solution) ** 2).sum(axis=1), missed)


def signal_share(spread: Floats, errors: Floats) -> Floats:
    """Return spread / (spread + errors) of estimates that were drawn to the mean; 0 where both are 0.

    Source: the empirical reliability of expected a posteriori estimates, M. du Toit, IRT from SSI (2003).
    """
    total = spread + errors
    shares: Floats = np.divide(spread, total, out=np.zeros_like(spread), where=total > 0)
    return shares


def _graphs(batch: VerdictBatch) -> tuple[Floats, Floats]:
    """Return L and Q, both [G, n, n]."""
    laplacian, counts = laplacian_of(batch), batch.counts()
    verdicts = np.maximum(batch.there.sum(axis=1), 1)[:, None, None]
    level_part = 2 * counts[:, :, None] * np.eye(batch.n) - laplacian
    return laplacian, level_part - counts[:, :, None] * counts[:, None, :] / verdicts


def laplacian_of(batch: VerdictBatch) -> Floats:
    """Return [G, n, n] the sum of (e_i - e_j)(e_i - e_j)' over the verdicts."""
    degrees: Floats = batch.counts()[:, :, None] * np.eye(batch.n)
    return degrees - batch.sum_by_pair(np.ones_like(batch.score_1))


def _centring(scored: Flags) -> Floats:
    """Return [G, n, n] what takes from the scored their mean."""
    n = np.maximum(scored.sum(axis=1), 1)[:, None, None]
    every = np.eye(scored.shape[1])
    centring: Floats = scored[:, :, None] * every - scored[:, :, None] * scored[:, None, :] / n
    return centring


def _seen_and_noisy(batch: VerdictBatch, inverse: Floats, weights: Weights, noise: JudgeNoise) -> tuple[Floats, Floats]:
    """Return by how much each quality moves each number of the solution, [G, n, n], and the variances of the rest.

    They are those of a solution with any weights for a judge with any noise. To what noise adds, [G, n], comes what a
    bias of the prompt adds where a rollout was not as often first as second.
    """
    gap_weights = np.array([weights.gap, weights.ranking])
    laplacian, level_part = _graphs(batch)
    slope = float(gap_weights @ np.array(noise.slopes))
    seen = slope * laplacian + weights.level * noise.level_slope * level_part
    spread = float(gap_weights @ np.array(noise.noise) @ gap_weights) * laplacian
    spread += weights.level**2 * noise.level_noise * level_part
    ones = np.ones_like(batch.score_1)
    leanings = (inverse @ batch.sum_by_rollout(ones, -ones)[..., None])[..., 0]
    prompt = max(0.0, float(gap_weights @ np.array(noise.prompt_bias) @ gap_weights))
    noisy = ((inverse @ spread) * inverse).sum(axis=2) + prompt * leanings**2
    return weights.scale * inverse @ seen, weights.scale**2 * noisy
