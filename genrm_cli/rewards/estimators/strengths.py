"""Strengths of rollouts from wins or labels, with a prior that keeps them finite and a term for the position."""

import math

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.judge_noise import WinNoise
from genrm_cli.rewards.estimators.labels import Choices, choices_of, values_of
from genrm_cli.rewards.estimators.least_squares import adapt, laplacian_of, linear_reliabilities
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, Flags, Floats, VerdictBatch, inverse_of

MAX_STEPS = 50
TOLERANCE = 1e-10  # of the gradient, in verdicts
_MAX_HALVINGS = 30
PRIOR_VARIANCE = 4.0  # of a log strength
_LABEL_POINTS = 0.7  # base score of one standard deviation of strength


def fit_bradley_terry(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Return 3 + x / 2 with the log strengths x, for which P(first wins) = 1 / (1 + exp(-(x_i - x_j + position))).

    Log strengths have a normal prior with a standard deviation of 2, so that a perfect order or a disconnected graph
    has a finite solution; halved, their spread is about that of scores. An even verdict is half a win for both.
    `position` is the run's: a position term per group would explain a rollout's wins by where it was shown.

    Source: R. A. Bradley and M. E. Terry, Biometrika 39 (1952) 324; position term: R. R. Davidson and R. J. Beaver,
    Biometrics 33 (1977) 693; normal prior: T. Leonard, Biometrics 33 (1977) 121.
    """
    position = position_log_odds(calibration.first_share)
    choices = Choices((-0.5, 0.5), (0.0, 0.0), position, math.sqrt(PRIOR_VARIANCE))
    wins = calibration.win_noise
    noise = None if wins is None else WinNoise(wins.signal / 4, wins.noise / 4)
    outcomes = np.sign(batch.preferences()) / 2
    return fit_strengths(batch, outcomes, choices, noise, points=0.5, assessed=noise is not None)


def fit_labels(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Fit strengths to the labels of a judge, with a model of them; with a judge of scores, as `adapt`.

    The model starts from a typical judge of labels. Every label moves it, and thereby the rewards.
    """
    if calibration.labels is None:
        return adapt(batch, calibration)
    choices, noise = choices_of(calibration.labels), calibration.label_noise
    points = _LABEL_POINTS / choices.spread
    return fit_strengths(batch, values_of(batch), choices, noise, points=points, assessed=noise is not None)


def position_log_odds(first_share: float) -> float:
    """Return the log odds that the first of two equal rollouts wins, if the first of any two wins in this share.

    Rollouts differ as the prior says, which brings the share nearer to a half than it is for equal ones.

    Args:
        first_share: more than 0 and less than 1.

    Source: S. L. Zeger, K.-Y. Liang, P. S. Albert, Biometrics 44 (1988) 1049, for the mean of a logistic curve over a
    normal distribution.
    """
    flattening = (16 * math.sqrt(3) / (15 * math.pi)) ** 2
    return math.log(first_share / (1 - first_share)) * math.sqrt(1 + flattening * 2 * PRIOR_VARIANCE)


def fit_strengths(
    batch: VerdictBatch, outcomes: Floats, choices: Choices, noise: WinNoise | None, *, points: float, assessed: bool
) -> BatchEstimate:
    """Return 3 + points * x with the strengths x at the maximum of the posterior.

    Standard errors come from the normal approximation of the posterior at its maximum (Laplace).

    Args:
        batch: the verdicts.
        outcomes: the choice that each verdict stands for, [G, M]; may lie between the values.
        choices: model of the judge.
        noise: of the outcomes; None if it is unknown.
        points: by which a strength of 1 raises the base score.
        assessed: whether reliabilities are known.
    """
    strengths, converged = _maximise(batch, outcomes, choices)
    scored = batch.counts() > 0
    _, _, spread = choices.moments(_advantages(batch, strengths, choices))
    variances = _variances(batch, spread, choices, scored)
    reliabilities = np.zeros(batch.groups) if noise is None else _reliabilities(batch, outcomes, choices, noise)
    return BatchEstimate(
        base_scores=3.0 + points * strengths,
        scored=scored,
        variances=points**2 * variances,
        known=np.ones(batch.groups, dtype=np.bool_),
        reliabilities=reliabilities,
        assessed=np.full(batch.groups, assessed),
        converged=converged,
    )


def _maximise(batch: VerdictBatch, outcomes: Floats, choices: Choices) -> tuple[Floats, Flags]:
    """Maximise the posterior by Newton steps, halved while they overshoot; return strengths [G, n], converged [G]."""
    solution = np.zeros((batch.groups, batch.n))
    height, slope, spread = _surface(batch, outcomes, choices, solution)
    for _ in range(MAX_STEPS):
        moving = np.abs(slope).max(axis=1, initial=0.0) > TOLERANCE
        if not moving.any():
            break
        curvature = _curvature(batch, spread, choices)
        step = np.linalg.solve(curvature, slope[..., None])[..., 0] * moving[:, None]
        for _ in range(_MAX_HALVINGS):
            reached, new_slope, new_spread = _surface(batch, outcomes, choices, solution + step)
            # Near the top heights differ by rounding only; a step that loses no more than that is good.
            lower = reached < height - 1e-12 * (1 + np.abs(height))
            if not lower.any():
                break
            step[lower] /= 2
        solution, height, slope, spread = solution + step, reached, new_slope, new_spread
    return solution, np.abs(slope).max(axis=1, initial=0.0) <= TOLERANCE


def _surface(
    batch: VerdictBatch, outcomes: Floats, choices: Choices, strengths: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the logarithm of the posterior up to a constant [G], its slope [G, n] and each outcome's variance."""
    advantages = _advantages(batch, strengths, choices)
    total, mean, spread = choices.moments(advantages)
    likelihood = outcomes * advantages - total
    height = (likelihood * batch.valid).sum(axis=1) - (strengths**2).sum(axis=1) / (2 * choices.spread**2)
    surprise = outcomes - mean
    return height, batch.sum_by_rollout(surprise, -surprise) - strengths / choices.spread**2, spread


def _reliabilities(batch: VerdictBatch, outcomes: Floats, choices: Choices, noise: WinNoise) -> Floats:
    """Return [G] the reliabilities of Newton's first step, in which strengths follow outcomes linearly."""
    _, mean, spread = choices.moments(np.full_like(outcomes, choices.position))
    surprise = outcomes - mean
    right = batch.sum_by_rollout(surprise, -surprise)
    return linear_reliabilities(*_response(batch, spread, choices, right, noise), batch.counts() > 0)


def _advantages(batch: VerdictBatch, strengths: Floats, choices: Choices) -> Floats:
    """Return [G, M] the log odds that the first wins."""
    of_first = np.take_along_axis(strengths, batch.first, axis=1)
    return of_first - np.take_along_axis(strengths, batch.second, axis=1) + choices.position


def _curvature(batch: VerdictBatch, spread: Floats, choices: Choices) -> Floats:
    """Return [G, n, n] the negative second derivative of the logarithm of the posterior."""
    own = batch.sum_by_rollout(spread, spread) + 1 / choices.spread**2
    return own[:, :, None] * np.eye(batch.n) - batch.sum_by_pair(spread)


def _variances(batch: VerdictBatch, spread: Floats, choices: Choices, scored: Flags) -> Floats:
    """Return [G, n] the variance of each strength less the mean of the scored ones."""
    covariances = inverse_of(_curvature(batch, spread, choices))
    n = np.maximum(scored.sum(axis=1), 1)[:, None]
    with_mean = np.where(scored[:, None, :], covariances, 0.0).sum(axis=2) / n
    of_mean = np.where(scored, with_mean, 0.0).sum(axis=1, keepdims=True) / n
    variances: Floats = np.diagonal(covariances, axis1=1, axis2=2) - 2 * with_mean + of_mean
    return variances


def _response(
    batch: VerdictBatch, spread: Floats, choices: Choices, right: Floats, noise: WinNoise
) -> tuple[Floats, Floats, Floats]:
    """Return the solution, `shared` and `total` of `linear_reliabilities` for a linear system with this curvature."""
    inverse = inverse_of(_curvature(batch, spread, choices))
    solution = (inverse @ right[..., None])[..., 0]
    passed_on = inverse @ laplacian_of(batch)
    seen, noisy = noise.signal**0.5 * passed_on, noise.noise * (passed_on * inverse).sum(axis=2)
    return solution, np.trace(seen, axis1=1, axis2=2), (seen**2).sum(axis=(1, 2)) + noisy.sum(axis=1)
