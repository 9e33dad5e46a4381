"""Strengths of rollouts from wins or labels, with a prior that keeps them finite and a term for the
position.
"""

import math
from dataclasses import dataclass

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.judge_noise import WinNoise
from genrm_cli.rewards.estimators.labels import LabelModel, values_of
from genrm_cli.rewards.estimators.least_squares import (
    Spread,
    chances_of,
    laplacian_of,
    reliabilities_of,
    spread_of,
)
from genrm_cli.rewards.estimators.newton import ascend
from genrm_cli.rewards.estimators.verdict_batch import (
    BatchEstimate,
    Flags,
    Floats,
    VerdictBatch,
    inverse_of,
    rounded_array,
)

TOLERANCE = 1e-10  # of the gradient, in verdicts
_LEAST_STEEPNESS = 1e-3  # of a group without verdicts, or of verdicts that are all certain
PRIOR_VARIANCE = 4.0  # of a log strength
# base score of one deviation of strength: with few verdicts, 0.7 of one of quality, as with scores
_LABEL_POINTS = 1.0
_LABEL_FLATTENING = (
    1.157  # ties bring the share of first places nearer to a half than in the Bradley-Terry model
)


@dataclass(frozen=True, slots=True)
class Choices:
    """A judge that chooses value v with probability proportional to weight_v exp(v (x_i - x_j +
    position)).

    Two values without weights are the Bradley-Terry model, three are Davidson's with ties, more the
    adjacent-category logit model.

    Attributes:
        values: of the choices, symmetric about 0; the log odds of the outer two of -0.5 and 0.5 are
            the advantage.
        log_weights: of the values.
        position: advantage of the first.
        spread: standard deviation of the normal prior of the strengths x.

    Source: R. R. Davidson, J. Am. Stat. Assoc. 65 (1970) 317; A. Agresti, Categorical Data Analysis
    (adjacent-category logits).
    """

    values: tuple[float, ...]
    log_weights: tuple[float, ...]
    position: float
    spread: float

    def moments(self, advantages: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the logarithm of the sum of all odds, the mean of the choice and its variance, for
        any array.
        """
        values = np.array(self.values)
        odds = advantages[..., None] * values + np.array(self.log_weights)
        top = odds.max(axis=-1, keepdims=True)
        odds = np.exp(odds - top)
        total = odds.sum(axis=-1)
        mean = odds @ values / total
        return (
            np.log(total) + top[..., 0],
            mean,
            np.maximum(0.0, odds @ values**2 / total - mean**2),
        )


def fit_bradley_terry(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Return 3 + x / 2 with the log strengths x, for which P(first wins) = 1 / (1 + exp(-(x_i - x_j
    + position))).

    Log strengths have a normal prior with a standard deviation of 2, so that a perfect order or a
    disconnected graph has a finite solution; halved, their spread is about that of scores. An even
    verdict is half a win for both. `position` is the run's: a position term per group would explain
    a rollout's wins by where it was shown.

    Source: R. A. Bradley and M. E. Terry, Biometrika 39 (1952) 324; position term: R. R. Davidson
    and R. J. Beaver, Biometrics 33 (1977) 693; normal prior: T. Leonard, Biometrics 33 (1977) 121.
    """
    position = position_log_odds(calibration.first_share)
    choices = Choices((-0.5, 0.5), (0.0, 0.0), position, math.sqrt(PRIOR_VARIANCE))
    wins = calibration.win_noise
    noise = None if wins is None else WinNoise(wins.signal / 4, wins.noise / 4)
    return fit_strengths(batch, np.sign(batch.preferences()) / 2, choices, noise, points=0.5)


def fit_labels(batch: VerdictBatch, calibration: Calibration, labels: LabelModel) -> BatchEstimate:
    """Fit strengths to the labels of a judge, with a fixed model of them."""
    position = _LABEL_FLATTENING * position_log_odds(calibration.first_share)
    choices = Choices(*labels, position, math.sqrt(PRIOR_VARIANCE))
    points = _LABEL_POINTS / choices.spread
    return fit_strengths(batch, values_of(batch), choices, calibration.label_noise, points=points)


def position_log_odds(first_share: float) -> float:
    """Return the log odds that the first of two equal rollouts wins, if the first of any two wins
    in this share.

    Rollouts differ as the prior says, which brings the share nearer to a half than it is for equal
    ones.

    Source: S. L. Zeger, K.-Y. Liang, P. S. Albert, Biometrics 44 (1988) 1049, for the mean of a
    logistic curve over a normal distribution."""
    flattening = (16 * math.sqrt(3) / (15 * math.pi)) ** 2
    return math.log(first_share / (1 - first_share)) * math.sqrt(
        1 + flattening * 2 * PRIOR_VARIANCE
    )


def fit_strengths(
    batch: VerdictBatch,
    outcomes: Floats,
    choices: Choices,
    noise: WinNoise | None,
    *,
    points: float,
) -> BatchEstimate:
    """Return 3 + points * x with the strengths x at the maximum of the posterior.

    Standard errors are those of a linear solution with the curvature at the maximum; reliabilities
    are those of Newton's first step, in which strengths follow outcomes linearly.

    Args:
        outcomes: the choice that each verdict stands for, [G, M]; may lie between the values, or
            beyond.
        choices: model of the judge.
        noise: of the outcomes; None if it is unknown.
        points: by which a strength of 1 raises the base score.
    """
    strengths, converged = _maximise(batch, outcomes, choices)
    scored = batch.counts() > 0
    variances = np.zeros_like(strengths)
    reliabilities = np.zeros(batch.groups)
    chances = np.ones(batch.groups)
    if noise is not None:
        of_position = choices.position * batch.corrected()
        _, _, steepness = choices.moments(_leads(batch, strengths) + of_position)
        variances = _spread(batch, steepness, choices, noise)[1].variances
        _, mean, steepness = choices.moments(of_position)
        inverse, spread = _spread(batch, steepness, choices, noise)
        right = batch.sum_by_rollout(outcomes - mean, mean - outcomes)
        first_step = (inverse @ right[..., None])[..., 0]
        reliabilities = reliabilities_of(first_step, spread, scored)
        chances = chances_of(first_step, spread)
    known = np.full(batch.groups, noise is not None)
    return BatchEstimate(
        base_scores=rounded_array(3.0 + points * strengths),
        scored=scored,
        variances=points**2 * variances,
        known=known,
        reliabilities=reliabilities,
        chances=chances,
        assessed=known,
        converged=converged,
    )


def _maximise(batch: VerdictBatch, outcomes: Floats, choices: Choices) -> tuple[Floats, Flags]:
    """Maximise the posterior; return strengths [G, n], converged [G]."""
    of_position = choices.position * batch.corrected()
    strengths, slope = ascend(
        lambda solution: _surface(batch, outcomes, choices, solution, of_position),
        lambda spread: _curvature(batch, spread, choices),
        np.zeros((batch.groups, batch.n)),
        TOLERANCE,
    )
    return strengths, np.abs(slope).max(axis=1, initial=0.0) <= TOLERANCE


def _surface(
    batch: VerdictBatch, outcomes: Floats, choices: Choices, strengths: Floats, of_position: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the logarithm of the posterior up to a constant [G], its slope [G, n] and each
    outcome's variance.
    """
    advantages = _leads(batch, strengths) + of_position
    total, mean, spread = choices.moments(advantages)
    likelihood = outcomes * advantages - total
    height = (likelihood * batch.valid).sum(axis=1) - (strengths**2).sum(axis=1) / (
        2 * choices.spread**2
    )
    surprise = outcomes - mean
    return height, batch.sum_by_rollout(surprise, -surprise) - strengths / choices.spread**2, spread


def _leads(batch: VerdictBatch, strengths: Floats) -> Floats:
    """Return [G, M] how far the first is ahead of the second."""
    of_first = np.take_along_axis(strengths, batch.first, axis=1)
    leads: Floats = of_first - np.take_along_axis(strengths, batch.second, axis=1)
    return leads


def _curvature(batch: VerdictBatch, spread: Floats, choices: Choices) -> Floats:
    """Return [G, n, n] the negative second derivative of the logarithm of the posterior."""
    own = batch.sum_by_rollout(spread, spread) + 1 / choices.spread**2
    return own[:, :, None] * np.eye(batch.n) - batch.sum_by_pair(spread)


def _spread(
    batch: VerdictBatch, steepness: Floats, choices: Choices, noise: WinNoise
) -> tuple[Floats, Spread]:
    """Return the inverse and the spread of a linear solution whose outcomes have this slope in the
    strengths.
    """
    inverse = inverse_of(_curvature(batch, steepness, choices))
    laplacian = laplacian_of(batch)
    slope = math.sqrt(noise.signal)
    limits = slope / np.maximum(batch.means(steepness), _LEAST_STEEPNESS)[..., None]
    return inverse, spread_of(batch, inverse, slope * laplacian, noise.noise * laplacian, limits)
