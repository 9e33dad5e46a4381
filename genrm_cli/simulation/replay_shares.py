"""Replay a panel on recorded verdicts: an expensive judge on some pairs, with and without a cheap
one on all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.random import default_rng

from genrm_cli.pairing import Comparison
from genrm_cli.rewards.estimators.shared_pairs import RunStatistics, estimate_panel
from genrm_cli.rewards.estimators.verdict_batch import Floats, VerdictBatch, Verdicts
from genrm_cli.simulation.plan_metrics import Plan, correlations, indices_of, plan_within
from genrm_cli.simulation.replay import (
    DRAWS,
    DenseVerdicts,
    Estimated,
    bootstrap,
    dense_group,
    dense_verdicts,
    estimated,
    members_of,
)
from genrm_cli.verdicts import Verdict

_RINGS = (1.0, 1.5, 2.0)
_SHUFFLE = 3

_JudgedGroups = Mapping[str, Verdicts]
"""The verdicts of a judge by the name of the group."""


@dataclass(frozen=True, slots=True)
class PanelReplay:
    """Quality and price of the verdicts of one judge, or of two that share the pairs.

    Attributes:
        judge: the judge whose qualities are estimated; its unused verdicts give the reference.
        rings: rings of pairs that it answers.
        second: the judge that answers all pairs; None if there is none.
        cost: per group.
        agreement: correlation of the rewards with the consensus of the first judge's unused
            verdicts.
        gain: over the first judge alone with the most rings that cost no more.
        reliability: as predicted.
    """

    judge: str
    rings: float
    second: str | None
    n: int
    groups: int
    cost: float
    agreement: Estimated
    gain: Estimated | None
    reliability: float | None


def replay_shares(
    judges: Mapping[str, _JudgedGroups], prices: Mapping[str, float], *, seed: int
) -> Iterator[PanelReplay]:
    """Yield each judge alone, and with each cheaper judge on all pairs, over the groups that both
    answered.
    """
    for first, second in permutations(sorted(prices, key=lambda name: -prices[name]), 2):
        if (
            prices[first] > prices[second]
            and (pair := _common(judges[first], judges[second])) is not None
        ):
            yield from _of_pair((first, second), pair, prices, seed)


def _common(
    first: _JudgedGroups, second: _JudgedGroups
) -> tuple[DenseVerdicts, DenseVerdicts] | None:
    """Return the dense verdicts of two judges on the groups that both answered; None without two of
    one size.
    """
    alike = [
        (first[name], second[name])
        for name in first
        if name in second and members_of(first[name]) == members_of(second[name])
    ]
    sizes = [len(members_of(one)) for one, _ in alike]
    size = max(sizes, key=sizes.count, default=0)
    dense = [
        both
        for both, n in zip(alike, sizes, strict=True)
        if n == size and all(map(dense_group, both))
    ]
    found = [dense_verdicts([both[which] for both in dense]) for which in (0, 1)]
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def _of_pair(
    names: tuple[str, str],
    pair: tuple[DenseVerdicts, DenseVerdicts],
    prices: Mapping[str, float],
    seed: int,
) -> Iterator[PanelReplay]:
    groups, n = pair[0].shape
    weights = bootstrap(groups, seed)
    every = Plan("all_pairs", n * (n - 1) // 2, 1)
    alone: list[tuple[float, Floats]] = []
    for second in (None, names[1]):
        for rings in _RINGS:
            plan = plan_within("ring", n, int(rings * n))
            if plan is None or plan.calls > n * (n - 1) - 2 * n:
                continue
            plans = [plan] if second is None else [plan, every]
            cost = sum(each.calls * prices[name] for each, name in zip(plans, names, strict=False))
            by_group, reliability = _agreement(pair, plans, seed)
            if second is None:
                alone.append((cost, by_group))
            affordable = [kept for price, kept in alone if price <= cost] if second else []
            yield PanelReplay(
                names[0],
                rings,
                second,
                n,
                groups,
                cost,
                agreement=estimated(by_group, weights),
                gain=estimated(by_group - affordable[-1], weights) if affordable else None,
                reliability=reliability,
            )


def _agreement(
    pair: Sequence[DenseVerdicts], plans: Sequence[Plan], seed: int
) -> tuple[Floats, float | None]:
    """Return [G] the agreement with the first judge's unused verdicts, and the predicted
    reliability.
    """
    (groups, n), found, reliabilities = pair[0].shape, [], []
    for draw in range(DRAWS):
        shown = [judge.shuffled(default_rng([seed, _SHUFFLE, draw])) for judge in pair]
        indices = [indices_of(plan, n, range(groups), seed) for plan in plans]
        batches = [judge.chosen(*each) for judge, each in zip(shown, indices, strict=False)]
        own = [[_verdicts(batch, group) for batch in batches] for group in range(groups)]
        statistics = RunStatistics()
        for verdicts in own:
            statistics.add_group(n, verdicts[0], verdicts)
        estimates = estimate_panel([(n, verdicts) for verdicts in own], statistics.fit())
        rewards = np.array([[score or 0.0 for score in each.base_scores] for each in estimates])
        scored = np.array([[score is not None for score in each.base_scores] for each in estimates])
        unused = shown[0].valid.copy()
        unused[np.arange(groups)[:, None], *indices[0]] = False
        found.append(correlations(rewards, shown[0].consensus(unused), scored))
        reliabilities += [each.reliability for each in estimates if each.reliability is not None]
    return np.mean(found, axis=0), float(np.mean(reliabilities)) if reliabilities else None


def _verdicts(batch: VerdictBatch, group: int) -> Verdicts:
    columns = (batch.first, batch.second, batch.score_1, batch.score_2, batch.ranking, batch.valid)
    rows = zip(*(column[group].tolist() for column in columns), strict=True)
    return {
        Comparison(i, j, 0): Verdict(one, two, ranking)
        for i, j, one, two, ranking, valid in rows
        if valid
    }
