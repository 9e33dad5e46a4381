"""Plan the comparisons of a group of n rollouts: which pairs, and how many calls.

Plans name rollouts by their index in the group, 0 to n - 1. Source of `circular` and `all_pairs`
and their order: NVIDIA NeMo Gym, `genrm_compare`, `generate_comparison_pairs`.

In rings, every rollout is compared about equally often, and shown first as often as second. A ring
of one offset o is all (t, t + o mod n). Rings are added until all pairs are compared; opposite
rollouts of an even n form two rings of half the length, one for each order. Then the rings repeat
in the other order."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from heapq import heappop, heappush
from itertools import combinations
from math import floor, gcd
from random import Random
from typing import NamedTuple

from msgspec import Struct

_Pairs = list[tuple[int, int]]
AGAINST_FIRST = "against_first"
"""A strategy of ours: each rollout but the first against the first one."""


class Comparison(NamedTuple):
    """A planned comparison: rollout `i` is shown first, `j` second; `judge_idx` is the number of
    the repeat, from 0.
    """

    i: int
    j: int
    judge_idx: int


class PairingPlan(Struct, frozen=True):
    """The comparisons to make in each group; the fields are the settings of the same names.

    Attributes:
        strategy: `circular`, each rollout against the next, the last against the first;
            `all_pairs`, every pair once, the lower index first; `ring`, n times `ring_k` different
            pairs, spread as evenly as possible; or `AGAINST_FIRST`, with index 0 shown first in
            every other pair, beginning with a pair that the key decides.
        ring_k: number of rings, 0 or more, see `plan_ring`; a fraction takes a share of one. No
            ordered pair is planned twice, so there are at most n(n - 1).
        repeats: repeats of the whole list (outermost loop).
        both_orders: plan every pair in both orders, one after the other, each once.
        order_balanced: swap every pair whose indices differ by an even number, so that a rollout of
            `all_pairs` is shown first about as often as second. The other strategies are always
            balanced.
        seed: random seed of the run; with the group key, it determines the permutation of a ring.
        goal: what the comparisons are to find; see `plan_further`.
        max_extra: limit of the calls about a group beyond the planned ones, as a share of these; 0
            for none.
    """

    strategy: str = "ring"
    ring_k: float = 1.0
    repeats: int = 1
    both_orders: bool = False
    order_balanced: bool = False
    seed: int = 0
    goal: str = "rewards"
    max_extra: float = 0.0

    def iter_pairs(self, n: int, key: str = "") -> Iterator[Comparison]:
        """Yield the comparisons of n comparable rollouts, the whole list once per repeat; none if n
        < 2.

        Raises:
            KeyError: unknown strategy.
        """
        if n < 2:
            return
        generator = generator_of(key, self.seed)
        order = permutation(n, generator) if self.strategy == "ring" else range(n)
        pairs = [(order[i], order[j]) for i, j in _STRATEGIES[self.strategy](n, self.ring_k)]
        if self.order_balanced and self.strategy == "all_pairs":
            pairs = [(j, i) if (j - i) % 2 == 0 else (i, j) for i, j in pairs]
        if self.strategy == AGAINST_FIRST and generator.random() < 0.5:
            pairs = [(j, i) for i, j in pairs]
        if self.both_orders:
            pairs = list(dict.fromkeys(pair for i, j in pairs for pair in ((i, j), (j, i))))
        for judge_idx in range(self.repeats):
            for i, j in pairs:
                yield Comparison(i, j, judge_idx)

    def count(self, n: int) -> int:
        """Count the comparisons of n rollouts."""
        if n < 2:
            return 0
        every = n * (n - 1) // 2
        orders = {
            "circular": n,
            "all_pairs": every,
            "ring": count_ring(n, self.ring_k),
            AGAINST_FIRST: n - 1,
        }[self.strategy]
        # Every strategy plans all pairs before it plans any in the other order.
        return self.repeats * (2 * min(every, orders) if self.both_orders else orders)

    def count_further(self, n: int) -> int:
        """Count those that depend on the verdicts of the others."""
        return 0 if self.goal == "rewards" else max(0, self.count(n) - count_first(n, self.goal))


def plan_further(
    scores: Mapping[int, float], asked: Sequence[tuple[int, int]], goal: str, count: int
) -> _Pairs:
    """Plan the comparisons that say most about the `best` rollout, or about the best and the worst,
    the `pair`.

    These are the pairs with the greatest sum of scores; for `pair`, every other one has the least.
    A pair is asked once, and in the other order once all pairs have been asked.

    Args:
        scores: of n rollouts, by index; rounded, so that no last bit decides. Their order
            decides between equal sums.
        asked: comparisons so far, failed ones included: the first of each pair, then the second.
        count: comparisons to plan; with those asked at most n(n - 1).

    Source: measured on recorded verdicts; similar to top-two sampling, D. Russo, Oper. Res. 68
    (2020) 1625."""
    every = len(scores) * (len(scores) - 1) // 2
    known = set(asked)
    turns = {index: turn for turn, index in enumerate(scores)}
    leads = Counter(i for i, _ in asked)
    leads.subtract(j for _, j in asked)
    planned: _Pairs = []
    for number in range(len(asked), len(asked) + count):
        sign = -1 if goal == "pair" and number % 2 else 1
        # Before all pairs have been asked, those that have not in either order; then those that
        # have in one.
        i, j = next(
            (i, j)
            for i, j in _iter_by_sum(scores, sign)
            if ((i, j) in known) + ((j, i) in known) == number // every
        )
        if (j, i) not in known and ((i, j) in known or (leads[i], turns[i]) > (leads[j], turns[j])):
            i, j = j, i
        leads.update({i: 1, j: -1})
        known.add((i, j))
        planned.append((i, j))
    return planned


def count_first(n: int, goal: str) -> int:
    """Return how many comparisons of the ring precede the choice: with half a ring, rounded up,
    each has been in one.

    The best is found with the fewest; the ends of `pair` need more, as they are the extremes of
    more noise."""
    return (n + 1) // 2 if goal == "best" else 3 * n // 4


def further_at_once(n: int) -> int:
    """Return how many comparisons to plan before their verdicts are needed: 2, more in groups above
    16.

    The smaller, the better the plan; but each batch takes as long as the judge's slowest reply.
    """
    return max(2, n // 8)


def _iter_by_sum(scores: Mapping[int, float], sign: int) -> Iterator[tuple[int, int]]:
    """Yield all pairs, those with the greatest sum of signed scores first."""
    ranked = sorted(scores, key=lambda index: -sign * scores[index])
    below = [-sign * scores[index] for index in ranked]
    waiting = [(below[0] + below[1], 0, 1)]
    while waiting:
        _, a, b = heappop(waiting)
        yield ranked[a], ranked[b]
        if b + 1 < len(ranked):
            heappush(waiting, (below[a] + below[b + 1], a, b + 1))
            if b == a + 1:
                heappush(waiting, (below[b] + below[b + 1], b, b + 1))


def count_offsets(n: int) -> int:
    """Count the offsets that join n different pairs each: 1 to (n - 1)/2."""
    return max(0, (n - 1) // 2)


@lru_cache
def spread_offsets(n: int, k: int) -> tuple[int, ...]:
    """Return 1 and k - 1 further offsets, each about n^(1/k) times the one before, or the next
    unused one.

    This connects rollouts like a k-dimensional lattice with equal sides. The choice of offsets
    hardly matters as long as all rollouts have the same number of opponents; offset 1 connects all
    rollouts.

    Source: A. Pananjady et al., Ann. Stat. 48 (2020) 1072 (the risk depends on the degrees of the
    graph)."""
    every = count_offsets(n)
    chosen = dict[int, None]()
    for step in range(k):
        offset = min(every, round(n ** (step / k)))
        while offset in chosen:
            offset = offset % every + 1
        chosen[offset] = None
    return tuple(sorted(chosen))


def ring_sizes(n: int) -> list[int]:
    """Return the number of comparisons of each ring of n rollouts; together n(n - 1), every ordered
    pair.

    Two rollouts have one ring, both orders.
    """
    rings = [n] * count_offsets(n)
    if n == 2:
        return [2]
    return rings + ([] if n % 2 else [n // 2] * 2) + rings


@lru_cache
def count_ring(n: int, k: float) -> int:
    """Count the comparisons of k rings; a fraction takes that share of the next ring, rounded
    down.
    """
    sizes = ring_sizes(n)
    whole = int(k)
    return sum(sizes[:whole]) + sum(_part_of(size, k) for size in sizes[whole : whole + 1])


def plan_ring(n: int, k: float) -> _Pairs:
    """Plan k rings with spread offsets. No ordered pair occurs twice, so there are at most n(n - 1)
    comparisons.

    After whole rings each rollout is first as often as second; after a half ring or a share of a
    ring, within one."""
    count = count_offsets(n)
    opposites: _Pairs = []
    if n % 2 == 0:
        half = n // 2
        opposites = [(t + half, t) if t % 2 else (t, t + half) for t in range(half)]
        opposites += [(j, i) for i, j in opposites]
    planned = _plan_offsets(n, min(k, count))
    planned += opposites[: max(0, count_ring(n, k) - n * count)]
    again = k - (len(ring_sizes(n)) - count)
    return planned + [(j, i) for i, j in _plan_offsets(n, max(0.0, min(again, count)))]


def _part_of(size: int, k: float) -> int:
    # 0.3 of a ring of 10 is 3, although 10 * (2.3 - 2) is a little less.
    return floor((k - int(k)) * size + 1e-9)


def _plan_offsets(n: int, k: float) -> _Pairs:
    """Plan k of the rings with an offset."""
    offsets = spread_offsets(n, int(k))
    planned = [pair for offset in offsets for pair in _ring_of(n, offset)]
    part = _part_of(n, k)
    if not part:
        return planned
    added = next(offset for offset in spread_offsets(n, int(k) + 1) if offset not in offsets)
    return [*planned, *_ring_of(n, added)[:part]]


@lru_cache(16)
def _ring_of(n: int, offset: int) -> tuple[tuple[int, int], ...]:
    """Return all (t, t + offset), those without a rollout in common first.

    Therefore a share of a ring also spreads its comparisons evenly.
    """
    cycles = gcd(n, offset)
    length = n // gcd(n, offset)
    apart = list(range(0, length - 1, 2))
    joining = sorted(set(range(length)) - set(apart), reverse=True)
    starts = [
        (start + step * offset) % n
        for steps in (apart, joining)
        for step in steps
        for start in range(cycles)
    ]
    return tuple((t, (t + offset) % n) for t in starts)  # it is cached, so it must not change


def generator_of(key: str, seed: int) -> Random:
    """Return a generator seeded only with the group key and the seed of the run."""
    digest = sha256(f"{seed} {key}".encode("utf-8", "surrogatepass")).digest()
    return Random(int.from_bytes(digest, "big"))


def permutation(n: int, generator: Random) -> list[int]:
    """Return 0 to n - 1 in random order."""
    # Only random() is guaranteed to give the same numbers in every version of Python.
    keys = [generator.random() for _ in range(n)]
    return sorted(range(n), key=keys.__getitem__)


_STRATEGIES: dict[str, Callable[[int, float], _Pairs]] = {
    "circular": lambda n, _: [(i, (i + 1) % n) for i in range(n)],
    "all_pairs": lambda n, _: list(combinations(range(n), 2)),
    "ring": plan_ring,
    AGAINST_FIRST: lambda n, _: [(0, i) if i % 2 else (i, 0) for i in range(1, n)],
}
STRATEGIES = tuple(name for name in _STRATEGIES if name != AGAINST_FIRST)
