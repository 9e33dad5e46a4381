"""Plan the comparisons of a group of n rollouts.

Plans name rollouts by their index in the group, 0 to n - 1. Source of `circular` and `all_pairs` and their order:
NVIDIA NeMo Gym, `genrm_compare`, `generate_comparison_pairs`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from genrm_cli.pairing.ring import count_ring, generator_of, permutation, plan_ring, ring_sizes

_Pairs = list[tuple[int, int]]
_SHARES = 10_000  # steps per ring when `ring_k` is fitted to a budget


class Comparison(NamedTuple):
    """A planned comparison: rollout `i` is shown first, `j` second; `judge_idx` is the number of the repeat, from 0."""

    i: int
    j: int
    judge_idx: int


def plan_comparisons(
    n: int,
    strategy: str,
    *,
    repeats: int = 1,
    order_balanced: bool = False,
    both_orders: bool = False,
    ring_k: float = 2.0,
    key: str = "",
    seed: int = 0,
) -> Iterator[Comparison]:
    """Plan the comparisons of a group, the whole list once per repeat; none if n < 2.

    Args:
        n: number of comparable rollouts.
        strategy: `circular`, each rollout against the next, the last against the first; `all_pairs`, every pair once,
            the lower index first; or `ring`, n times `ring_k` different pairs, spread as evenly as possible.
        repeats: repeats of the whole list (outermost loop).
        order_balanced: swap every pair whose indices differ by an even number, so that a rollout of
            `all_pairs` is shown first about as often as second. The other strategies are always balanced.
        both_orders: plan every pair in both orders, one after the other, each once.
        ring_k: number of rings, 0 or more, see `plan_ring`; a fraction takes a share of one. No ordered pair is planned
            twice, so there are at most n(n - 1).
        key: the group key. Together with the seed, it determines the permutation of a ring.
        seed: random seed of the run.

    Raises:
        KeyError: unknown strategy.
    """
    order = permutation(n, generator_of(key, seed)) if strategy == "ring" else range(n)
    pairs = [(order[i], order[j]) for i, j in _STRATEGIES[strategy](n, ring_k)] if n > 1 else []
    if order_balanced and strategy == "all_pairs":
        pairs = [(j, i) if (j - i) % 2 == 0 else (i, j) for i, j in pairs]
    if both_orders:
        pairs = list(dict.fromkeys(pair for i, j in pairs for pair in ((i, j), (j, i))))
    for judge_idx in range(repeats):
        for i, j in pairs:
            yield Comparison(i, j, judge_idx)


def count_comparisons(
    n: int, strategy: str, repeats: int = 1, *, both_orders: bool = False, ring_k: float = 2.0
) -> int:
    """Return the number of comparisons that `plan_comparisons` would plan."""
    if n < 2:
        return 0
    every = n * (n - 1) // 2
    orders = {"circular": n, "all_pairs": every, "ring": count_ring(n, ring_k)}[strategy]
    # Every strategy plans all pairs before it plans any in the other order.
    return repeats * (2 * min(every, orders) if both_orders else orders)


def ring_k_for_budget(
    group_sizes: Mapping[int, int], calls: int, *, repeats: int = 1, both_orders: bool = False
) -> float:
    """Return the smallest `ring_k`, in ten-thousandths of a ring, that uses as many of the calls as possible.

    Every group gets the same share of its next ring, rounded down to whole comparisons, so up to about one call per
    group stays unused. 0 if the budget allows no comparison. `group_sizes` is the number of groups by the number of
    their comparable rollouts.
    """

    def needed(share: int) -> int:
        k = share / _SHARES
        return sum(
            groups * count_comparisons(n, "ring", repeats, both_orders=both_orders, ring_k=k)
            for n, groups in group_sizes.items()
        )

    enough = max((len(ring_sizes(n)) for n in group_sizes), default=0)
    shares = range(enough * _SHARES + 1)
    most = needed(bisect_right(shares, calls, key=needed) - 1)
    return bisect_left(shares, most, key=needed) / _SHARES


_STRATEGIES: dict[str, Callable[[int, float], _Pairs]] = {
    "circular": lambda n, _: [(i, (i + 1) % n) for i in range(n)],
    "all_pairs": lambda n, _: list(combinations(range(n), 2)),
    "ring": plan_ring,
}
STRATEGIES = tuple(_STRATEGIES)
