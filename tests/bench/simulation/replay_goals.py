"""Replay the goals `best` and `pair` on recorded verdicts: how many calls of rings find as good a
best, or a pair.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from bench.simulation.plan_metrics import plan_within
from bench.simulation.replay import DenseVerdicts, Estimated, bootstrap, estimated
from numpy.random import default_rng

from genrm_cli.metrics.figures import rounded
from genrm_cli.pairing.pairs import count_first, further_at_once, plan_further, plan_ring
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import ESTIMATORS
from genrm_cli.rewards.estimators.least_squares import weigh_alone
from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices, rounded_array

_SHUFFLE = 4
_ORDERS = 5
_DRAWS = 8  # of the order of the rollouts: a best rollout is noisier than a correlation
_CURVE_POINTS = 48  # numbers of calls at which rings are measured; those between are interpolated


@dataclass(frozen=True, slots=True)
class GoalReplay:
    """Quality of the rollouts that a goal finds on recorded verdicts, and the calls of rings that
    find as much.

    The reference has one verdict on each pair, in an order that the plan did not use, so that all
    plans are measured alike. Pairs are asked in one order only: at most n(n - 1)/2 calls.

    Attributes:
        calls: per group.
        found: consensus quality of the best rollout, less that of the worst for `pair`, in points
            of lead.
        equal_calls: calls of rings that find as much; all pairs, if none do.
    """

    calls: int
    found: Estimated
    equal_calls: Estimated


def replay_goal(
    dense: DenseVerdicts, goal: str, budgets: Sequence[int], *, seed: int
) -> Iterator[GoalReplay]:
    """Yield the quality of a goal for each number of calls per group, 1 to n(n - 1)/2."""
    groups, n = dense.shape
    weights = bootstrap(groups, seed)
    every = n * (n - 1) // 2
    draws: list[tuple[DenseVerdicts, Flags]] = []
    for draw in range(_DRAWS):
        upper = np.triu(default_rng([seed, _ORDERS, draw]).random((groups, n, n)), 1)
        one_order = (upper > 1 / 2) | ((upper > 0) & (upper <= 1 / 2)).swapaxes(1, 2)
        draws.append((dense.shuffled(default_rng([seed, _SHUFFLE, draw])), one_order))

    def found_by(plan: Callable[[DenseVerdicts, int], Indices], count: int) -> Floats:
        by_draw = [_found(shown, kept, plan(shown, count), goal) for shown, kept in draws]
        return np.asarray(np.mean(by_draw, axis=0), dtype=np.float64)

    calls = np.unique(np.linspace(1, every, min(every, _CURVE_POINTS)).astype(np.intp))
    rings = np.array([found_by(_rings, count) for count in calls.tolist()])
    for count in budgets:
        found = found_by(partial(_directed, goal), count)
        low, high = np.quantile(
            [_equal_calls(calls, rings, found, row) for row in weights], (0.025, 0.975)
        ).tolist()
        equal = _equal_calls(calls, rings, found, np.full(groups, 1 / groups))
        yield GoalReplay(count, estimated(found, weights), Estimated(equal, low, high))


def _equal_calls(calls: Indices, rings: Floats, found: Floats, weights: Floats) -> float:
    """Return the least calls of rings that find as much, between the numbers where the mean of the
    groups grows.
    """
    reached = np.maximum.accumulate(rounded_array(rings @ weights))
    grows = np.r_[True, np.diff(reached) > 0]
    return float(np.interp(rounded(float(found @ weights)), reached[grows], calls[grows]))


def _rings(shown: DenseVerdicts, count: int) -> Indices:
    """Return [G, count, 2] the pairs of the rings with so many calls; groups are shuffled, so all
    have the same.
    """
    groups, n = shown.shape
    plan = plan_within("ring", n, count)
    return np.tile(
        np.array(plan_ring(n, 0 if plan is None else plan.ring_k), dtype=np.intp), (groups, 1, 1)
    )


def _directed(goal: str, shown: DenseVerdicts, count: int) -> Indices:
    """Return [G, count, 2] the pairs that follow the verdicts."""
    n = shown.shape[1]
    asked = _rings(shown, min(count, count_first(n, goal)))
    while (left := count - asked.shape[1]) > 0:
        scores = weigh_alone(shown.chosen(asked[..., 0], asked[..., 1])).tolist()
        plan = partial(plan_further, goal=goal, count=min(left, further_at_once(n)))
        known = zip(scores, asked.tolist(), strict=True)
        added = [plan(dict(enumerate(row)), list(map(tuple, pairs))) for row, pairs in known]
        asked = np.concatenate([asked, np.array(added)], axis=1)
    return asked


def _found(shown: DenseVerdicts, kept: Flags, asked: Indices, goal: str) -> Floats:
    """Return [G] the quality of what the verdicts on these pairs find, by one verdict on each pair
    in another order.
    """
    first = asked[..., 0]
    second = asked[..., 1]
    rows = np.arange(len(asked))
    unused = kept.copy()
    unused[rows[:, None], first, second] = False
    unused[rows[:, None], second, first] = True
    reference = shown.consensus(unused & shown.valid)
    batch = shown.chosen(first, second)
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    made = ESTIMATORS["adaptive"](batch, statistics.fit())
    scores = rounded_array(np.where(made.scored, made.base_scores, made.base_scores.mean()))
    best: Floats = reference[rows, scores.argmax(axis=1)]
    return best if goal == "best" else best - reference[rows, scores.argmin(axis=1)]
