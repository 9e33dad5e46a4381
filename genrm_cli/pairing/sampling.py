"""Drawing by lot, the same in every run: which rollout stands where in a plan, which pairs are made."""

from collections.abc import Iterator
from hashlib import sha256
from itertools import combinations
from random import Random

_Pairs = list[tuple[int, int]]


def generator_of(key: str, seed: int) -> Random:
    """Return a generator that depends on the group key and the run's seed, and on nothing else."""
    digest = sha256(f"{seed} {key}".encode("utf-8", "surrogatepass")).digest()
    return Random(int.from_bytes(digest, "big"))


def permutation(n: int, generator: Random) -> list[int]:
    """Return the places 0 to n - 1 in an order drawn by lot."""
    # Of a generator only random() is promised to give the same numbers in every version of Python.
    keys = [generator.random() for _ in range(n)]
    return sorted(range(n), key=keys.__getitem__)


def plan_random(n: int, count: int, generator: Random) -> _Pairs:
    """Draw so many pairs without repetition; both orders of one only where there are more than n(n - 1)/2.

    Each rollout is first as often as second, but for one.

    Args:
        n: number of rollouts.
        count: 0 to n(n - 1).
        generator: what decides.
    """
    pairs = list(combinations(range(n), 2))
    pairs = [pairs[place] for place in permutation(len(pairs), generator)][:count]
    again = count - len(pairs)
    return [*balance_orders(n, pairs[again:]), *pairs[:again], *((j, i) for i, j in pairs[:again])]


def balance_orders(n: int, pairs: _Pairs) -> _Pairs:
    """Turn pairs round so that each rollout is first as often as second, but for one where its pairs are odd.

    Pairs are laid end to end into trails, which lead out of a rollout as often as into it; none may stand there twice.

    Source: C. Hierholzer, Mathematische Annalen 6 (1873) 30.
    """
    unused: list[dict[int, None]] = [{} for _ in range(n)]
    for i, j in pairs:
        unused[i][j] = unused[j][i] = None
    # A trail from a rollout with an odd number ends in another such; what is left after those closes into circles.
    directed: set[tuple[int, int]] = set()
    for start in range(n):
        if len(unused[start]) % 2:
            directed.update(_walk(unused, start))
    for start in range(n):
        directed.update(_walk(unused, start))
    return [pair if pair in directed else (pair[1], pair[0]) for pair in pairs]


def _walk(unused: list[dict[int, None]], at: int) -> Iterator[tuple[int, int]]:
    """Yield the steps of a trail until it can go no further, and take them out."""
    while unused[at]:
        to = unused[at].popitem()[0]
        del unused[to][at]
        yield at, to
        at = to
