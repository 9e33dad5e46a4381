"""Combine base scores, adjustments and components into the reward, rank and advantage of each
rollout of a group.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.metrics.figures import rounded, rounded_all
from genrm_cli.metrics.running_stats import has_spread, sample_variance
from genrm_cli.rewards.shaping import Adjustments, TextShape, plan_adjustments
from genrm_cli.settings.components import Shaping, TotalTable


class RolloutReward(Struct, frozen=True):
    """The numbers of one rollout.

    Attributes:
        base_score: score from the estimator. Without a verdict it is None, as are reward, rank and
            advantage.
        rank: 1 = best of the group; equal rewards share the better rank.
        advantage: (reward - group mean) / group standard deviation, of unit variance; 0 without
            spread.
    """

    base_score: float | None
    adjustments: Adjustments
    reward: float | None
    rank: int | None
    advantage: float | None

    def rounded(self) -> "RolloutReward":
        """Return the numbers as outputs have them."""
        return replace(
            self,
            base_score=None if self.base_score is None else rounded(self.base_score),
            reward=None if self.reward is None else rounded(self.reward),
        )


NO_REWARD = RolloutReward(None, Adjustments(), None, None, None)


def compose_rewards(
    base_scores: Sequence[float | None], shapes: Sequence[TextShape], terms: Shaping
) -> list[RolloutReward]:
    """Combine base scores with length and style terms, and compare the rewards within the group.

    A rollout without a base score has no reward, and is ignored in the terms, ranks and advantages
    of others."""
    scored = [index for index, score in enumerate(base_scores) if score is not None]
    scores = [score for score in base_scores if score is not None]
    adjustments = plan_adjustments(scores, [shapes[index] for index in scored], terms)
    composed = [NO_REWARD] * len(base_scores)
    totals: list[float | None] = [None] * len(base_scores)
    for index, score, adjustment in zip(scored, scores, adjustments, strict=True):
        composed[index] = replace(NO_REWARD, base_score=score, adjustments=adjustment)
        totals[index] = score + adjustment.total()
    return with_totals(composed, totals)


def with_totals(
    rewards: Sequence[RolloutReward], totals: Sequence[float | None]
) -> list[RolloutReward]:
    """Replace the rewards of a group, and recompute ranks and advantages."""
    scored = [total for total in totals if total is not None]
    ranks = iter(ranks_of(scored))
    advantages = iter(advantages_of(scored))
    return [
        replace(reward, reward=None, rank=None, advantage=None)
        if total is None
        else replace(reward, reward=total, rank=next(ranks), advantage=next(advantages))
        for reward, total in zip(rewards, totals, strict=True)
    ]


def ranks_of(rewards: Sequence[float]) -> list[int]:
    """Return each reward's rank, 1 = highest; equal ones share the better rank."""
    values = rounded_all(rewards)
    best_ranks: dict[float, int] = {}
    for rank, value in enumerate(sorted(values, reverse=True), start=1):
        best_ranks.setdefault(value, rank)
    return [best_ranks[value] for value in values]


def advantages_of(rewards: Sequence[float]) -> list[float]:
    """Return (reward - mean) / sample standard deviation; 0 without spread, and for a single
    reward.

    Source: GRPO's group-relative advantage, arXiv 2402.03300 §4.1.2, with the sample standard
    deviation (n - 1) that TRL and verl use."""
    if not has_spread(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    deviation = math.sqrt(sample_variance(rewards))
    return [(reward - mean) / deviation for reward in rewards]


def weight_of(
    kind: str, variance: float | None, pool: float | None, reliability: float | None
) -> float:
    """Return the scale of a group's unit-variance advantages.

    - `unit`: 1.
    - `pooled`: √2 / √(1 + pool / variance): a group without real differences, whose spread is
      noise, counts less. `pool` is the mean of the variances over the groups of the run.
    - `reliability`: the share of its spread that is signal, 0 to 1.
    - `raw`: its standard deviation, so that advantages are reward less mean.

    Without a known pool or reliability, the weight is 1. The variance is None for fewer than two
    rewards."""
    if kind == "raw":
        return math.sqrt(variance or 0.0)
    if kind == "pooled" and pool is not None and variance:
        return math.sqrt(2 / (1 + pool / variance))
    return reliability if kind == "reliability" and reliability is not None else 1.0


class Total(Struct, frozen=True):
    """The derivation of a reward from components.

    Attributes:
        gates: least values of components.
        terms: weight times component of each present component with a weight.
        gated_by: components below their gates; any of them makes the value 0.
        missing: missing components that prevent a value; empty if there is a value, or if all
            weights are 0.
    """

    weights: Mapping[str, float]
    terms: Mapping[str, float]
    gates: Mapping[str, float]
    gated_by: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def value(self) -> float | None:
        """The reward; None if a required component is missing, or all optional ones."""
        if self.missing or not self.terms:
            return None
        return 0.0 if self.gated_by else math.fsum(self.terms.values())


def compose_total(
    components: Mapping[str, float | None],
    table: TotalTable,
    sizes: Mapping[str, int] | None = None,
    broken: Sequence[str] = (),
    dropped: Collection[str] = (),
) -> Total:
    """Weigh and add the components of a rollout, then apply gates.

    Missing takes precedence over gated: without a component that a weight or a gate requires, the
    value is None, not 0. It is also None if every optional component is missing. Components are
    divided by `sizes`, of clusters, before they are weighted; gates apply to the undivided ones.
    `broken` gates are known to be; `dropped` components are optional and do not count."""
    sizes = sizes or {}
    weights = dict(table.weights)
    present = {name: value for name, value in components.items() if value is not None}
    # `+ 0.0` turns the -0.0 of a weight of 0 on a negative component into 0.0.
    terms = {
        name: weight * present[name] / sizes.get(name, 1) + 0.0
        for name, weight in weights.items()
        if name in present and name not in dropped
    }
    closed = (
        name
        for name, least in table.gates
        if name in present and rounded(present[name]) < rounded(least)
    )
    gated_by = tuple(dict.fromkeys([*broken, *closed]))
    required = [name for name in weights if name not in table.optional]
    required += [name for name, _ in table.gates]
    missing = tuple(name for name in dict.fromkeys(required) if name not in present)
    if not terms and not missing:
        missing = tuple(name for name in weights if name not in dropped)
    return Total(weights, terms, dict(table.gates), gated_by, missing)
