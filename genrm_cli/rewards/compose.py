"""Combine base scores and adjustments into the reward, rank and advantage of each rollout of a group."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from genrm_cli.rewards.shaping import Adjustments, ShapingTerms, TextShape, plan_adjustments


@dataclass(frozen=True, slots=True)
class RolloutReward:
    """The numbers of one rollout.

    Attributes:
        base_score: score from the estimator. Without a verdict it is None, as are reward, rank and advantage.
        adjustments: the length and style terms.
        reward: base score plus adjustments.
        rank: 1 = best of the group; equal rewards share the better rank.
        advantage: (reward - group mean) / group standard deviation; 0 without spread.
    """

    base_score: float | None
    adjustments: Adjustments
    reward: float | None
    rank: int | None
    advantage: float | None


def compose_rewards(
    base_scores: Sequence[float | None],
    shapes: Sequence[TextShape],
    terms: ShapingTerms,
) -> list[RolloutReward]:
    """Combine base scores with length and style terms, and compare the rewards within the group.

    A rollout without a base score has no reward, and is ignored in the terms, ranks and advantages of others.
    """
    scored = [index for index, score in enumerate(base_scores) if score is not None]
    scores = [score for score in base_scores if score is not None]
    adjustments = plan_adjustments(scores, [shapes[index] for index in scored], terms)
    rewards = [score + adjustment.total() for score, adjustment in zip(scores, adjustments, strict=True)]
    composed = [RolloutReward(None, Adjustments(), None, None, None) for _ in base_scores]
    rows = zip(scored, scores, adjustments, rewards, ranks_of(rewards), advantages_of(rewards), strict=True)
    for index, *numbers in rows:
        composed[index] = RolloutReward(*numbers)
    return composed


def with_totals(rewards: Sequence[RolloutReward], totals: Sequence[float | None]) -> list[RolloutReward]:
    """Replace the rewards of a group, and recompute ranks and advantages."""
    scored = [total for total in totals if total is not None]
    ranks, advantages = iter(ranks_of(scored)), iter(advantages_of(scored))
    return [
        replace(reward, reward=None, rank=None, advantage=None)
        if total is None
        else replace(reward, reward=total, rank=next(ranks), advantage=next(advantages))
        for reward, total in zip(rewards, totals, strict=True)
    ]


def ranks_of(rewards: Sequence[float]) -> list[int]:
    """Return each reward's rank, 1 = highest; equal ones share the better rank."""
    best_ranks: dict[float, int] = {}
    for rank, reward in enumerate(sorted(rewards, reverse=True), start=1):
        best_ranks.setdefault(reward, rank)
    return [best_ranks[reward] for reward in rewards]


def advantages_of(rewards: Sequence[float]) -> list[float]:
    """Return (reward - mean) / sample standard deviation; 0 without spread, and for a single reward.

    A spread below 1e-9 of the largest reward counts as rounding.

    Source: GRPO's group-relative advantage, arXiv 2402.03300 §4.1.2, with the sample standard deviation
    (n - 1) that TRL and verl use.
    """
    n = len(rewards)
    if n < 2 or max(rewards) - min(rewards) <= 1e-9 * max(1.0, *map(abs, rewards)):
        return [0.0] * n
    mean = math.fsum(rewards) / n
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / (n - 1))
    return [(reward - mean) / deviation for reward in rewards]
