"""Replay plans and estimators on the recorded verdicts of a judge that compared all pairs in both
orders.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from bench.simulation.plan_metrics import Plan, correlations, indices_of
from numpy.random import Generator, default_rng

from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import ESTIMATORS
from genrm_cli.rewards.estimators.verdict_batch import (
    Flags,
    Floats,
    Indices,
    VerdictBatch,
    Verdicts,
)
from genrm_cli.verdicts import MIDDLE_RANKING, Verdict

_DENSE = 0.9  # share of the ordered pairs
_DRAWS = 4  # of the order of the rollouts, and with it of the plan
_ROUNDS = 1_000
_SHUFFLE = 0
_BOOTSTRAP = 1


@dataclass(frozen=True, slots=True)
class Estimated:
    """A number with its 95 % interval by bootstrap over groups."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ReplayMetrics:
    """Quality of a plan and an estimator on recorded verdicts: means over groups and four orders of
    the rollouts.

    The consensus is the least-squares solution of all verdicts that the plan did not use, with the
    judge's position preference removed. Its own noise lowers the agreement, the more so the fewer
    verdicts are left.

    Attributes:
        agreement: Pearson's correlation of the rewards (that is, of the advantages) with the
            consensus.
        gain: of the agreement over the first row with as many calls.
    """

    strategy: str
    estimator: str
    calls: int
    agreement: Estimated
    gain: Estimated


@dataclass(frozen=True, slots=True)
class DenseVerdicts:
    """The verdicts of G groups of n rollouts on all pairs in both orders.

    Attributes:
        numbers: [3, G, n, n], both scores and the ranking, by first and second; 0 where there is no
            verdict.
    """

    numbers: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Groups, and rollouts in each."""
        _, groups, n, _ = self.numbers.shape
        return groups, n

    @property
    def valid(self) -> Flags:
        """[G, n, n], whether there is a verdict."""
        flags: Flags = self.numbers[2] > 0
        return flags

    def shuffled(self, generator: Generator) -> "DenseVerdicts":
        """Return the same groups, each with its rollouts in another order."""
        order = np.argsort(generator.random(self.shape), axis=1)
        rows = np.arange(len(order))[:, None, None]
        return DenseVerdicts(self.numbers[:, rows, order[:, :, None], order[:, None, :]])

    def chosen(self, first: Indices, second: Indices) -> VerdictBatch:
        """Return the verdicts of [G, M] comparisons."""
        score_1, score_2, ranking = self.numbers[:, np.arange(len(first))[:, None], first, second]
        return VerdictBatch(self.shape[1], first, second, score_1, score_2, ranking, ranking > 0)

    def consensus(self, used: Flags) -> Floats:
        """Return [G, n] the least-squares qualities of the used verdicts, less the judge's position
        preference.
        """
        score_1, score_2, ranking = self.numbers
        leads = np.where(score_1 == score_2, MIDDLE_RANKING - ranking, score_1 - score_2)
        leads = np.where(self.valid, leads - leads[self.valid].mean(), 0.0)
        weights = used.astype(np.float64)
        both = weights + weights.swapaxes(1, 2)
        laplacian = both.sum(axis=2)[:, :, None] * np.eye(leads.shape[1]) - both
        signed = (weights * leads).sum(axis=2) - (weights * leads).sum(axis=1)
        qualities: Floats = (np.linalg.pinv(laplacian, hermitian=True) @ signed[..., None])[..., 0]
        return qualities


def dense_group(group: Verdicts) -> dict[tuple[int, int], Verdict] | None:
    """Return the first verdict on each ordered pair, the rollouts numbered anew; None if the group
    is not dense.

    A dense group has three or more rollouts, and a verdict on nine of ten ordered pairs of them.
    """
    members = members_of(group)
    index_of = {member: index for index, member in enumerate(members)}
    n = len(members)
    verdicts = {
        (index_of[i], index_of[j]): verdict for (i, j, _), verdict in reversed(list(group.items()))
    }
    return verdicts if n > 2 and len(verdicts) >= _DENSE * n * (n - 1) else None


def members_of(group: Verdicts) -> list[int]:
    """Return the rollouts that a group compares."""
    return sorted({index for i, j, _ in group for index in (i, j)})


def dense_verdicts(groups: Sequence[Verdicts]) -> DenseVerdicts | None:
    """Return the dense groups of the size that most of them have; None without two of them."""
    by_size: dict[int, list[dict[tuple[int, int], Verdict]]] = {}
    for group in groups:
        if (verdicts := dense_group(group)) is not None:
            by_size.setdefault(len(members_of(group)), []).append(verdicts)
    n, dense = max(by_size.items(), key=lambda size: len(size[1]), default=(0, []))
    if len(dense) < 2:
        return None
    numbers = np.zeros((3, len(dense), n, n))
    for number, verdicts in enumerate(dense):
        for (i, j), verdict in verdicts.items():
            numbers[:, number, i, j] = verdict.score_1, verdict.score_2, verdict.ranking
    return DenseVerdicts(numbers)


def replay(
    dense: DenseVerdicts, plans: Sequence[Plan], estimators: Sequence[str], *, seed: int
) -> Iterator[ReplayMetrics]:
    """Yield the metrics of each plan with each estimator; plans must leave verdicts unused, and
    repeat none.
    """
    groups, n = dense.shape
    weights = bootstrap(groups, seed)
    first_rows: dict[int, Floats] = {}
    for plan in plans:
        # One plan for all groups: their rollouts are in random order already.
        pairs = indices_of(plan, n, range(1), seed)
        draws = [dense.shuffled(default_rng([seed, _SHUFFLE, draw])) for draw in range(_DRAWS)]
        drawn = [_agreements(shown, pairs, estimators) for shown in draws]
        for name, by_draw in zip(estimators, zip(*drawn, strict=True), strict=True):
            agreement: Floats = np.mean(by_draw, axis=0)
            baseline = first_rows.setdefault(plan.calls, agreement)
            yield ReplayMetrics(
                plan.strategy,
                name,
                plan.calls,
                agreement=estimated(agreement, weights),
                gain=estimated(agreement - baseline, weights),
            )


def _agreements(
    shown: DenseVerdicts, plan: tuple[Indices, Indices], estimators: Sequence[str]
) -> list[Floats]:
    """Return for each estimator [G] the agreement with the unused verdicts."""
    groups, _ = shown.shape
    first, second = (np.broadcast_to(column, (groups, column.shape[1])) for column in plan)
    unused = shown.valid.copy()
    unused[np.arange(groups)[:, None], first, second] = False
    consensus = shown.consensus(unused)
    batch = shown.chosen(first, second)
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    calibration = statistics.fit()
    made = [ESTIMATORS[name](batch, calibration) for name in estimators]
    return [correlations(each.base_scores, consensus, each.scored) for each in made]


def bootstrap(groups: int, seed: int) -> Floats:
    """Return [rounds, G] the weights of resampled groups."""
    weights: Floats = (
        default_rng([seed, _BOOTSTRAP]).multinomial(groups, np.full(groups, 1 / groups), _ROUNDS)
        / groups
    )
    return weights


def estimated(by_group: Floats, weights: Floats) -> Estimated:
    """Return the mean over groups with its interval, from the weights of `bootstrap`."""
    low, high = np.quantile(weights @ by_group, (0.025, 0.975)).tolist()
    return Estimated(float(by_group.mean()), low, high)
