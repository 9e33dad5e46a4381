"""Probability that the judge truly prefers one rollout of a group to another."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.judge_noise import weights_of
from genrm_cli.rewards.estimators.least_squares import dense_graphs, imbalance_of, right_side
from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, VerdictBatch, inverse_of

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Posterior:
    """Qualities of the rollouts of G groups, given their verdicts, of variance 1 within a group.

    Means are [G, n], covariances [G, n, n] with squared standard errors in the diagonal; scored
    rollouts have verdicts."""

    means: Floats
    covariances: Floats
    scored: Flags

    def confidence(self, group: int, i: int, j: int) -> float:
        """Return the probability that rollout i of a group is truly better than rollout j; 0.5 for
        i = j.

        It is the normal distribution of (x_i - x_j) / sqrt(S_ii + S_jj - 2 S_ij), with x the means
        and S the
        covariance: two rollouts that met, or met the same opponents, share errors that cancel in
        their difference."""
        gap = self.means[group, i] - self.means[group, j]
        spread = self.covariances[group]
        variance = spread[i, i] + spread[j, j] - 2 * spread[i, j]
        return 0.5 if variance <= 0 else _NORMAL.cdf(float(gap) / math.sqrt(variance))


def posterior_of(batch: VerdictBatch, calibration: Calibration) -> Posterior | None:
    """Return the qualities of rollouts and their errors; None if the judge's noise is unknown.

    Derivation. By `JudgeNoise`, qualities q are independent and normal with variance 1, and a
    verdict on (i, j) gives u = (d, r) - bias = b (q_i - q_j) + e with e ~ N(0, C), and m - its
    group's mean = s (q_i + q_j) + f with f ~ N(0, v). The logarithm of the posterior is then
    quadratic in q. Its precision is P = I + p L + (s²/v) Q, with p = b' C⁻¹ b and the graphs L and
    Q of `least_squares`; its maximum is x = P⁻¹ (Σ b' C⁻¹ u (e_i - e_j) + (s/v) Σ m (e_i + e_j)),
    the least squares with the weights that suit the noise; its covariance is P⁻¹. A bias that the
    prompt adds to all verdicts of a group, with covariance B, does not average out where rollouts
    were not first as often as second: with h the imbalance it adds (w' B w) (P⁻¹ h)(P⁻¹ h)', w =
    C⁻¹ b.

    This infers the judge's own opinion in the limit of many verdicts: an error that it repeats in
    every comparison of a rollout cannot be told from quality. The probabilities do not depend on
    the estimator of the rewards. Memory grows with the square of n.

    Source: the posterior of a linear model with normal errors and a normal prior, as in Liusie et
    al. 2024, arXiv 2405.05894."""
    noise = calibration.noise
    weights = None if noise is None else weights_of(noise)
    if noise is None or weights is None:
        return None
    laplacian, level_part = dense_graphs(batch)
    inverse = inverse_of(
        np.eye(batch.n) + weights.precision * laplacian + weights.level_precision * level_part
    )
    right = right_side(batch, calibration, weights)
    leanings = (inverse @ imbalance_of(batch)[..., None])[..., 0]
    gap_weights = np.array([weights.gap, weights.ranking])
    prompt = max(0.0, float(gap_weights @ np.array(noise.prompt_bias) @ gap_weights))
    return Posterior(
        means=(inverse @ right[..., None])[..., 0],
        covariances=inverse + prompt * leanings[:, :, None] * leanings[:, None, :],
        scored=batch.counts() > 0,
    )
