"""Who was preferred to whom → strengths, with a prior that keeps them finite and a term for the first place."""

import numpy as np

from genrm_cli.rewards.estimators.combined import shrunk_reliabilities
from genrm_cli.rewards.estimators.judge_fit import JudgeFit
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, Flags, Floats, VerdictBatch, inverse_of

MAX_STEPS = 50
TOLERANCE = 1e-10  # of the gradient, in verdicts
_MAX_HALVINGS = 30
_PRIOR = 0.25  # one over the variance, 4, of a strength before any verdict


def fit_bradley_terry(batch: VerdictBatch, _: JudgeFit) -> BatchEstimate:
    """Return 3 + x / 2 with the log strengths x, for which P(first wins) = 1 / (1 + exp(-(x_i - x_j + place))).

    Log strengths, and the advantage of the first place, which each group has its own, are taken from a normal
    distribution of standard deviation 2, so that a perfect order, or a graph that is not connected, has a finite
    solution; halved, they are about as far apart as scores. An even verdict is half a win for both. Standard errors are
    those of the normal distribution that fits the posterior best at its top.

    Source: R. A. Bradley and M. E. Terry, Biometrika 39 (1952) 324; position term: R. R. Davidson and R. J. Beaver,
    Biometrics 33 (1977) 693; normal prior: T. Leonard, Biometrics 33 (1977) 121.
    """
    wins = (np.sign(batch.leads()) + 1) / 2
    solution, converged = _maximise(batch, wins)
    strengths, scored = solution[:, :-1], batch.counts() > 0
    chances = _chances(_advantages(batch, solution))
    inverse = inverse_of(_curvature(batch, chances))[:, :-1, :-1]
    variances = _centred_variances(inverse, scored) / 4
    return BatchEstimate(
        base_scores=3.0 + strengths / 2,
        scored=scored,
        variances=variances,
        known=np.ones(batch.groups, dtype=np.bool_),
        reliabilities=shrunk_reliabilities(strengths / 2, variances, scored),
        converged=converged,
    )


def _maximise(batch: VerdictBatch, wins: Floats) -> tuple[Floats, Flags]:
    """Climb to the top of the posterior by Newton's steps, halved while they overshoot; [G, n + 1] and [G]."""
    solution = np.zeros((batch.groups, batch.n + 1))
    height = _height(batch, wins, solution)
    slope = _slope(batch, wins, solution)
    for _ in range(MAX_STEPS):
        moving = np.abs(slope).max(axis=1, initial=0.0) > TOLERANCE
        if not moving.any():
            break
        curvature = _curvature(batch, _chances(_advantages(batch, solution)))
        step = np.linalg.solve(curvature, slope[..., None])[..., 0] * moving[:, None]
        for _ in range(_MAX_HALVINGS):
            reached = _height(batch, wins, solution + step)
            # Near the top heights differ by rounding only; a step that loses no more than that is good.
            lower = reached < height - 1e-12 * (1 + np.abs(height))
            if not lower.any():
                break
            step[lower] /= 2
        solution, height = solution + step, reached
        slope = _slope(batch, wins, solution)
    return solution, np.abs(slope).max(axis=1, initial=0.0) <= TOLERANCE


def _advantages(batch: VerdictBatch, solution: Floats) -> Floats:
    """Return [G, M] the log odds that the first wins."""
    of_first = np.take_along_axis(solution, batch.first, axis=1)
    return of_first - np.take_along_axis(solution, batch.second, axis=1) + solution[:, -1:]


def _chances(advantages: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -advantages))


def _height(batch: VerdictBatch, wins: Floats, solution: Floats) -> Floats:
    """Return [G] the logarithm of the posterior, but for a constant."""
    advantages = _advantages(batch, solution)
    likelihood = wins * advantages - np.logaddexp(0.0, advantages)
    height: Floats = (likelihood * batch.there).sum(axis=1) - _PRIOR * (solution**2).sum(axis=1) / 2
    return height


def _slope(batch: VerdictBatch, wins: Floats, solution: Floats) -> Floats:
    surprise = wins - _chances(_advantages(batch, solution))
    of_place = (surprise * batch.there).sum(axis=1, keepdims=True)
    return np.concatenate([batch.sum_by_rollout(surprise, -surprise), of_place], axis=1) - _PRIOR * solution


def _curvature(batch: VerdictBatch, chances: Floats) -> Floats:
    """Return [G, n + 1, n + 1] the negative second derivative of the logarithm of the posterior."""
    n, spread = batch.n, chances * (1 - chances)
    leanings = batch.sum_by_rollout(spread, -spread)
    curvature = np.tile(_PRIOR * np.eye(n + 1), (batch.groups, 1, 1))
    curvature[:, :n, :n] += batch.sum_by_rollout(spread, spread)[:, :, None] * np.eye(n) - batch.sum_by_pair(spread)
    curvature[:, :n, n] += leanings
    curvature[:, n, :n] += leanings
    curvature[:, n, n] += (spread * batch.there).sum(axis=1)
    return curvature


def _centred_variances(covariances: Floats, scored: Flags) -> Floats:
    """Return [G, n] the variance of each strength less the mean of the scored ones."""
    n = np.maximum(scored.sum(axis=1), 1)[:, None]
    with_mean = np.where(scored[:, None, :], covariances, 0.0).sum(axis=2) / n
    of_mean = np.where(scored, with_mean, 0.0).sum(axis=1, keepdims=True) / n
    variances: Floats = np.diagonal(covariances, axis1=1, axis2=2) - 2 * with_mean + of_mean
    return variances
