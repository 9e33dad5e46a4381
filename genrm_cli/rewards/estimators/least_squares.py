"""Base scores of a group by least squares on the graph of its comparisons."""

import numpy as np
from msgspec.structs import replace

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimate_errors import (
    BatchEstimate,
    errors_of,
    laplacian_of,
    position_noise,
)
from genrm_cli.rewards.estimators.judge_noise import (
    LEVEL_NOISE,
    LEVEL_SLOPE,
    NOISE,
    SLOPES,
)
from genrm_cli.rewards.estimators.verdict_batch import (
    Floats,
    VerdictBatch,
    invert,
    rounded_array,
    scored_means,
)
from genrm_cli.verdicts import MIDDLE_RANKING

# A group's mean lead is shrunk as if this many further verdicts had shown none: a few verdicts have
# a lead by chance.
_UNBIASED_ALONE = 12
_QUALITY_POINTS = 0.7  # base score of one standard deviation of quality
# The position decides between close responses, and hardly between others. Of qualities.
_CLOSE = 0.4


def fit_qualities(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Solve (I + p L + q Q) x = sums of leads and levels, where x sums to 0 in each group.

    L is the sum of (e_i - e_j)(e_i - e_j)' over the verdicts, Q that of (e_i + e_j)(e_i + e_j)'
    less n n' / M, with n the verdicts on each rollout and M those of the group. The solution is
    finite on every graph, and shrunk towards the group's mean. A group whose verdicts all have the
    same level, as labels have, has no Q.

    It is solved twice: the judge's mean position preference is first subtracted from all leads,
    then most of it from those of rollouts that the first solution finds close to each other.

    Source: Liusie et al. 2024, arXiv 2405.05894 (product of experts, Gaussian closed form); ridge
    regression."""
    shares = np.array([1 - calibration.weights.ranking, calibration.weights.ranking])
    slope = float(shares @ SLOPES)
    noise = float(shares @ NOISE @ shares)
    precision = slope**2 / noise
    means = (batch.score_1 + batch.score_2) / 2
    mean_scores = batch.means(means)
    levels = (means - mean_scores) * batch.valid
    has_levels = np.abs(rounded_array(levels)).max(axis=1, initial=0.0) > 0
    counts = batch.counts()
    laplacian = laplacian_of(batch)
    verdicts = np.maximum(batch.valid.sum(axis=1), 1)[:, None, None]
    sums = 2 * counts[:, :, None] * np.eye(batch.n) - laplacian
    sums -= counts[:, :, None] * counts[:, None, :] / verdicts
    sums *= has_levels[:, None, None]
    level_weight = calibration.weights.level * LEVEL_SLOPE / LEVEL_NOISE
    level_precision = level_weight * LEVEL_SLOPE
    inverse = precision * laplacian
    inverse += level_precision * sums
    np.einsum("gii->gi", inverse)[...] += 1
    invert(inverse)  # until here it was the system
    own = level_weight * batch.sum_by_rollout(levels, levels)

    def solve(corrected: Floats) -> Floats:
        leads = shares[0] * (batch.score_1 - batch.score_2 - calibration.gap_bias * corrected)
        leads += shares[1] * (MIDDLE_RANKING - batch.ranking - calibration.ranking_bias * corrected)
        leads *= slope / noise
        right = batch.sum_by_rollout(leads, -leads) + own
        return np.asarray((inverse @ right[..., None])[..., 0], dtype=np.float64)

    corrected = batch.corrected()
    solution = solve(corrected)
    apart = batch.differences(solution)
    closeness = 1 / np.cosh(_CLOSE * apart) ** 2
    solution = solve(corrected * closeness / np.maximum(batch.means(closeness), 1e-3))
    errors = None
    if calibration.noise is not None:
        judge = calibration.noise
        weight = slope / noise
        seen = weight * judge.slope * laplacian
        seen += level_weight * judge.level_slope * sums
        noisy = weight**2 * judge.noise * laplacian
        noisy += level_weight**2 * judge.level_noise * sums
        del laplacian, sums
        noisy += position_noise(batch, weight**2 * judge.prompt)
        limit = weight * judge.slope / precision
        errors = errors_of(batch, solution, inverse, seen, noisy, limit)
        errors = errors._replace(variances=_QUALITY_POINTS**2 * errors.variances)
    base_scores = rounded_array(mean_scores + _QUALITY_POINTS * solution)
    return BatchEstimate(base_scores, counts > 0, errors)


def weigh_alone(batch: VerdictBatch) -> Floats:
    """Return [G, n] the base scores, less their mean, by each group's verdicts alone.

    The shrunk mean lead of a group's verdicts counts as the judge's position preference. A rollout
    without a verdict has 0. The scores are rounded, because further pairs are planned from them."""
    verdicts = batch.valid.sum(axis=1, keepdims=True) + _UNBIASED_ALONE
    gaps = ((batch.score_1 - batch.score_2) * batch.valid).sum(axis=1, keepdims=True) / verdicts
    leads = ((MIDDLE_RANKING - batch.ranking) * batch.valid).sum(axis=1, keepdims=True) / verdicts
    first = batch.score_1 - gaps / 2
    second = batch.score_2 + gaps / 2
    even = replace(batch, score_1=first, score_2=second, ranking=batch.ranking + leads)
    made = fit_qualities(even, Calibration())
    centred = made.base_scores - scored_means(made.base_scores, made.scored)
    return rounded_array(np.where(made.scored, centred, 0.0))
