"""Seeded random choices, equal in every run: the permutation of a ring, and random pairs."""

from collections.abc import Iterator
from hashlib import sha256
from itertools import combinations
from random import Random

_Pairs = list[tuple[int, int]]
_MAX_LISTED_N = 512  # rollouts; above it, listing all pairs would take longer than the plan


def generator_of(key: str, seed: int) -> Random:
    """Return a generator seeded only with the group key and the seed of the run."""
    digest = sha256(f"{seed} {key}".encode("utf-8", "surrogatepass")).digest()
    return Random(int.from_bytes(digest, "big"))


def permutation(n: int, generator: Random) -> list[int]:
    """Return 0 to n - 1 in random order."""
    # Only random() is guaranteed to give the same numbers in every version of Python.
    keys = [generator.random() for _ in range(n)]
    return sorted(range(n), key=keys.__getitem__)


def plan_random(n: int, count: int, generator: Random) -> _Pairs:
    """Draw random pairs without repetition; both orders of a pair only if `count` exceeds n(n - 1)/2.

    Each rollout is first as often as second, within one. `count` is 0 to n(n - 1).
    """
    if n > _MAX_LISTED_N and count < n * (n - 1) // 4:
        return balance_orders(n, _draw_pairs(n, count, generator))
    pairs = list(combinations(range(n), 2))
    pairs = [pairs[index] for index in permutation(len(pairs), generator)][:count]
    again = count - len(pairs)
    return [*balance_orders(n, pairs[again:]), *pairs[:again], *((j, i) for i, j in pairs[:again])]


def _draw_pairs(n: int, count: int, generator: Random) -> _Pairs:
    """Draw at most half of all pairs, in time linear in their number."""
    drawn = dict[tuple[int, int], None]()
    while len(drawn) < count:
        i, j = int(generator.random() * n), int(generator.random() * n)
        if i != j:
            drawn[min(i, j), max(i, j)] = None
    return list(drawn)


def balance_orders(n: int, pairs: _Pairs) -> _Pairs:
    """Swap pairs so that each rollout is first as often as second, within one if its number of pairs is odd.

    Pairs are joined into trails, which leave each rollout as often as they enter it. No pair may occur twice.

    Source: C. Hierholzer, Mathematische Annalen 6 (1873) 30.
    """
    unused: list[dict[int, None]] = [{} for _ in range(n)]
    for i, j in pairs:
        unused[i][j] = unused[j][i] = None
    # A trail from a rollout with an odd degree ends in another one; all remaining trails are closed.
    directed: set[tuple[int, int]] = set()
    for start in range(n):
        if len(unused[start]) % 2:
            directed.update(_walk(unused, start))
    for start in range(n):
        directed.update(_walk(unused, start))
    return [pair if pair in directed else (pair[1], pair[0]) for pair in pairs]


def _walk(unused: list[dict[int, None]], at: int) -> Iterator[tuple[int, int]]:
    """Yield the steps of a trail until it ends, and remove them."""
    while unused[at]:
        to = unused[at].popitem()[0]
        del unused[to][at]
        yield at, to
        at = to
