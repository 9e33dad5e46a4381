"""Which plan of a strategy a number of calls buys, and its comparisons for many groups."""

from dataclasses import dataclass

import numpy as np

from genrm_cli.pairing import count_comparisons, plan_comparisons
from genrm_cli.rewards.estimators.verdict_batch import Places

STRATEGIES = ("circular", "all_pairs")


@dataclass(frozen=True, slots=True)
class Plan:
    """A strategy with its size: `judges` repeats of the whole list, `calls` in all for each group."""

    strategy: str
    calls: int
    judges: int = 1


def plan_within(strategy: str, n: int, calls: int) -> Plan | None:
    """Return the largest plan of a strategy that takes no more calls a group; None when they buy none."""
    once = count_comparisons(n, strategy)
    judges = calls // once
    return Plan(strategy, judges * once, judges) if judges else None


def places_of(plan: Plan, n: int, groups: range, seed: int) -> tuple[Places, Places]:
    """Return [G, M] first and second places of the comparisons of numbered groups."""
    planned = np.array([(c.i, c.j) for c in plan_comparisons(n, plan.strategy, judges=plan.judges)], dtype=np.intp)
    shape = (len(groups), len(planned))
    return np.broadcast_to(planned[:, 0], shape), np.broadcast_to(planned[:, 1], shape)
