"""Fit strengths to wins or labels, with a prior and a term for the position in the prompt."""

import math

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.judge_noise import WinNoise
from genrm_cli.rewards.estimators.labels import Choices, choices_of, values_of
from genrm_cli.rewards.estimators.least_squares import adapt
from genrm_cli.rewards.estimators.strengths import fit_strengths
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, VerdictBatch

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

    The model starts from a typical judge of labels, and every label moves it, and the rewards with it.
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
