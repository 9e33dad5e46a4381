"""Which comparisons to make in a group of n rollouts.

Plans name rollouts by their place in the group, 0 to n - 1. Source of both strategies and their order: NVIDIA
NeMo Gym, `genrm_compare`, `generate_comparison_pairs`.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple


class Comparison(NamedTuple):
    """A planned comparison: rollout `i` is shown first, `j` second; `judge_idx` numbers the repeat from 0."""

    i: int
    j: int
    judge_idx: int


def plan_circular(n: int) -> list[tuple[int, int]]:
    """Plan each rollout against the next, the last against the first: n ordered pairs (n = 2: both orders)."""
    return [(i, (i + 1) % n) for i in range(n)] if n > 1 else []


def plan_all_pairs(n: int) -> list[tuple[int, int]]:
    """Plan every unordered pair once, the lower place always first: n(n - 1)/2 pairs."""
    return list(combinations(range(n), 2))


_STRATEGIES: dict[str, Callable[[int], list[tuple[int, int]]]] = {
    "circular": plan_circular,
    "all_pairs": plan_all_pairs,
}


def plan_comparisons(
    n: int, strategy: str, *, judges: int = 1, order_balanced: bool = False, swap: bool = False
) -> Iterator[Comparison]:
    """Plan a group's comparisons, the whole list once for each repeat; none when n < 2.

    Args:
        n: number of rollouts that can be compared.
        strategy: `circular` or `all_pairs`.
        judges: how often the whole list is asked (outermost loop).
        order_balanced: turn round every pair whose places differ by an even number, so that a rollout of
            `all_pairs` is shown first about as often as second. `circular` is balanced as it is.
        swap: plan every pair in both orders, one after the other; none twice.
    """
    pairs = _STRATEGIES[strategy](n)
    if order_balanced and strategy == "all_pairs":
        pairs = [(j, i) if (j - i) % 2 == 0 else (i, j) for i, j in pairs]
    if swap:
        pairs = list(dict.fromkeys(order for i, j in pairs for order in ((i, j), (j, i))))
    for judge_idx in range(judges):
        for i, j in pairs:
            yield Comparison(i, j, judge_idx)


def count_comparisons(n: int, strategy: str, judges: int = 1, *, swap: bool = False) -> int:
    """Count what `plan_comparisons` plans, without planning it."""
    if n < 2:
        return 0
    pairs = n if strategy == "circular" else n * (n - 1) // 2
    is_both_ways = strategy == "circular" and n == 2
    return judges * pairs * (2 if swap and not is_both_ways else 1)
