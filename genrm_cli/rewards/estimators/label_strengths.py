"""Strengths of rollouts from the labels of a judge, with a prior that keeps them finite and a term
for the position.

The judge chooses a label of value v with a probability proportional to weight_v exp(v (x_i - x_j +
position)): the adjacent-category logit model. Two labels without weights are the Bradley-Terry
model, three are Davidson's with ties.

Source: R. R. Davidson, J. Am. Stat. Assoc. 65 (1970) 317; A. Agresti, Categorical Data Analysis
(adjacent-category logits); position: R. R. Davidson and R. J. Beaver, Biometrics 33 (1977) 693;
normal prior: T. Leonard, Biometrics 33 (1977) 121.
"""

import math

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimate_errors import (
    BatchEstimate,
    Errors,
    errors_of,
    laplacian_of,
)
from genrm_cli.rewards.estimators.judge_noise import LabelNoise
from genrm_cli.rewards.estimators.labels import LabelModel, values_of
from genrm_cli.rewards.estimators.newton import ascend
from genrm_cli.rewards.estimators.verdict_batch import (
    Floats,
    VerdictBatch,
    inverse_of,
    rounded_array,
)

_TOLERANCE = 1e-10  # of the gradient, in verdicts: base scores have 9 digits
_LEAST_STEEPNESS = 1e-3  # of a group without verdicts, or of verdicts that are all certain
PRIOR_VARIANCE = 4.0  # of a log strength
# Base score of a strength of 1: with few verdicts, 0.7 of a deviation of quality, as with scores.
_POINTS = 0.5
_FLATTENING = (
    1.157  # ties bring the share of first places nearer to a half than in the Bradley-Terry model
)


def fit_labels(batch: VerdictBatch, calibration: Calibration, labels: LabelModel) -> BatchEstimate:
    """Return 3 + x / 2 with the strengths x at the maximum of the posterior, of a fixed model of
    labels.

    `position` is the run's: a position term per group would explain a rollout's wins by where it
    was shown."""
    outcomes = values_of(batch)
    position = _FLATTENING * position_log_odds(calibration.first_share) * batch.corrected()

    def surface(strengths: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log posterior [G], its slope [G, n] and the variance of each label."""
        advantages = _leads(batch, strengths) + position
        total, mean, variance = _moments(advantages, labels)
        likelihood = ((outcomes * advantages - total) * batch.valid).sum(axis=1)
        height = likelihood - (strengths**2).sum(axis=1) / (2 * PRIOR_VARIANCE)
        surprise = outcomes - mean
        slope = batch.sum_by_rollout(surprise, -surprise) - strengths / PRIOR_VARIANCE
        return height, slope, variance

    start = np.zeros((batch.groups, batch.n))
    strengths, _ = ascend(surface, lambda spread: _curvature(batch, spread), start, _TOLERANCE)
    errors = None
    noise = calibration.label_noise
    if noise is not None:
        # Standard errors are those of a linear solution with the curvature at the maximum;
        # reliabilities those of Newton's first step, in which strengths follow labels linearly.
        _, _, steepness = _moments(_leads(batch, strengths) + position, labels)
        at_top = _errors(batch, steepness, noise, strengths)
        _, mean, steepness = _moments(position, labels)
        right = batch.sum_by_rollout(outcomes - mean, mean - outcomes)
        first_step = (inverse_of(_curvature(batch, steepness)) @ right[..., None])[..., 0]
        errors = _errors(batch, steepness, noise, first_step)
        errors = errors._replace(variances=_POINTS**2 * at_top.variances)
    base_scores = rounded_array(3.0 + _POINTS * strengths)
    return BatchEstimate(base_scores, batch.counts() > 0, errors)


def position_log_odds(first_share: float) -> float:
    """Return the log odds that the first of two equal rollouts wins, if the first of any two wins
    in this share.

    Rollouts differ as the prior says, which brings the share nearer to a half than it is for equal
    ones.

    Source: S. L. Zeger, K.-Y. Liang, P. S. Albert, Biometrics 44 (1988) 1049, for the mean of a
    logistic curve over a normal distribution."""
    flattening = (16 * math.sqrt(3) / (15 * math.pi)) ** 2
    log_odds = math.log(first_share / (1 - first_share))
    return log_odds * math.sqrt(1 + flattening * 2 * PRIOR_VARIANCE)


def _moments(advantages: Floats, labels: LabelModel) -> tuple[Floats, Floats, Floats]:
    """Return the logarithm of the sum of all odds, the mean of the label and its variance, for any
    array.
    """
    values, log_weights = np.array(labels)
    odds = advantages[..., None] * values + log_weights
    top = odds.max(axis=-1, keepdims=True)
    odds = np.exp(odds - top)
    total = odds.sum(axis=-1)
    mean = odds @ values / total
    variance = np.maximum(0.0, odds @ values**2 / total - mean**2)
    return np.log(total) + top[..., 0], mean, variance


def _leads(batch: VerdictBatch, strengths: Floats) -> Floats:
    """Return [G, M] how far the first is ahead of the second."""
    of_first = np.take_along_axis(strengths, batch.first, axis=1)
    leads: Floats = of_first - np.take_along_axis(strengths, batch.second, axis=1)
    return leads


def _curvature(batch: VerdictBatch, variances: Floats) -> Floats:
    """Return [G, n, n] the negative second derivative of the log posterior."""
    own = batch.sum_by_rollout(variances, variances) + 1 / PRIOR_VARIANCE
    return own[:, :, None] * np.eye(batch.n) - batch.sum_by_pair(variances)


def _errors(batch: VerdictBatch, steepness: Floats, noise: LabelNoise, solution: Floats) -> Errors:
    """Return the errors of a linear solution whose labels have this slope in the strengths."""
    laplacian = laplacian_of(batch)
    slope = math.sqrt(noise.signal)
    limit = slope / np.maximum(batch.means(steepness), _LEAST_STEEPNESS)[..., None]
    inverse = inverse_of(_curvature(batch, steepness))
    return errors_of(batch, solution, inverse, slope * laplacian, noise.noise * laplacian, limit)
