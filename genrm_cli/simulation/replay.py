"""Replay plans and estimators on the recorded verdicts of a judge that compared all pairs in both orders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng

from genrm_cli.rewards.estimators import (
    ESTIMATORS,
    BatchEstimate,
    Calibration,
    CalibrationStatistics,
    VerdictBatch,
    Verdicts,
)
from genrm_cli.rewards.estimators.least_squares import points_of
from genrm_cli.rewards.estimators.verdict_batch import Flags, Floats, Indices, scored_means
from genrm_cli.rewards.forecast import Pairs, forecast_reliability
from genrm_cli.simulation.plan_metrics import Plan, correlations, indices_of
from genrm_cli.simulation.world import ordered_pairs
from genrm_cli.verdicts import MIDDLE_RANKING, Verdict

_DENSE = 0.9  # share of the ordered pairs
DRAWS = 4  # of the order of the rollouts, and with it of the plan
ROUNDS = 1_000
_TRIES = 100
_SHUFFLE, BOOTSTRAP, _OTHER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Estimated:
    """A number with its 95 % interval by bootstrap over groups."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ReplayMetrics:
    """Quality of a plan and an estimator on recorded verdicts: means over groups and four orders of the rollouts.

    The consensus is the least-squares solution of all verdicts that the plan did not use, with the judge's position
    preference removed. Its own noise lowers the agreement, the more so the fewer verdicts are left.

    Attributes:
        agreement: Pearson's correlation of the rewards (that is, of the advantages) with the consensus.
        gain: of the agreement over the first row with as many calls.
        agreement_all: the same with the consensus of all verdicts, those of the plan included: comparable between
            plans of different sizes, and too high for each.
        false_preferences: share of the pairs of rollouts ordered otherwise by the rewards; equal rewards count half.
        reliability: as a run reports it, mean over groups; None where it is unknown.
        reliability_predicted: as a run of the strategy's first plan predicts it for this one; None for the first plan,
            and where it is unknown.
        reliability_measured: correlation with the rewards of a second such plan that has no verdict in common; None
            where there is no such plan.
        error_ratio: root mean square of the errors over the predicted one, 1 for standard errors as they should be;
            None where they are unknown, and for estimators with a scale of their own.
    """

    judge: str
    strategy: str
    estimator: str
    n: int
    groups: int
    calls: int
    agreement: Estimated
    gain: Estimated
    agreement_all: Estimated
    false_preferences: Estimated
    reliability: float | None
    reliability_predicted: float | None
    reliability_measured: Estimated | None
    error_ratio: float | None


@dataclass(frozen=True, slots=True)
class DenseVerdicts:
    """The verdicts of G groups of n rollouts on all pairs in both orders, [G, n, n] by first and second.

    Attributes:
        score_1: 0 where there is no verdict; likewise the two below.
        valid: whether there is a verdict.
    """

    score_1: Floats
    score_2: Floats
    ranking: Floats
    valid: Flags

    @property
    def shape(self) -> tuple[int, int]:
        """Groups, and rollouts in each."""
        return len(self.score_1), self.score_1.shape[1]

    @property
    def columns(self) -> tuple[Floats, Floats, Floats]:
        """Both scores and the ranking."""
        return self.score_1, self.score_2, self.ranking

    def shuffled(self, generator: Generator) -> "DenseVerdicts":
        """Return the same groups, each with its rollouts in another order."""
        groups, n = self.shape
        order = np.argsort(generator.random((groups, n)), axis=1)
        rows, first, second = np.arange(groups)[:, None, None], order[:, :, None], order[:, None, :]
        score_1, score_2, ranking = (column[rows, first, second] for column in self.columns)
        return DenseVerdicts(score_1, score_2, ranking, self.valid[rows, first, second])

    def chosen(self, first: Indices, second: Indices) -> VerdictBatch:
        """Return the verdicts of [G, M] comparisons."""
        rows = np.arange(len(first))[:, None]
        score_1, score_2, ranking = (column[rows, first, second] for column in self.columns)
        return VerdictBatch(self.shape[1], first, second, score_1, score_2, ranking, self.valid[rows, first, second])


def dense_verdicts(groups: Sequence[Verdicts]) -> DenseVerdicts | None:
    """Return the dense groups of the size that most of them have; None without two of three or more rollouts.

    A dense group has a verdict on nine of ten ordered pairs of the rollouts that it compares. A repeated comparison
    counts once, with its first verdict.
    """
    by_size: dict[int, list[dict[tuple[int, int], Verdict]]] = {}
    for group in groups:
        members = sorted({index for i, j, _ in group for index in (i, j)})
        index_of, n = {member: index for index, member in enumerate(members)}, len(members)
        verdicts = {(index_of[i], index_of[j]): verdict for (i, j, _), verdict in reversed(list(group.items()))}
        if n > 2 and len(verdicts) >= _DENSE * n * (n - 1):
            by_size.setdefault(n, []).append(verdicts)
    n, dense = max(by_size.items(), key=lambda size: len(size[1]), default=(0, []))
    if len(dense) < 2:
        return None
    table = np.zeros((3, len(dense), n, n))
    for number, verdicts in enumerate(dense):
        for (i, j), verdict in verdicts.items():
            table[:, number, i, j] = verdict.score_1, verdict.score_2, verdict.ranking
    score_1, score_2, ranking = table
    return DenseVerdicts(score_1, score_2, ranking, ranking > 0)


def replay(
    judge: str, dense: DenseVerdicts, plans: Sequence[Plan], estimators: Sequence[str], *, seed: int
) -> Iterator[ReplayMetrics]:
    """Yield the metrics of each plan with each estimator; plans must leave verdicts unused, and repeat none."""
    groups, n = dense.shape
    weights = default_rng([seed, BOOTSTRAP]).multinomial(groups, np.full(groups, 1 / groups), ROUNDS) / groups
    first_rows: dict[int, Floats] = {}
    smallest: dict[tuple[str, str], tuple[Pairs, list[_Drawn]]] = {}
    for plan in plans:
        found: dict[str, list[_Drawn]] = {name: [] for name in estimators}
        other = _other_order(plan, n, seed)
        for draw in range(DRAWS):
            shown = dense.shuffled(default_rng([seed, _SHUFFLE, draw]))
            for name, drawn in _iter_drawn(shown, plan, estimators, other, seed):
                found[name].append(drawn)
        for name, draws in found.items():
            agreement = np.mean([draw.agreement for draw in draws], axis=0)
            baseline = first_rows.setdefault(plan.calls, agreement)
            pairs = _pairs(plan, n, seed)
            made, drawn_before = smallest.setdefault((plan.strategy, name), (pairs, draws))
            predicted = None if made is pairs else _predicted(name, n, made, pairs, drawn_before)
            yield ReplayMetrics(
                judge,
                plan.strategy,
                name,
                n,
                groups,
                plan.calls,
                agreement=estimated(agreement, weights),
                gain=estimated(agreement - baseline, weights),
                agreement_all=estimated(np.mean([draw.agreement_all for draw in draws], axis=0), weights),
                false_preferences=estimated(np.mean([draw.false_shares for draw in draws], axis=0), weights),
                reliability=_mean_or_none([draw.reliability for draw in draws]),
                reliability_predicted=predicted,
                reliability_measured=None if other is None else _correlation(draws, weights),
                error_ratio=_mean_or_none([draw.error_ratio for draw in draws]),
            )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The numbers of one order of the rollouts: by group [G], those of the second plan [3, G], or over all."""

    agreement: Floats
    agreement_all: Floats
    false_shares: Floats
    reliability: float | None
    error_ratio: float | None
    products: Floats
    calibration: Calibration


def _iter_drawn(
    shown: DenseVerdicts, plan: Plan, estimators: Sequence[str], other: Indices | None, seed: int
) -> Iterator[tuple[str, _Drawn]]:
    groups, n = shown.shape
    first, second = _indices(plan, n, groups, seed)
    batch, unused = shown.chosen(first, second), shown.valid.copy()
    consensus_all, _ = consensus_of(preferences_of(shown), unused)
    unused[np.arange(groups)[:, None], first, second] = False
    consensus, _ = consensus_of(preferences_of(shown), unused)
    estimates, calibration = _estimates(batch, estimators)
    seconds = None if other is None else _estimates(shown.chosen(other[first], other[second]), estimators)[0]
    units = _units(shown)
    for name, estimate in estimates.items():
        rewards = estimate.base_scores
        yield (
            name,
            _Drawn(
                agreement=correlations(rewards, consensus, estimate.scored),
                agreement_all=correlations(rewards, consensus_all, estimate.scored),
                false_shares=_false_shares(rewards, consensus, estimate.scored),
                reliability=float(estimate.reliabilities.mean()) if estimate.assessed.all() else None,
                error_ratio=_error_ratio(shown, unused, estimate, units.get(name)),
                products=np.zeros((3, groups)) if seconds is None else _products(estimate, seconds[name]),
                calibration=calibration,
            ),
        )


def _indices(plan: Plan, n: int, groups: int, seed: int) -> tuple[Indices, Indices]:
    """Return one plan for all groups: their rollouts are in random order already."""
    first, second = indices_of(plan, n, range(1), seed)
    return np.repeat(first, groups, axis=0), np.repeat(second, groups, axis=0)


def _other_order(plan: Plan, n: int, seed: int) -> Indices | None:
    """Return an order of the rollouts in which the plan repeats no verdict, and as few pairs as were found.

    None where every order that was tried repeats a verdict.
    """
    generator, used = default_rng([seed, _OTHER]), np.zeros((n, n), dtype=np.bool_)
    first, second = (column[0] for column in _indices(plan, n, 1, seed))
    used[first, second] = True
    best, fewest = None, n * n
    for _ in range(_TRIES):
        order = generator.permutation(n)
        repeated = int(used[order[second], order[first]].sum())
        if repeated < fewest and not used[order[first], order[second]].any():
            best, fewest = order, repeated
    return best


def _pairs(plan: Plan, n: int, seed: int) -> Pairs:
    first, second = _indices(plan, n, 1, seed)
    return list(zip(first[0].tolist(), second[0].tolist(), strict=True))


def _predicted(estimator: str, n: int, made: Pairs, pairs: Pairs, draws: Sequence[_Drawn]) -> float | None:
    """Return the reliability with these pairs, as a run of those that were made predicts it."""
    forecasts = [
        forecast_reliability(estimator, n, made, pairs, draw.reliability or 0.0, draw.calibration) for draw in draws
    ]
    return _mean_or_none([None if each is None else each.value for each in forecasts])


def _estimates(batch: VerdictBatch, estimators: Sequence[str]) -> tuple[dict[str, BatchEstimate], Calibration]:
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    calibration = statistics.fit()
    return {name: ESTIMATORS[name](batch, calibration) for name in estimators}, calibration


def preferences_of(shown: DenseVerdicts) -> Floats:
    """Return [G, n, n] by how much the first is preferred, less the mean over all verdicts."""
    gaps = shown.score_1 - shown.score_2
    return _less_bias(np.where(gaps == 0, MIDDLE_RANKING - shown.ranking, gaps), shown.valid)


def _less_bias(leads: Floats, valid: Flags) -> Floats:
    return np.where(valid, leads - leads[valid].mean(), 0.0)


def consensus_of(leads: Floats, used: Flags) -> tuple[Floats, Floats]:
    """Return [G, n] the least-squares qualities of the used leads, and their variances against the group's mean."""
    weights = used.astype(np.float64)
    both = weights + weights.swapaxes(1, 2)
    laplacian = both.sum(axis=2)[:, :, None] * np.eye(leads.shape[1]) - both
    signed = (weights * leads).sum(axis=2) - (weights * leads).sum(axis=1)
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    qualities = (inverse @ signed[..., None])[..., 0]
    errors = (leads - qualities[:, :, None] + qualities[:, None, :]) * weights
    freedom = weights.sum() - len(leads) * (leads.shape[1] - 1)
    noise = float((errors**2).sum() / max(1.0, freedom))
    return qualities, noise * np.diagonal(inverse, axis1=1, axis2=2)


def _false_shares(rewards: Floats, consensus: Floats, scored: Flags) -> Floats:
    """Return [G] the share of the pairs that the consensus orders and the rewards do not; equal ones count half."""
    given, right = (np.sign(np.round(x[:, :, None] - x[:, None, :], 9)) for x in (rewards, consensus))
    counted = (right != 0) & scored[:, :, None] & scored[:, None, :]
    wrong = np.where(counted, (1 - given * right) / 2, 0.0).sum(axis=(1, 2))
    shares: Floats = wrong / np.maximum(counted.sum(axis=(1, 2)), 1)
    return shares


def _units(shown: DenseVerdicts) -> dict[str, float]:
    """Return what (d + r) / 2 is worth in base scores, of the estimators whose errors can be compared with it."""
    statistics = CalibrationStatistics()
    statistics.add_batch(shown.chosen(*ordered_pairs(*shown.shape)))
    fit = statistics.fit()
    units = {"combined": 1.0}
    return units if fit.noise is None else units | {"adaptive": points_of(fit) / fit.noise.scale}


def _error_ratio(shown: DenseVerdicts, unused: Flags, estimate: BatchEstimate, unit: float | None) -> float | None:
    """Return the errors against the consensus of unused verdicts over the predicted ones, its own included."""
    if unit is None or not estimate.known.all():
        return None
    leads = (shown.score_1 - shown.score_2 + MIDDLE_RANKING - shown.ranking) / 2
    leads = unit * _less_bias(leads, shown.valid)
    consensus, variances = consensus_of(leads, unused)
    centred = estimate.base_scores - scored_means(estimate.base_scores, estimate.scored)
    errors = ((centred - consensus) ** 2)[estimate.scored].mean()
    return float(np.sqrt(errors / (estimate.variances + variances)[estimate.scored].mean()))


def _products(one: BatchEstimate, other: BatchEstimate) -> Floats:
    """Return [3, G] sums of the products of the base scores less their means: of both, and of each with itself."""
    scored = one.scored & other.scored
    x, y = (np.where(scored, each.base_scores - scored_means(each.base_scores, scored), 0.0) for each in (one, other))
    return np.stack([(x * y).sum(axis=1), (x * x).sum(axis=1), (y * y).sum(axis=1)])


def _correlation(draws: Sequence[_Drawn], weights: Floats) -> Estimated | None:
    """Return the correlation of the two plans' rewards within groups; None where they have no spread."""
    sums = np.sum([draw.products for draw in draws], axis=0)
    resampled = np.concatenate([np.full((1, sums.shape[1]), 1 / sums.shape[1]), weights]) @ sums.T
    scale = np.sqrt(resampled[:, 1] * resampled[:, 2])
    if not (scale > 0).all():
        return None
    value, *rest = (resampled[:, 0] / scale).tolist()
    return Estimated(value, *np.quantile(rest, (0.025, 0.975)).tolist())


def estimated(by_group: Floats, weights: Floats) -> Estimated:
    """Return the mean over groups with its interval; the weights of the groups are [rounds, G]."""
    low, high = np.quantile(weights @ by_group, (0.025, 0.975)).tolist()
    return Estimated(float(by_group.mean()), low, high)


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None
