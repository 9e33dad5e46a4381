"""A simulated judge, groups whose true qualities are known, and its verdicts on their pairs."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.random import Generator

from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices, VerdictBatch
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIDDLE_RANKING, MIN_RANKING, MIN_SCORE

# shared, of score 1, of score 2, of the ranking; whether a tie is broken, whether a ranking
# contradicts
_NOISES = 6


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """A judge whose scores and ranking are the true quality, seen through errors.

    True qualities are normal with a standard deviation of 1: the unit of all that is not in points,
    steps or shares. The judge sees a pair as q_1 - q_2 + e: q is the truth with the judge's
    `misjudgement` of the rollout; e adds up its position bias, its error about this pair
    (`intransitivity`) and `noise`. Score 1 follows q_1 + e/2, score 2 q_2 - e/2, the ranking q_1 -
    q_2 + e, each with noise of its own; then all are rounded to the steps that a judge may write
    and cut at the ends of their scales. Everything is normal and linear, which no real judge is.

    The defaults reproduce four published statistics of generative judges (a single call is right on
    77.5 % of pairs, position 1 is chosen in 58 %, swapping flips 29 %, scores tie in 27 %) to
    within 0.5 points; the rest was chosen so that circular and ring plans of 16 rollouts come out
    as in the project's earlier simulation of them.

    Attributes:
        position_bias: mean preference for position 1.
        position_bias_spread: standard deviation of the position bias between groups.
        misjudgement: error about a rollout, the same in all its comparisons.
        intransitivity: error about a pair, the same in both orders and all repeats.
        noise: error of one call that scores and ranking share.
        score_noise: further error of each score; `ranking_noise` of the ranking.
        repeating: share of the variance of the three noises that recurs when a comparison is
            repeated.
        leniency_spread: standard deviation of the mean score between groups, in points.
        mean_score: score of an average rollout.
        score_spread: points of score per unit of quality; `ranking_spread`, steps of ranking.
        score_step: scores are written in steps of this from 1, 0 for any number; `ranking_step`
            likewise.
        ties_broken: share of equal scores that the judge moves one step apart.
        contradictions: share of the rankings against the scores that the judge writes; it softens
            the others.
    """

    position_bias: float = 0.38
    position_bias_spread: float = 0.1
    misjudgement: float = 0.35
    intransitivity: float = 0.3
    noise: float = 0.65
    score_noise: float = 0.83
    ranking_noise: float = 0.4
    repeating: float = 0.56
    leniency_spread: float = 0.8
    mean_score: float = 3.3
    score_spread: float = 0.8
    ranking_spread: float = 0.56
    score_step: float = 1.0
    ranking_step: float = 1.0
    ties_broken: float = 0.66
    contradictions: float = 0.0


@dataclass(frozen=True, slots=True)
class World:
    """G groups of n rollouts, and the judge's errors about them that do not change from call to
    call.

    Attributes:
        truth: [G, n] true qualities.
        quality: [G, n] the truth with the judge's misjudgement.
        level: [G] leniency to the group, in points.
        lean: [G, n, n] steady preference for the first of an ordered pair.
        noise: [6, G, n, n] the part of the noises that recurs in repeats, of standard deviation 1.
    """

    model: JudgeModel
    truth: Floats
    quality: Floats
    level: Floats
    lean: Floats
    noise: Floats


def draw_world(model: JudgeModel, groups: int, n: int, generator: Generator) -> World:
    """Draw groups; with the same generator two models get the same groups, and errors that differ
    in size only.
    """
    truth = generator.standard_normal((groups, n))
    quality = truth + model.misjudgement * generator.standard_normal((groups, n))
    level = model.leniency_spread * generator.standard_normal(groups)
    by_group = model.position_bias + model.position_bias_spread * generator.standard_normal(groups)
    above = np.triu(generator.standard_normal((groups, n, n)), 1)
    lean = by_group[:, None, None] + model.intransitivity * (above - above.swapaxes(1, 2))
    return World(
        model, truth, quality, level, lean, generator.standard_normal((_NOISES, groups, n, n))
    )


def judge_pairs(
    world: World, first: Indices, second: Indices, generator: Generator
) -> VerdictBatch:
    """Ask the simulated judge.

    Args:
        world: the groups and the judge.
        first: [G, M] indices of the rollouts shown first.
        second: likewise, shown second.
        generator: source of the noise of each call.
    """
    model = world.model
    rows = np.arange(len(first))[:, None]
    fresh = generator.standard_normal((_NOISES, *first.shape))
    steady = world.noise[:, rows, first, second]
    noises = math.sqrt(model.repeating) * steady + math.sqrt(1 - model.repeating) * fresh
    shared, own_1, own_2, own_r, of_tie, of_contradiction = noises
    error = world.lean[rows, first, second] + model.noise * shared
    quality_1 = world.quality[rows, first]
    quality_2 = world.quality[rows, second]
    level = model.mean_score + world.level[:, None]
    score_1 = level + model.score_spread * (quality_1 + error / 2 + model.score_noise * own_1)
    score_2 = level + model.score_spread * (quality_2 - error / 2 + model.score_noise * own_2)
    lead = model.ranking_spread * (quality_1 - quality_2 + error + model.ranking_noise * own_r)
    score_1, score_2 = (
        _written(score, model.score_step, MIN_SCORE, MAX_SCORE) for score in (score_1, score_2)
    )
    # A broken tie moves the better response one step up or, at the top of the scale, the other one
    # down.
    is_broken = (score_1 == score_2) & _happens(of_tie, model.ties_broken)
    step = np.where(is_broken, model.score_step * np.sign(lead), 0.0)
    is_top = score_1 + model.score_step > MAX_SCORE
    up_1 = np.maximum(step, 0.0)
    up_2 = np.maximum(-step, 0.0)
    score_1 = score_1 + np.where(is_top, -up_2, up_1)
    score_2 = score_2 + np.where(is_top, -up_1, up_2)
    ranking = _written(MIDDLE_RANKING - lead, model.ranking_step, MIN_RANKING, MAX_RANKING)
    gaps = score_1 - score_2
    is_softened = (gaps * (MIDDLE_RANKING - ranking) < 0) & ~_happens(
        of_contradiction, model.contradictions
    )
    ranking = np.where(is_softened, MIDDLE_RANKING - np.sign(gaps) / 2, ranking)
    return VerdictBatch(
        world.truth.shape[1], first, second, score_1, score_2, ranking, np.ones_like(is_top)
    )


def _happens(noise: Floats, share: float) -> Flags:
    """Return a mask that is true for this share of standard normal noise."""
    is_below: Flags = noise < (
        NormalDist().inv_cdf(share) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)
    )
    return is_below


def _written(values: Floats, step: float, low: float, high: float) -> Floats:
    """Round to low, low + step, ... and clip to the scale."""
    rounded = values if step == 0 else low + step * np.round((values - low) / step)
    return np.clip(rounded, low, high)
