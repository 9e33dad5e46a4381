"""Replay the goals `best` and `pair` on recorded verdicts: how many calls of rings find as good a best, or a pair."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import default_rng

from genrm_cli.pairing import count_first, further_at_once, plan_further
from genrm_cli.rewards.estimators import ESTIMATORS, CalibrationStatistics, weigh_alone
from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices
from genrm_cli.simulation.plan_metrics import indices_of, plan_within
from genrm_cli.simulation.replay import DRAWS, DenseVerdicts, Estimated, bootstrap, estimated

_SHUFFLE, _ORDERS = 4, 5
_CURVE_POINTS = 48  # numbers of calls at which rings are measured; those between are interpolated


@dataclass(frozen=True, slots=True)
class GoalReplay:
    """Quality of the rollouts that a goal finds on recorded verdicts, against rings of the same judge.

    The reference has one verdict on each pair, in an order that the plan did not use, so that all plans are measured
    alike. Pairs are asked in one order only: at most n(n - 1)/2 calls.

    Attributes:
        calls: per group.
        found: consensus quality of the best rollout, less that of the worst for `pair`, in points of lead.
        gain: over rings with as many calls.
        equal_calls: calls of rings that find as much; all pairs, if none do.
    """

    judge: str
    goal: str
    n: int
    groups: int
    calls: int
    found: Estimated
    gain: Estimated
    equal_calls: Estimated


def replay_goal(
    judge: str, dense: DenseVerdicts, goal: str, budgets: Sequence[int], *, seed: int
) -> Iterator[GoalReplay]:
    """Yield the quality of a goal for each number of calls per group, 1 to n(n - 1)/2."""
    groups, n = dense.shape
    weights, every = bootstrap(groups, seed), n * (n - 1) // 2
    draws = [_Draw.of(dense, goal, seed, draw) for draw in range(DRAWS)]
    calls = np.union1d(budgets, np.linspace(1, every, min(every, _CURVE_POINTS)).astype(np.intp))
    rings = np.array([_mean(draw.found_by(draw.rings(count)) for draw in draws) for count in calls.tolist()])
    for count in budgets:
        found = _mean(draw.found_by(draw.directed(count)) for draw in draws)
        equal = partial(_equal_calls, calls, rings, found)
        low, high = np.quantile([equal(row) for row in weights], (0.025, 0.975)).tolist()
        yield GoalReplay(
            judge,
            goal,
            n,
            groups,
            count,
            found=estimated(found, weights),
            gain=estimated(found - rings[calls.searchsorted(count)], weights),
            equal_calls=Estimated(equal(np.full(groups, 1 / groups)), low, high),
        )


def _mean(by_draw: Iterator[Floats]) -> Floats:
    return np.asarray(np.mean(list(by_draw), axis=0), dtype=np.float64)


def _equal_calls(calls: Indices, rings: Floats, found: Floats, weights: Floats) -> float:
    """Return the least calls of rings that find as much, between the numbers where the mean of the groups grows."""
    reached = np.maximum.accumulate(rings @ weights)
    grows = np.r_[True, np.diff(reached) > 0]
    return float(np.interp(found @ weights, reached[grows], calls[grows]))


@dataclass(frozen=True, slots=True)
class _Draw:
    """One order of the rollouts of each group, and one order of each pair that is left to the reference."""

    shown: DenseVerdicts
    goal: str
    seed: int
    kept: Flags

    @classmethod
    def of(cls, dense: DenseVerdicts, goal: str, seed: int, draw: int) -> "_Draw":
        upper = np.triu(default_rng([seed, _ORDERS, draw]).random((*dense.shape, dense.shape[1])), 1)
        kept = (upper > 1 / 2) | ((upper > 0) & (upper <= 1 / 2)).swapaxes(1, 2)
        return cls(dense.shuffled(default_rng([seed, _SHUFFLE, draw])), goal, seed, kept)

    def rings(self, calls: int) -> tuple[Indices, Indices]:
        """Return the pairs of the rings with so many calls, the same for all groups."""
        groups, n = self.shown.shape
        plan = plan_within("ring", n, calls)
        if plan is None:
            raise ValueError("no calls")
        first, second = indices_of(plan, n, range(1), self.seed)
        return np.broadcast_to(first, (groups, calls)), np.broadcast_to(second, (groups, calls))

    def directed(self, calls: int) -> tuple[Indices, Indices]:
        """Return the pairs that follow the verdicts."""
        n = self.shown.shape[1]
        first, second = self.rings(min(calls, count_first(n, self.goal)))
        asked = np.stack([first, second], axis=-1)
        while (left := calls - asked.shape[1]) > 0:
            scores = weigh_alone(self.shown.chosen(asked[..., 0], asked[..., 1]))
            plan = partial(plan_further, goal=self.goal, count=min(left, further_at_once(n)))
            known = zip(scores.tolist(), asked.tolist(), strict=True)
            added = [plan(dict(enumerate(row)), list(map(tuple, pairs))) for row, pairs in known]
            asked = np.concatenate([asked, np.array(added)], axis=1)
        return asked[..., 0], asked[..., 1]

    def found_by(self, pairs: tuple[Indices, Indices]) -> Floats:
        """Return [G] the quality of what the verdicts on these pairs find, by the reference."""
        first, second = pairs
        rows = np.arange(len(first))
        unused = self.kept.copy()
        unused[rows[:, None], first, second], unused[rows[:, None], second, first] = False, True
        reference = self.shown.consensus(unused & self.shown.valid)
        batch, statistics = self.shown.chosen(first, second), CalibrationStatistics()
        statistics.add_batch(batch)
        made = ESTIMATORS["adaptive"](batch, statistics.fit())
        scores = np.where(made.scored, made.base_scores, made.base_scores.mean())
        best: Floats = reference[rows, scores.argmax(axis=1)]
        return best if self.goal == "best" else best - reference[rows, scores.argmin(axis=1)]
