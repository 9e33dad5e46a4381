"""Plans of a strategy within a number of calls, and their comparisons for many groups."""

from dataclasses import dataclass

import numpy as np

from genrm_cli.pairing import RING_STRATEGIES, count_comparisons, plan_comparisons, ring_k_for_budget
from genrm_cli.rewards.estimators.verdict_batch import Indices


@dataclass(frozen=True, slots=True)
class Plan:
    """A strategy and its size: rings where it has them, else repeats of the whole list.

    Attributes:
        calls: in total per group.
        order_balanced: of `all_pairs`; False for the reference's order, the lower index always first.
    """

    strategy: str
    calls: int
    judges: int = 1
    ring_k: float = 0.0
    order_balanced: bool = True


def plan_within(strategy: str, n: int, calls: int) -> Plan | None:
    """Return the largest plan of a strategy within these calls per group; None when even the smallest takes more."""
    if strategy in RING_STRATEGIES:
        ring_k = ring_k_for_budget({n: 1}, calls, strategy)
        needed = count_comparisons(n, strategy, ring_k=ring_k)
        return Plan(strategy, needed, ring_k=ring_k) if needed else None
    once = count_comparisons(n, strategy)
    judges = calls // once
    return Plan(strategy, judges * once, judges) if judges else None


def indices_of(plan: Plan, n: int, groups: range, seed: int) -> tuple[Indices, Indices]:
    """Return [G, M] first and second indices of the comparisons of numbered groups."""
    # Only these differ from group to group.
    keys = [str(group) for group in groups] if plan.strategy in RING_STRATEGIES else [""]
    planned = np.array(
        [
            [
                (comparison.i, comparison.j)
                for comparison in plan_comparisons(
                    n,
                    plan.strategy,
                    judges=plan.judges,
                    order_balanced=plan.order_balanced,
                    ring_k=plan.ring_k,
                    key=key,
                    seed=seed,
                )
            ]
            for key in keys
        ],
        dtype=np.intp,
    )
    shape = (len(groups), plan.calls)
    return np.broadcast_to(planned[..., 0], shape), np.broadcast_to(planned[..., 1], shape)
