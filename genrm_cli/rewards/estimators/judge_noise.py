"""How a judge's verdicts depend on the rollouts, from the moments of its verdicts."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from genrm_cli.rewards.estimators.verdict_batch import Floats

_NOISE_FLOOR = 0.02
_MAX_CORRELATION = 0.98
_GAP, _RANKING, _LEVEL = range(3)
_GAPS = slice(_GAP, _LEVEL)

# How many pairs of verdicts, and how many verdicts, the typical judge counts for when a judge is adapted to.
_TYPICAL_PAIRS, _TYPICAL_VERDICTS = 128, 8
_LEAST_NOISE = 0.05  # share of the variance
_SCORES_AHEAD = 1.5


@dataclass(frozen=True, slots=True)
class JudgeNoise:
    """Dependence of a judge's verdicts on the rollouts, whose qualities have variance 1 within a group.

    d is score_1 - score_2, r is 3.5 - ranking, m is (score_1 + score_2) / 2, all in units of the judge's scores.

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

    @property
    def scale(self) -> float:
        """Standard deviation of the qualities, in units of (d + r) / 2."""
        return (self.slopes[0] + self.slopes[1]) / 2


# Between a judge whose ranking says most and one whose scores do: the simulated judge's, with a noisier ranking.
TYPICAL = JudgeNoise((0.75, 0.55), 0.35, ((1.1, 0.2), (0.2, 0.45)), 0.23, ((0.0, 0.0), (0.0, 0.0)))


class WinNoise(NamedTuple):
    """Dependence of wins on the rollouts: 1 where the first is preferred, -1 where the second, 0 where neither.

    Attributes:
        signal: variance that one rollout's quality adds.
        noise: variance given both qualities, without what the prompt adds.
    """

    signal: float
    noise: float


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the least squares; the defaults are those of a typical judge.

    Attributes:
        gap: of d. Likewise `ranking`, of r.
        precision: of the graph of comparisons, against 1 for the assumption that all rollouts are equal.
        level: of m, in the right side; `level_precision` in the left.
        scale: of the solution, to bring it onto the scale of (d + r) / 2.
    """

    gap: float = 0.5
    ranking: float = 0.5
    precision: float = 1.0
    level: float = 1.2
    level_precision: float = 0.48
    scale: float = 1.0


def weights_of(noise: JudgeNoise, scale: float | None = None) -> Weights | None:
    """Return the best weights for a judge; None where they would all be 0.

    Args:
        noise: of the judge.
        scale: standard deviation of the qualities in base scores; by default the judge's own.
    """
    weights = np.maximum(0.0, np.linalg.solve(np.array(noise.noise), np.array(noise.slopes)))
    precision = float(weights @ np.array(noise.slopes))
    if precision <= 0:
        return None
    return Weights(
        gap=float(weights[_GAP]),
        ranking=float(weights[_RANKING]),
        precision=precision,
        level=noise.level_slope / noise.level_noise,
        level_precision=noise.level_slope**2 / noise.level_noise,
        scale=noise.scale if scale is None else scale,
    )


class Moments(NamedTuple):
    """The variance of verdicts, split; 3 by 3 matrices for d, r and m.

    Attributes:
        signal: what one rollout adds.
        own: of one verdict, all included.
        prompt: what the prompt adds.
        pairs: pairs of verdicts that share one rollout.
        verdicts: number of verdicts.
    """

    signal: Floats
    own: Floats
    prompt: Floats
    pairs: float
    verdicts: float


def noise_of(moments: Moments) -> JudgeNoise | None:
    """Return the judge that the moments show; None where they show no signal."""
    strengths, directions = np.linalg.eigh(moments.signal)
    slopes = math.sqrt(max(0.0, strengths[-1])) * directions[:, -1]
    slopes *= 1 if slopes[_GAP] + slopes[_RANKING] >= 0 else -1
    if slopes[_GAP] + slopes[_RANKING] <= 0:
        return None
    level_slope, prompt = max(0.0, float(slopes[_LEVEL])), moments.prompt[_GAPS, _GAPS]
    noise = moments.own[_GAPS, _GAPS] - 2 * np.outer(slopes[_GAPS], slopes[_GAPS]) - prompt
    level_noise = float(moments.own[_LEVEL, _LEVEL] - moments.prompt[_LEVEL, _LEVEL]) - 2 * level_slope**2
    return JudgeNoise(
        slopes=(float(slopes[_GAP]), float(slopes[_RANKING])),
        level_slope=level_slope,
        noise=_floored(noise, (_NOISE_FLOOR, _NOISE_FLOOR), -_MAX_CORRELATION),
        level_noise=max(_NOISE_FLOOR, level_noise),
        prompt_bias=_pairs(prompt),
    )


def adapted_noise(moments: Moments) -> JudgeNoise:
    """Return the typical judge, adapted to what the moments show: the more verdicts, the closer.

    Moments are averaged with those of the typical judge, as if it had given 8 verdicts and 128 pairs of verdicts that
    share a rollout. Three rules make few verdicts enough, with the moments in units of each number's own deviation:
    a judge that uses less of its scale is taken to be as certain as the typical one, and no more; slopes are 0 or
    more; and scores and ranking, whose errors about a pair are never opposed, cannot both follow the qualities more
    closely than they follow each other. Where they would, the one that says less about the rollouts gives way, the
    ranking also where it says a little more: distractors turn a preference more often than a score.

    Source: empirical Bayes with a conjugate prior on the moments, H. Robbins, Ann. Math. Stat. 35 (1964) 1; on
    distractors, arXiv 2504.14716.
    """
    typical = _moments_of(TYPICAL)
    within = _blend(moments.own - moments.prompt, moments.verdicts, typical.own, _TYPICAL_VERDICTS)
    deviations = np.sqrt(np.maximum(np.diagonal(within), _NOISE_FLOOR))
    certainty = np.minimum(1.0, deviations / np.sqrt(np.diagonal(typical.own)))
    signal = typical.signal * np.outer(certainty, certainty)
    signal = _blend(moments.signal, moments.pairs, signal, _TYPICAL_PAIRS)
    slopes = _slopes(signal / np.outer(deviations, deviations))
    most = max(0.0, within[_GAP, _RANKING] / (deviations[_GAP] * deviations[_RANKING])) / 2
    if slopes[_GAP] * slopes[_RANKING] > most:
        loser, winner = (_RANKING, _GAP) if _SCORES_AHEAD * slopes[_GAP] >= slopes[_RANKING] else (_GAP, _RANKING)
        slopes[loser] = most / slopes[winner]
    slopes *= deviations
    noise = within[_GAPS, _GAPS] - 2 * np.outer(slopes[_GAPS], slopes[_GAPS])
    least = np.maximum(_NOISE_FLOOR, _LEAST_NOISE * np.diagonal(within))
    prompt = _blend(moments.prompt, moments.pairs, typical.prompt, _TYPICAL_PAIRS)
    return JudgeNoise(
        slopes=(float(slopes[_GAP]), float(slopes[_RANKING])),
        level_slope=float(slopes[_LEVEL]),
        noise=_floored(noise, (float(least[_GAP]), float(least[_RANKING])), 0.0),
        level_noise=float(max(least[_LEVEL], within[_LEVEL, _LEVEL] - 2 * slopes[_LEVEL] ** 2)),
        prompt_bias=_pairs(prompt[_GAPS, _GAPS]),
    )


def _moments_of(judge: JudgeNoise) -> Moments:
    """Return the moments within prompts that a judge's verdicts have."""
    slopes = np.array([*judge.slopes, judge.level_slope])
    own = 2 * np.outer(slopes, slopes)
    own[_GAPS, _LEVEL] = own[_LEVEL, _GAPS] = 0.0  # a rollout adds to the one what it takes from the other
    own[_GAPS, _GAPS] += np.array(judge.noise)
    own[_LEVEL, _LEVEL] += judge.level_noise
    return Moments(np.outer(slopes, slopes), own, np.zeros((3, 3)), 0, 0)


def _blend(seen: Floats, count: float, typical: Floats, typical_count: float) -> Floats:
    blended: Floats = (count * seen + typical_count * typical) / (count + typical_count)
    return blended


def _slopes(signal: Floats) -> Floats:
    """Return the slopes that explain most of the signal; none below 0."""
    strengths, directions = np.linalg.eigh(signal)
    slopes = math.sqrt(max(0.0, strengths[-1])) * directions[:, -1]
    return np.maximum(0.0, slopes if _SCORES_AHEAD * slopes[_GAP] + slopes[_RANKING] >= 0 else -slopes)


def _floored(
    noise: Floats, least: tuple[float, float], least_correlation: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return a covariance of d and r that has an inverse."""
    gap, ranking = max(least[0], float(noise[_GAP, _GAP])), max(least[1], float(noise[_RANKING, _RANKING]))
    scale = math.sqrt(gap * ranking)
    both = min(_MAX_CORRELATION * scale, max(least_correlation * scale, float(noise[_GAP, _RANKING])))
    return (gap, both), (both, ranking)


def _pairs(matrix: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    (a, b), (c, d) = matrix.tolist()
    return (a, b), (c, d)
