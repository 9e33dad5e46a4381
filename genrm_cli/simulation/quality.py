"""Metrics of rewards against the truth, group by group, and of a simulated judge."""

from dataclasses import dataclass

import numpy as np
from numpy.random import default_rng

from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, scored_means
from genrm_cli.simulation.world import JudgeModel, draw_world, judge_pairs, ordered_pairs
from genrm_cli.verdicts import MIDDLE_RANKING

_GROUPS, _SIZE = 2_000, 8


@dataclass(frozen=True, slots=True)
class JudgeMetrics:
    """Behaviour of a simulated judge on single pairs, as shares.

    A verdict prefers the first when its score is higher or, on equal scores, when the ranking does; an even one
    prefers neither and counts as wrong.

    Attributes:
        accuracy: verdicts that prefer the truly better rollout.
        first_place: verdicts that prefer position 1.
        flips: pairs whose two orders do not prefer the same rollout.
        ties: verdicts with equal scores.
        contradictions: verdicts whose scores prefer one response and whose ranking the other.
        failures: calls without a verdict.
    """

    accuracy: float
    first_place: float
    flips: float
    ties: float
    contradictions: float
    failures: float


def describe_judge(model: JudgeModel, seed: int) -> JudgeMetrics:
    """Show a simulated judge all pairs of 2,000 groups of 8 in both orders, and count."""
    generator = default_rng(seed)
    world = draw_world(model, _GROUPS, _SIZE, generator)
    first, second = ordered_pairs(_GROUPS, _SIZE)
    batch = judge_pairs(world, first, second, generator)
    rows, preferred = np.arange(_GROUPS)[:, None], np.sign(batch.preferences())
    by_order = np.zeros((_GROUPS, _SIZE, _SIZE))
    by_order[rows, first, second] = preferred
    return JudgeMetrics(
        accuracy=float(np.mean(preferred == np.sign(world.truth[rows, first] - world.truth[rows, second]))),
        first_place=float(np.mean(preferred > 0)),
        flips=float(np.mean(preferred != -by_order[rows, second, first])),
        ties=float(np.mean(batch.score_1 == batch.score_2)),
        contradictions=float(np.mean((batch.score_1 - batch.score_2) * (MIDDLE_RANKING - batch.ranking) < 0)),
        failures=float(1 - batch.valid.mean()),
    )


def correlations(x: Floats, y: Floats, scored: Flags) -> Floats:
    """Return [G] Pearson's correlation of the values [G, n] of the scored rollouts; 0 where one of them has no spread.

    A group without spread gives no advantage, which is what a correlation of 0 is to a trainer.
    """
    x, y = _centred(x, scored), _centred(y, scored)
    scale = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    shares: Floats = np.divide((x * y).sum(axis=1), scale, out=np.zeros(len(x)), where=scale > 0)
    return shares


def ranks(values: Floats, scored: Flags) -> Floats:
    """Return [G, n] the rank of each value among the scored, 0 = lowest; equal ones share their mean rank."""
    below = (values[:, None, :] < values[:, :, None]) & scored[:, None, :]
    equal = (values[:, None, :] == values[:, :, None]) & scored[:, None, :]
    found: Floats = below.sum(axis=2) + (equal.sum(axis=2) - 1) / 2
    return found


def top_hits(rewards: Floats, truth: Floats, scored: Flags) -> Floats:
    """Return [G] whether the highest reward is that of the truly best rollout; of k equal ones each counts 1/k."""
    lowest = np.min(rewards, initial=0.0) - 1.0
    shown = np.where(scored, rewards, lowest)
    is_highest = scored & (shown == shown.max(axis=1, keepdims=True))
    best = np.argmax(truth, axis=1)[:, None]
    hits: Floats = np.take_along_axis(is_highest, best, axis=1)[:, 0] / np.maximum(is_highest.sum(axis=1), 1)
    return hits


def _centred(values: Floats, scored: Flags) -> Floats:
    kept = np.where(scored, values, 0.0)
    centred = np.where(scored, kept - scored_means(values, scored), 0.0)
    # A constant's mean can differ from it in the last digit.
    is_flat = np.abs(centred).max(axis=1) <= 1e-12 * np.maximum(np.abs(kept).max(axis=1), 1.0)
    return np.where(is_flat[:, None], 0.0, centred)
