"""The dependence of a judge's verdicts on the rollouts, from the moments of its verdicts."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.running_stats import LEAST_SPREAD
from genrm_cli.rewards.estimators.verdict_batch import Floats, rounded_array

_NOISE_FLOOR = 0.02
_MAX_CORRELATION = 0.98
# Base score of one standard deviation of quality, of the kinds of judges as they are.
_QUALITY_POINTS = 0.7
GAP, RANKING, LEVEL = range(3)
_GAPS = slice(GAP, LEVEL)


@dataclass(frozen=True, slots=True)
class JudgeNoise:
    """Dependence of a judge's verdicts on the rollouts, whose qualities have variance 1 within a
    group.

    d is score_1 - score_2, r is 3.5 - ranking, m is (score_1 + score_2) / 2, all in units of the
    judge's scores.

    Attributes:
        slopes: of d and r in the difference of the two qualities.
        level_slope: of m in the sum of the two qualities, 0 or more.
        noise: 2 by 2, covariance of d and r given the qualities, without what the prompt adds.
        level_noise: variance of m likewise.
        prompt_bias: 2 by 2, covariance of what the prompt adds to all d and r of its group.
    """

    slopes: tuple[float, float]
    level_slope: float
    noise: tuple[tuple[float, float], tuple[float, float]]
    level_noise: float
    prompt_bias: tuple[tuple[float, float], tuple[float, float]]


# The kinds of judges. A kind is chosen, not fitted: fitted weights move with every verdict, and
# rewards with them.

_UNBIASED = ((0.0, 0.0), (0.0, 0.0))

# Between a judge with an informative ranking and one with informative scores: the simulated one,
# noisier ranking.
TYPICAL = JudgeNoise((0.75, 0.55), 0.35, ((1.1, 0.2), (0.2, 0.45)), 0.23, _UNBIASED)
# Says how much better one response is than the other, but not how good both are; with twice the
# noise, as recorded judges of labels have.
COMPARING = JudgeNoise((0.75, 0.55), 0.0, ((2.2, 0.4), (0.4, 0.9)), 1.0, _UNBIASED)
# Only its scores, or only its ranking, are reliable.
SCORING = JudgeNoise((0.75, 0.0), 0.35, ((1.1, 0.0), (0.0, 1.0)), 0.23, _UNBIASED)
RANKING_ONLY = JudgeNoise((0.0, 0.55), 0.0, ((1.0, 0.0), (0.0, 0.45)), 1.0, _UNBIASED)

# Judges whose scores and ranking correlate more than this can be relied on in both. Of 13 simulated
# and recorded ones, those that can have .44 and more, the others .19 and less.
_LEAST_AGREEMENT = 0.4
LEVEL_FLOOR = 1e-6  # variance; the scores of labels always have the mean 3
_LEAST_LEVEL = 0.07  # of a typical 0.26; judges with an uninformative level have 0
# Typical correlations, and how many verdicts, or pairs of verdicts, they count for.
_AGREEMENT = 0.67
_AGREEMENT_VERDICTS = 8
_LEVEL_SIGNAL = 0.26
_LEVEL_PAIRS = 32
# Correlations of two verdicts with one rollout in common: of their gaps, of gap and level, of
# levels, of rankings.
_SHARED = ([GAP, GAP, LEVEL, RANKING], [GAP, LEVEL, LEVEL, RANKING])
_BY_SCORES, _BY_RANKING = np.array([[0.25, 0.26, 0.26, 0.0], [0.0, 0.0, 0.0, 0.29]])
_LEAST_RANKING = 0.1  # of a typical 0.29; uninformative rankings have 0


class LabelNoise(NamedTuple):
    """Dependence of the values of labels on the rollouts.

    `signal` is the variance that one rollout's quality adds, `noise` that given both, without what
    the prompt adds."""

    signal: float
    noise: float


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the least squares; the defaults are those of a typical judge.

    Attributes:
        gap: of d. Likewise `ranking`, of r.
        precision: of the graph of comparisons, against 1 for the assumption that all rollouts are
            equal.
        level: of m, in the right side; `level_precision` in the left.
        scale: of the solution, to bring it onto the scale of the scores.
    """

    gap: float = 0.5
    ranking: float = 0.5
    precision: float = 1.0
    level: float = 1.2
    level_precision: float = 0.48
    scale: float = 1.0


def weights_of(noise: JudgeNoise) -> Weights:
    """Return the best weights for a kind of judge."""
    weights = np.maximum(0.0, np.linalg.solve(np.array(noise.noise), np.array(noise.slopes)))
    return Weights(
        gap=float(weights[GAP]),
        ranking=float(weights[RANKING]),
        precision=float(weights @ np.array(noise.slopes)),
        level=noise.level_slope / noise.level_noise,
        level_precision=noise.level_slope**2 / noise.level_noise,
        scale=_QUALITY_POINTS,
    )


class Moments(NamedTuple):
    """The variance of verdicts, split; 3 by 3 matrices for d, r and m.

    `signal` is what one rollout adds, `prompt` what the prompt adds, `own` the variance of one
    verdict, all included. `pairs` is the number of pairs of verdicts that share one rollout."""

    signal: Floats
    own: Floats
    prompt: Floats
    pairs: float
    verdicts: float


def noise_of(moments: Moments) -> JudgeNoise | None:
    """Return the judge that the moments show; None if they show no signal."""
    strengths, directions = np.linalg.eigh(moments.signal)
    # Sums that cancel leave some 1e-17, which would be a judge with an unbounded error.
    if strengths[-1] <= LEAST_SPREAD * float(np.trace(moments.own)):
        return None
    slopes = math.sqrt(strengths[-1]) * directions[:, -1]
    slopes *= 1 if slopes[GAP] + slopes[RANKING] >= 0 else -1
    if rounded(float(slopes[GAP] + slopes[RANKING])) <= 0:
        return None
    level_slope = max(0.0, float(slopes[LEVEL]))
    prompt = moments.prompt[_GAPS, _GAPS]
    (a, b), (c, d) = prompt.tolist()
    noise = moments.own[_GAPS, _GAPS] - 2 * np.outer(slopes[_GAPS], slopes[_GAPS]) - prompt
    # The covariance of d and r must have an inverse.
    gap, ranking = (max(_NOISE_FLOOR, float(noise[each, each])) for each in (GAP, RANKING))
    most = _MAX_CORRELATION * math.sqrt(gap * ranking)
    both = min(most, max(-most, float(noise[GAP, RANKING])))
    level_noise = (
        float(moments.own[LEVEL, LEVEL] - moments.prompt[LEVEL, LEVEL]) - 2 * level_slope**2
    )
    return JudgeNoise(
        slopes=(float(slopes[GAP]), float(slopes[RANKING])),
        level_slope=level_slope,
        noise=((gap, both), (both, ranking)),
        level_noise=max(_NOISE_FLOOR, level_noise),
        prompt_bias=((a, b), (c, d)),
    )


def kind_of(moments: Moments) -> JudgeNoise:
    """Return the kind of judge that the moments show, near the typical one with few verdicts.

    If scores and ranking agree, both count. Else only one of them can be right: the ranking, if
    verdicts that share a rollout look as if rankings followed it and scores did not; otherwise the
    scores, because distractors turn a preference more often than a score.

    Source: nearest centroid of correlations; on distractors, arXiv 2504.14716.
    """
    within = moments.own - moments.prompt
    deviations = np.sqrt(np.maximum(np.diagonal(within), LEVEL_FLOOR))
    signal: Floats = moments.signal / np.outer(deviations, deviations)
    signal = rounded_array(signal)
    agreement = rounded(float(within[GAP, RANKING] / (deviations[GAP] * deviations[RANKING])))
    if _blend(agreement, moments.verdicts, _AGREEMENT, _AGREEMENT_VERDICTS) > _LEAST_AGREEMENT:
        level = _blend(float(signal[LEVEL].mean()), moments.pairs, _LEVEL_SIGNAL, _LEVEL_PAIRS)
        return TYPICAL if level > _LEAST_LEVEL else COMPARING
    shared = signal[_SHARED]
    is_ranking = float(((shared - _BY_RANKING) ** 2).sum()) < float(
        ((shared - _BY_SCORES) ** 2).sum()
    )
    follows = signal[RANKING, RANKING] > _LEAST_RANKING and agreement > -_LEAST_AGREEMENT
    return RANKING_ONLY if is_ranking and follows else SCORING


def _blend(seen: float, count: float, typical: float, typical_count: float) -> float:
    return (count * seen + typical_count * typical) / (count + typical_count)
