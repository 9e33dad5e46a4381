"""The accuracy of base scores: how qualities and noise pass through a linear estimator.

An estimator maps the right side of a linear system to base scores. The right side depends on the
qualities (`seen`) and on the judge's noise (`noisy`), so that errors follow from how this judge
responds to any group with these comparisons, not from the assumptions of the estimator.
"""

import math
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, VerdictBatch


class Errors(NamedTuple):
    """The accuracy of the base scores of G groups.

    Attributes:
        variances: [G, n], squared standard errors, of the base score against the mean of the
            group's scored ones.
        reliabilities: [G], share of the spread of the base scores that is signal, 0 to 1: the
            expected squared correlation, beyond that by chance, with what the judge would say in
            the limit of many verdicts.
        chances: [G], probability that a group of equal qualities spreads as much.
    """

    variances: Floats
    reliabilities: Floats
    chances: Floats


class BatchEstimate(Struct, frozen=True):
    """The result of an estimator for a batch.

    Attributes:
        base_scores: [G, n].
        scored: [G, n], whether the rollout has a base score, which has no meaning otherwise: all
            with a verdict.
        errors: None if the noise of the judge is unknown.
    """

    base_scores: Floats
    scored: Flags
    errors: Errors | None = None


def errors_of(
    batch: VerdictBatch,
    solution: Floats,
    inverse: Floats,
    seen: Floats,
    noisy: Floats,
    limit: float,
) -> Errors:
    """Return the errors of a linear solution.

    Args:
        batch: the verdicts.
        solution: [G, n], which sums to 0 in each group.
        inverse: [G, n, n], maps the right side of the system to the solution.
        seen: [G, n, n], maps qualities of variance 1 to the right side.
        noisy: [G, n, n], covariance of the right side, given the qualities.
        limit: the solution for a quality of 1, in the limit of many verdicts.
    """
    scored = batch.counts() > 0
    members = scored.sum(axis=1)
    passed = inverse @ seen
    shared = np.maximum(0.0, np.trace(passed, axis1=1, axis2=2))
    total = _square_sums(passed).sum(axis=1)
    # Less the solution without noise and shrinking: the qualities, less the mean of those scored.
    # In place: a matrix of a group of 2,048 takes 32 MB.
    passed += scored[:, :, None] * (limit * scored / np.maximum(members, 1)[:, None])[:, None, :]
    np.einsum("gii->gi", passed)[...] -= limit * scored
    shrinking = _square_sums(passed)
    del passed
    covariance = inverse @ noisy @ inverse.swapaxes(1, 2)
    # Variances; rounding may leave a little less than 0.
    errors = np.maximum(0.0, np.diagonal(covariance, axis1=1, axis2=2))
    total += errors.sum(axis=1)
    # The solution is shrunk to the mean by the amount that suits this judge; the variance of such
    # predictions is their reliability. Source: T. L. Kelley, Statistical Method (1923).
    kept = np.divide(shared, total, out=np.zeros_like(shared), where=total > 0)
    missed = np.maximum(0.0, np.maximum(members - 1, 0) - kept * shared)
    return Errors(
        variances=shrinking + errors,
        reliabilities=signal_share(((kept[:, None] * solution) ** 2).sum(axis=1), missed),
        chances=_chances(solution, errors.sum(axis=1), _square_sums(covariance).sum(axis=1)),
    )


def _square_sums(matrices: Floats) -> Floats:
    """Return [G, n] the sums of the squares of each row of [G, n, n]."""
    sums: Floats = np.einsum("gij,gij->gi", matrices, matrices)
    return sums


def _chances(solution: Floats, noise: Floats, noise_square: Floats) -> Floats:
    """Return [G] the probability that a group of equal qualities spreads as much as this solution
    [G, n]; 1 without noise or spread.

    Source: F. E. Satterthwaite (1946), An Approximate Distribution of Estimates of Variance
    Components; E. B. Wilson and M. M. Hilferty (1931), The Distribution of Chi-Square."""
    is_known = (noise > 0) & (noise_square > 0)
    noise = np.where(is_known, noise, 1.0)
    freedom = np.where(is_known, noise**2 / np.where(is_known, noise_square, 1.0), 1.0)
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


def position_noise(batch: VerdictBatch, variance: float) -> Floats:
    """Return [G, n, n] what an effect of the position, of this variance, adds to the covariance of
    sums: nothing where rollouts were shown first as often as second.
    """
    ones = np.ones_like(batch.score_1)
    imbalance = batch.sum_by_rollout(ones, -ones)
    return variance * imbalance[:, :, None] * imbalance[:, None, :]
