"""Who was preferred to whom → strengths, with a prior that keeps them finite and a term for the first place."""

import math

import numpy as np

from genrm_cli.rewards.estimators.combined import laplacian_of, linear_reliabilities
from genrm_cli.rewards.estimators.judge_fit import JudgeFit, WinNoise
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, Flags, Floats, VerdictBatch, inverse_of

MAX_STEPS = 50
TOLERANCE = 1e-10  # of the gradient, in verdicts
PRIOR_VARIANCE = 4.0  # of a log strength
_MAX_HALVINGS = 30


def fit_bradley_terry(batch: VerdictBatch, fit: JudgeFit) -> BatchEstimate:
    """Return 3 + x / 2 with the log strengths x, for which P(first wins) = 1 / (1 + exp(-(x_i - x_j + place))).

    Log strengths come from a normal distribution of standard deviation 2, so that a perfect order, or a graph that is
    not connected, has a finite solution; halved, they are about as far apart as scores. An even verdict is half a win
    for both. Standard errors are those of the normal distribution that fits the posterior best at its top. `place` is
    the run's: a group's own would explain a rollout's win by where it stood.

    Source: R. A. Bradley and M. E. Terry, Biometrika 39 (1952) 324; position term: R. R. Davidson and R. J. Beaver,
    Biometrics 33 (1977) 693; normal prior: T. Leonard, Biometrics 33 (1977) 121.
    """
    wins, place = (np.sign(batch.leads()) + 1) / 2, place_log_odds(fit.first_share)
    strengths, converged = _maximise(batch, wins, place)
    scored = batch.counts() > 0
    inverse = inverse_of(_curvature(batch, _chances(_advantages(batch, strengths, place))))
    variances = _centred_variances(inverse, scored) / 4
    reliabilities = (
        np.zeros(batch.groups) if fit.win_noise is None else _reliabilities(batch, wins, place, fit.win_noise)
    )
    return BatchEstimate(
        base_scores=3.0 + strengths / 2,
        scored=scored,
        variances=variances,
        known=np.ones(batch.groups, dtype=np.bool_),
        reliabilities=reliabilities,
        assessed=np.full(batch.groups, fit.win_noise is not None),
        converged=converged,
    )


def place_log_odds(first_share: float) -> float:
    """Return the log odds that the first of two equal rollouts wins, if the first of any two wins in this share.

    Rollouts differ as the prior says, which brings the share nearer to a half than it is for equal ones.

    Args:
        first_share: more than 0 and less than 1.

    Source: S. L. Zeger, K.-Y. Liang, P. S. Albert, Biometrics 44 (1988) 1049, for the mean of a logistic curve over a
    normal distribution.
    """
    flattening = (16 * math.sqrt(3) / (15 * math.pi)) ** 2
    return math.log(first_share / (1 - first_share)) * math.sqrt(1 + flattening * 2 * PRIOR_VARIANCE)


def _maximise(batch: VerdictBatch, wins: Floats, place: float) -> tuple[Floats, Flags]:
    """Climb to the top of the posterior by Newton's steps, halved while they overshoot; [G, n] and [G]."""
    solution = np.zeros((batch.groups, batch.n))
    height, slope = _height(batch, wins, place, solution), _slope(batch, wins, place, solution)
    for _ in range(MAX_STEPS):
        moving = np.abs(slope).max(axis=1, initial=0.0) > TOLERANCE
        if not moving.any():
            break
        curvature = _curvature(batch, _chances(_advantages(batch, solution, place)))
        step = np.linalg.solve(curvature, slope[..., None])[..., 0] * moving[:, None]
        for _ in range(_MAX_HALVINGS):
            reached = _height(batch, wins, place, solution + step)
            # Near the top heights differ by rounding only; a step that loses no more than that is good.
            lower = reached < height - 1e-12 * (1 + np.abs(height))
            if not lower.any():
                break
            step[lower] /= 2
        solution, height = solution + step, reached
        slope = _slope(batch, wins, place, solution)
    return solution, np.abs(slope).max(axis=1, initial=0.0) <= TOLERANCE


def _reliabilities(batch: VerdictBatch, wins: Floats, place: float, noise: WinNoise) -> Floats:
    """Return [G] the reliabilities of Newton's first step, in which strengths follow wins linearly."""
    even = _chances(np.full_like(wins, place))
    inverse = inverse_of(_curvature(batch, even))
    surprise, laplacian = wins - even, laplacian_of(batch)
    first_step = (inverse @ batch.sum_by_rollout(surprise, -surprise)[..., None])[..., 0]
    seen = inverse @ laplacian
    slope, variance = math.sqrt(noise.signal) / 2, noise.noise / 4
    return linear_reliabilities(first_step, slope * seen, variance * (seen * inverse).sum(axis=2), batch.counts() > 0)


def _advantages(batch: VerdictBatch, strengths: Floats, place: float) -> Floats:
    """Return [G, M] the log odds that the first wins."""
    of_first = np.take_along_axis(strengths, batch.first, axis=1)
    return of_first - np.take_along_axis(strengths, batch.second, axis=1) + place


def _chances(advantages: Floats) -> Floats:
    chances: Floats = np.exp(-np.logaddexp(0.0, -advantages))
    return chances


def _height(batch: VerdictBatch, wins: Floats, place: float, strengths: Floats) -> Floats:
    """Return [G] the logarithm of the posterior, but for a constant."""
    advantages = _advantages(batch, strengths, place)
    likelihood = wins * advantages - np.logaddexp(0.0, advantages)
    height: Floats = (likelihood * batch.there).sum(axis=1) - (strengths**2).sum(axis=1) / (2 * PRIOR_VARIANCE)
    return height


def _slope(batch: VerdictBatch, wins: Floats, place: float, strengths: Floats) -> Floats:
    surprise = wins - _chances(_advantages(batch, strengths, place))
    return batch.sum_by_rollout(surprise, -surprise) - strengths / PRIOR_VARIANCE


def _curvature(batch: VerdictBatch, chances: Floats) -> Floats:
    """Return [G, n, n] the negative second derivative of the logarithm of the posterior."""
    spread = chances * (1 - chances)
    own = batch.sum_by_rollout(spread, spread) + 1 / PRIOR_VARIANCE
    return own[:, :, None] * np.eye(batch.n) - batch.sum_by_pair(spread)


def _centred_variances(covariances: Floats, scored: Flags) -> Floats:
    """Return [G, n] the variance of each strength less the mean of the scored ones."""
    n = np.maximum(scored.sum(axis=1), 1)[:, None]
    with_mean = np.where(scored[:, None, :], covariances, 0.0).sum(axis=2) / n
    of_mean = np.where(scored, with_mean, 0.0).sum(axis=1, keepdims=True) / n
    variances: Floats = np.diagonal(covariances, axis1=1, axis2=2) - 2 * with_mean + of_mean
    return variances
