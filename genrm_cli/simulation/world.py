"""Groups whose true qualities are known, and a simulated judge's verdicts on their pairs."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.random import Generator

from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices, VerdictBatch
from genrm_cli.simulation.judge import JudgeModel
from genrm_cli.verdicts import MAX_RANKING, MAX_SCORE, MIDDLE_RANKING, MIN_RANKING, MIN_SCORE

_NOISES = 6  # shared, of score 1, of score 2, of the ranking; whether a tie is broken, whether a ranking contradicts


@dataclass(frozen=True, slots=True)
class World:
    """G groups of n rollouts, and the judge's errors about them that do not change from call to call.

    Attributes:
        model: the judge.
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
    """Draw groups; with the same generator two models get the same groups, and errors that differ in size only."""
    truth = generator.standard_normal((groups, n))
    quality = truth + model.misjudgement * generator.standard_normal((groups, n))
    level = model.leniency_spread * generator.standard_normal(groups)
    by_group = model.position_bias + model.position_bias_spread * generator.standard_normal(groups)
    above = np.triu(generator.standard_normal((groups, n, n)), 1)
    lean = by_group[:, None, None] + model.intransitivity * (above - above.swapaxes(1, 2))
    return World(model, truth, quality, level, lean, generator.standard_normal((_NOISES, groups, n, n)))


def judge_pairs(world: World, first: Indices, second: Indices, generator: Generator) -> VerdictBatch:
    """Ask the simulated judge.

    Args:
        world: the groups and the judge.
        first: [G, M] indices of the rollouts shown first.
        second: likewise, shown second.
        generator: source of the noise of each call.
    """
    model, rows = world.model, np.arange(len(first))[:, None]
    fresh = generator.standard_normal((_NOISES, *first.shape))
    steady = world.noise[:, rows, first, second]
    noises = math.sqrt(model.repeating) * steady + math.sqrt(1 - model.repeating) * fresh
    shared, own_1, own_2, own_r, of_tie, of_contradiction = noises
    error = world.lean[rows, first, second] + model.noise * shared
    quality_1, quality_2 = world.quality[rows, first], world.quality[rows, second]
    valid = generator.random(first.shape) >= model.failure_share
    if model.labels:
        written = _labelled(quality_1 - quality_2 + error, model)
        return VerdictBatch(world.truth.shape[1], first, second, *written, valid)
    level = model.mean_score + world.level[:, None]
    score_1 = level + model.score_spread * (quality_1 + error / 2 + model.score_noise * own_1)
    score_2 = level + model.score_spread * (quality_2 - error / 2 + model.score_noise * own_2)
    lead = model.ranking_spread * (quality_1 - quality_2 + error + model.ranking_noise * own_r)
    is_close, middle = np.abs(score_1 - score_2) < model.tie_width, (score_1 + score_2) / 2
    score_1, score_2 = (
        _written(np.where(is_close, middle, score), model.score_step, MIN_SCORE, MAX_SCORE)
        for score in (score_1, score_2)
    )
    is_broken = ~is_close & _happens(of_tie, model.ties_broken)
    score_1, score_2 = _apart(score_1, score_2, np.where(is_broken, lead, 0.0), model.score_step)
    ranking = _written(MIDDLE_RANKING - lead, model.ranking_step, MIN_RANKING, MAX_RANKING)
    gaps = score_1 - score_2
    is_softened = (gaps * (MIDDLE_RANKING - ranking) < 0) & ~_happens(of_contradiction, model.contradictions)
    ranking = np.where(is_softened, MIDDLE_RANKING - np.sign(gaps) / 2, ranking)
    return VerdictBatch(world.truth.shape[1], first, second, score_1, score_2, ranking, valid)


def ordered_pairs(groups: int, n: int, repeats: int = 1) -> tuple[Indices, Indices]:
    """Return [G, M] first and second indices: every pair in both orders, the whole list once for each repeat."""
    first, second = np.nonzero(~np.eye(n, dtype=np.bool_))
    shape = (groups, repeats * len(first))
    return np.broadcast_to(np.tile(first, repeats), shape), np.broadcast_to(np.tile(second, repeats), shape)


def _labelled(lead: Floats, model: JudgeModel) -> tuple[Floats, Floats, Floats]:
    """Return both scores and the ranking that the labels for these leads stand for."""
    size = np.abs(lead)
    sizes = (size >= model.tie_width).astype(float) + ((size >= model.much_lead) & (model.labels == 5))
    gap = 2 * np.sign(lead) * sizes  # in scores, as in `scales.BETTER` and `scales.MUCH_BETTER`
    middle = (MIN_SCORE + MAX_SCORE) / 2
    ranking = MIDDLE_RANKING - np.sign(gap) * (sizes + 0.5)
    return middle + gap / 2, middle - gap / 2, ranking


def _happens(noise: Floats, share: float) -> Flags:
    """Return what happens in this share of standard normal noise."""
    is_below: Flags = noise < (NormalDist().inv_cdf(share) if 0 < share < 1 else math.copysign(math.inf, share - 0.5))
    return is_below


def _apart(score_1: Floats, score_2: Floats, lead: Floats, step: float) -> tuple[Floats, Floats]:
    """Move equal scores one step apart where there is a lead: the better one up, or at the top the other one down."""
    by = np.where(score_1 == score_2, step * np.sign(lead), 0.0)
    is_top = score_1 + step > MAX_SCORE
    up_1, up_2 = np.maximum(by, 0.0), np.maximum(-by, 0.0)
    return np.where(is_top, score_1 - up_2, score_1 + up_1), np.where(is_top, score_2 - up_1, score_2 + up_2)


def _written(values: Floats, step: float, low: float, high: float) -> Floats:
    """Round to low, low + step, ... and clip to the scale."""
    rounded = values if step == 0 else low + step * np.round((values - low) / step)
    return np.clip(rounded, low, high)
