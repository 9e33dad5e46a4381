"""Which distances apart the rollouts of a ring are compared, so that the fewest comparisons say the most."""

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

_MAX_SETS = 20_000  # as many are compared at once
_MAX_SOUGHT_N = 64
_MAX_TRIED_CELLS = 500_000  # 20 ms
_CELLS = 1 << 20  # bounds the memory of that
# As stated by the design; {2, 3} is better by a fiftieth.
_STATED = {(12, 2): (1, 3)}

_Floats = npt.NDArray[np.float64]


def count_offsets(n: int) -> int:
    """Count the distances of which each joins n different pairs: 1 to (n - 1)/2."""
    return max(0, (n - 1) // 2)


@lru_cache(maxsize=1024)
def best_offsets(n: int, k: int) -> tuple[int, ...]:
    """Return the k offsets that minimise the sum over l = 1 to n - 1 of 1 / sum over o of (2 - 2 cos(2 pi l o / n)).

    That is the mean variance of the qualities that least squares finds in a ring with these offsets. Of equally good
    sets the first in order. Where there are more than 20,000 sets, those that `seek_offsets` finds, and for more than
    64 rollouts those of `spread_offsets`; at most a fiftieth worse wherever both were tried.

    Args:
        n: rollouts in the ring.
        k: 0 to (n - 1)/2.

    Source: B. Osting, C. Brune, S. Osher, Journal of Machine Learning Research 15 (2014) 2981 (optimal data collection
    for ranking by the Fisher information); the eigenvalues are those of a circulant graph.
    """
    if n > _MAX_SOUGHT_N:
        return spread_offsets(n, k)
    if (n, k) in _STATED:
        return _STATED[n, k]
    every = range(1, count_offsets(n) + 1)
    if comb(len(every), k) <= _MAX_SETS:
        return _best_of(n, np.array(list(combinations(every, k)), dtype=np.intp))
    return seek_offsets(n, k)


def spread_offsets(n: int, k: int) -> tuple[int, ...]:
    """Return 1 and k - 1 further offsets, each about n^(1/k) times the one before, or the next that is free.

    So rollouts are joined as in a lattice of k dimensions with equal sides; no search.
    """
    every, chosen = count_offsets(n), set[int]()
    for step in range(k):
        offset = min(every, round(n ** (step / k)))
        while offset in chosen:
            offset = offset % every + 1
        chosen.add(offset)
    return tuple(sorted(chosen))


def seek_offsets(n: int, k: int) -> tuple[int, ...]:
    """Return k offsets that are nearly best: added one by one, then exchanged one at a time while that helps."""
    chosen: tuple[int, ...] = ()
    while len(chosen) < k:
        chosen = tuple(sorted((*chosen, next_offset(n, chosen))))
    while (exchanged := _best_exchange(n, chosen)) != chosen:
        chosen = exchanged
    return chosen


@lru_cache(maxsize=1024)
def next_offset(n: int, chosen: tuple[int, ...]) -> int:
    """Return the offset that is best added to these, in large groups of some; not all may be chosen yet."""
    free = [offset for offset in range(1, count_offsets(n) + 1) if offset not in chosen]
    free = free[:: 1 + len(free) * (len(chosen) + 1) * n // 2 // _MAX_TRIED_CELLS]
    best = _best_of(n, np.array([(*chosen, offset) for offset in free], dtype=np.intp))
    return best[-1]


def _best_exchange(n: int, chosen: tuple[int, ...]) -> tuple[int, ...]:
    """Return the best set that differs in at most one offset; these where none is better."""
    free = [offset for offset in range(1, count_offsets(n) + 1) if offset not in chosen]
    sets = [chosen]
    for left_out in chosen if len(chosen) * len(free) <= _MAX_SETS else ():
        kept = [offset for offset in chosen if offset != left_out]
        sets += [tuple(sorted((*kept, offset))) for offset in free]
    return _best_of(n, np.array(sets, dtype=np.intp))


def _best_of(n: int, sets: npt.NDArray[np.intp]) -> tuple[int, ...]:
    """Return the first of the best rows, rounding aside."""
    costs = _costs(n, sets)
    return tuple(sets[int(np.argmax(costs <= costs.min() * (1 + 1e-9)))].tolist())


def _costs(n: int, sets: npt.NDArray[np.intp]) -> _Floats:
    """Return the criterion of each row of offsets; infinite where they do not join all rollouts."""
    frequencies = np.arange(1, n // 2 + 1)
    # l and n - l give the same; only n/2 is its own mirror image.
    times = np.where(2 * frequencies == n, 1.0, 2.0)
    wave = 2 - 2 * np.cos(2 * np.pi * np.arange(n) / n)
    costs = np.empty(len(sets))
    rows = 1 + _CELLS // n
    for start in range(0, len(sets), rows):
        some = sets[start : start + rows]
        stiffness = np.zeros((len(some), len(frequencies)))
        for column in some.T:
            stiffness += wave[np.outer(column, frequencies) % n]
        variances = np.divide(1.0, stiffness, out=np.full_like(stiffness, np.inf), where=stiffness > 1e-9)
        costs[start : start + rows] = variances @ times
    return costs
