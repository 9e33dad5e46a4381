"""Predict the reliability of a run's rewards with more comparisons."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from genrm_cli.rewards.estimators import Calibration, VerdictBatch
from genrm_cli.rewards.estimators.judge_noise import JudgeNoise, Weights, WinNoise, weights_of
from genrm_cli.rewards.estimators.labels import choices_of
from genrm_cli.rewards.estimators.least_squares import expected_reliabilities
from genrm_cli.rewards.estimators.strengths import expected_of_labels
from genrm_cli.verdicts import MIDDLE_RANKING, MIN_SCORE

FORECAST = frozenset({"adaptive", "combined", "ordinal"})
"""The estimators whose reliability takes the opponents into account."""

MAX_SIZE = 64
_LEAST, _MOST = 1e-6, 1 - 1e-6
_LEAST_NOISE = 0.05
_WITHIN = NormalDist().inv_cdf(0.975)

Pairs = Sequence[tuple[int, int]]
"""The comparisons of a group, by index: first, second."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A predicted mean reliability with its 95 % interval, from the error of the signal measured in the run."""

    value: float
    low: float
    high: float


def forecast_reliability(
    estimator: str, n: int, made: Pairs, more: Pairs, reliability: float, calibration: Calibration
) -> Forecast | None:
    """Predict the mean reliability of groups of n rollouts with more comparisons.

    The Spearman-Brown formula would multiply the odds of signal by the ratio of the numbers of comparisons. That holds
    for independent measurements of each rollout, but a comparison also measures the opponent: in a small group, further
    pairs join all rollouts, and the opponents' qualities cancel. So the odds are multiplied by the ratio of the odds to
    expect of both plans, from the graphs of their comparisons and the judge's noise.

    Args:
        estimator: its name.
        n: rollouts in a group, 2 to `MAX_SIZE`.
        made: comparisons of the run; all of its groups are assumed to have these.
        more: comparisons of the larger plan.
        reliability: mean of the run.
        calibration: from the run.

    Returns:
        None if the judge's noise or the reliability is unknown, and for estimators that do not account for
        opponents.

    Source: C. Spearman, British Journal of Psychology 3 (1910) 271, for the odds.
    """
    noise = calibration.noise
    if estimator not in FORECAST or noise is None or not 0 < reliability < 1:
        return None

    def odds_with(pairs: Pairs, times: float) -> float:
        return _odds(_expected(estimator, n, pairs, *_with_signal(calibration, noise, times)))

    unit = _odds(reliability) / odds_with(made, 1.0)
    error = _WITHIN * _signal_error(made, calibration.groups, noise)
    low, value, high = (
        odds / (1 + odds) for odds in (unit * odds_with(more, times) for times in (max(0.0, 1 - error), 1.0, 1 + error))
    )
    return Forecast(value, low, high)


def _odds(share: float) -> float:
    share = min(_MOST, max(_LEAST, share))
    return share / (1 - share)


def _with_signal(calibration: Calibration, noise: JudgeNoise, times: float) -> tuple[Calibration, JudgeNoise]:
    """Return both with the signal multiplied by this factor, in verdicts of the same variance."""
    slope_1, slope_2 = (math.sqrt(times) * slope for slope in noise.slopes)
    kept = _noise_kept(noise.scale**2, float(np.sum(noise.noise)) / 4, times)
    (a, b), (c, d) = (kept * np.array(noise.noise)).tolist()
    noise = replace(noise, slopes=(slope_1, slope_2), noise=((a, b), (c, d)))
    if (labels := calibration.label_noise) is not None:
        labels = WinNoise(times * labels.signal, labels.noise * _noise_kept(labels.signal, labels.noise, times))
    return replace(calibration, label_noise=labels), noise


def _noise_kept(signal: float, noise: float, times: float) -> float:
    """Return the share of the noise that is left if two rollouts add so many times the signal each."""
    return max(_LEAST_NOISE, 1 - 2 * (times - 1) * signal / noise)


def _signal_error(made: Pairs, groups: int, noise: JudgeNoise) -> float:
    """Return the standard error of the signal divided by the signal.

    The signal is the mean product of two verdicts that share one rollout, less that of two that share none; the
    products of nearly independent verdicts vary as much as the verdicts.
    """
    degrees, pairs = Counter(index for pair in made for index in pair), Counter(frozenset(pair) for pair in made)
    alike = sum(math.comb(times, 2) for times in pairs.values())
    sharing = sum(math.comb(times, 2) for times in degrees.values()) - 2 * alike
    disjoint = math.comb(len(made), 2) - sharing - alike
    signal = noise.scale**2
    own = 2 * signal + (np.array(noise.noise).sum() + np.array(noise.prompt_bias).sum()) / 4
    return float(own / signal * math.sqrt((1 / max(1, sharing) + 1 / max(1, disjoint)) / groups))


def _expected(estimator: str, n: int, pairs: Pairs, calibration: Calibration, noise: JudgeNoise) -> float:
    """Return the expected reliability of a group with these comparisons."""
    first, second = (np.array([column], dtype=np.intp) for column in zip(*pairs, strict=True))
    even = np.full(first.shape, MIN_SCORE)
    batch = VerdictBatch(n, first, second, even, even, np.full(first.shape, MIDDLE_RANKING), even > 0)
    if estimator == "ordinal" and calibration.labels is not None and calibration.label_noise is not None:
        (expected,) = expected_of_labels(batch, choices_of(calibration.labels), calibration.label_noise).tolist()
    else:
        by_kind = weights_of(calibration.kind)
        weights = Weights() if estimator == "combined" else by_kind or Weights()
        (expected,) = expected_reliabilities(batch, weights, noise).tolist()
    return float(expected)
