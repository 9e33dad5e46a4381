"""Try plans and estimators on a simulated judge, and measure rewards against the truth."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from bench.simulation.world import JudgeModel, World, draw_world, judge_pairs
from numpy.random import default_rng

from genrm_cli.pairing.pairs import PairingPlan, ring_sizes
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import ESTIMATORS
from genrm_cli.rewards.estimators.verdict_batch import (
    Flags,
    Floats,
    Indices,
    VerdictBatch,
    scored_means,
)

_BLOCK_CELLS = 2_000_000  # groups × max(pairs, calls): about 300 MB of arrays
_WORLD = 0
_CALLS = 1
_STEPS = 10_000  # of one ring


@dataclass(frozen=True, slots=True)
class Plan:
    """A strategy and its size: rings where it has them, else repeats of the whole list.

    Attributes:
        calls: in total per group.
    """

    strategy: str
    calls: int
    repeats: int = 1
    ring_k: float = 0.0


def plan_within(strategy: str, n: int, calls: int) -> Plan | None:
    """Return the largest plan of a strategy within these calls per group; None if even the smallest
    takes more.
    """
    if strategy == "ring":
        # Of all numbers of rings with as many calls, the least.
        steps = range(1, len(ring_sizes(n)) * _STEPS + 1)

        def needed(step: int) -> int:
            return PairingPlan(strategy, step / _STEPS).count(n)

        last = bisect_right(steps, calls, key=needed)
        if not last:
            return None
        count = needed(steps[last - 1])
        return Plan(strategy, count, ring_k=steps[bisect_left(steps, count, key=needed)] / _STEPS)
    once = PairingPlan(strategy).count(n)
    repeats = calls // once
    return Plan(strategy, repeats * once, repeats) if repeats else None


def indices_of(plan: Plan, n: int, groups: range, seed: int) -> tuple[Indices, Indices]:
    """Return [G, M] first and second indices of the comparisons of numbered groups."""
    # Only these differ from group to group.
    keys = [str(group) for group in groups] if plan.strategy == "ring" else [""]
    pairing = PairingPlan(plan.strategy, plan.ring_k, plan.repeats, order_balanced=True, seed=seed)
    planned = np.array(
        [[(i, j) for i, j, _ in pairing.iter_pairs(n, key)] for key in keys], dtype=np.intp
    )
    shape = (len(groups), plan.calls)
    return np.broadcast_to(planned[..., 0], shape), np.broadcast_to(planned[..., 1], shape)


@dataclass(frozen=True, slots=True)
class PlanMetrics:
    """Quality of a plan and an estimator on simulated groups.

    A rollout without a verdict gets no reward and is left out of its group's metrics. A group
    without spread of rewards counts as a correlation of 0.

    Attributes:
        calls: judge calls per group.
        correlation: Pearson's, of the rewards (that is, of the advantages) with the truth: the mean
            over groups, with its standard error.
    """

    strategy: str
    estimator: str
    calls: int
    correlation: float
    correlation_error: float


def simulate(
    model: JudgeModel,
    n: int,
    plans: Sequence[Plan],
    estimators: Sequence[str],
    *,
    groups: int,
    seed: int,
) -> Iterator[PlanMetrics]:
    """Yield the metrics of each plan with each estimator, over the same groups: 2 or more, of 2 or
    more rollouts.

    The metrics of a plan do not depend on the other plans.
    """
    size = max(1, min(groups, _BLOCK_CELLS // max([n * n, *(plan.calls for plan in plans)])))
    blocks = [range(start, min(start + size, groups)) for start in range(0, groups, size)]

    # Each cache holds one entry: with a single block, nothing is drawn twice.
    @lru_cache(maxsize=1)
    def world_of(block: range) -> World:
        return draw_world(model, len(block), n, default_rng([seed, _WORLD, block.start]))

    @lru_cache(maxsize=1)
    def verdicts_of(plan: Plan, block: range) -> VerdictBatch:
        first, second = indices_of(plan, n, block, seed)
        return judge_pairs(
            world_of(block), first, second, default_rng([seed, _CALLS, block.start, plan.calls])
        )

    for plan in plans:
        statistics = CalibrationStatistics()
        for block in blocks:
            statistics.add_batch(verdicts_of(plan, block))
        calibration = statistics.fit()
        truth = np.concatenate([world_of(block).truth for block in blocks])
        for name in estimators:
            made = [ESTIMATORS[name](verdicts_of(plan, block), calibration) for block in blocks]
            rewards, scored = (
                np.concatenate([getattr(each, of) for each in made])
                for of in ("base_scores", "scored")
            )
            by_group = correlations(rewards, truth, scored)
            error = by_group.std(ddof=1) / np.sqrt(groups)
            yield PlanMetrics(plan.strategy, name, plan.calls, by_group.mean(), error)


def correlations(x: Floats, y: Floats, scored: Flags) -> Floats:
    """Return [G] Pearson's correlation of the values [G, n] of the scored rollouts; 0 where one of
    them has no spread.

    A group without spread gives no advantage, which is what a correlation of 0 is to a trainer.
    """
    x = _centred(x, scored)
    y = _centred(y, scored)
    scale = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    shares: Floats = np.divide((x * y).sum(axis=1), scale, out=np.zeros(len(x)), where=scale > 0)
    return shares


def _centred(values: Floats, scored: Flags) -> Floats:
    kept = np.where(scored, values, 0.0)
    centred = np.where(scored, kept - scored_means(values, scored), 0.0)
    # A constant's mean can differ from it in the last digit.
    is_flat = np.abs(centred).max(axis=1) <= 1e-12 * np.maximum(np.abs(kept).max(axis=1), 1.0)
    return np.where(is_flat[:, None], 0.0, centred)
