"""Plan which rollouts of a group a listwise judge sees together, and in which order.

A group of at most `list_size` rollouts is one list in every repeat, and each repeat has another
order. A larger group is split into blocks of nearly equal size, and each repeat splits it
otherwise, so that the blocks connect all rollouts. A plan with more repeats begins with the lists
of one with fewer: a run that adds repeats keeps all its verdicts.

Source: orders, E. J. Williams, Aust. J. Sci. Res. A 2 (1949) 149; blocks, alpha designs, H. D.
Patterson and E. R. Williams, Biometrika 63 (1976) 83.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import gcd
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from genrm_cli.pairing.pairs import generator_of, permutation

# The step between the rows of a Williams square that are used one after the other, as a share of
# its size: the golden ratio spreads any number of rows evenly.
_STEP = 0.618
# Splits tried for each repeat. More than 300 improve the variance of a difference by less than 1 %.
_TRIALS = 300
# Each trial takes a matrix of n by n: 32 MB in all, and 10 trials of large groups, of which any
# split is nearly as good as the best.
_MAX_CELLS = 4_000_000
_FEWEST_TRIALS = 10
LEAST_BLOCK_REPEATS = 2  # one repeat leaves the blocks of a group unconnected


class RolloutList(NamedTuple):
    """Rollouts to be shown together: their indices, in the order shown, and the repeat, from 0."""

    shown: tuple[int, ...]
    repeat: int


class ListPlan(Struct, frozen=True):
    """The lists to judge in each group; the fields are the settings of the same names.

    Attributes:
        list_size: rollouts in a list, at most; 3 or more, so that no block has a single one.
        repeats: orders in which each rollout is judged, 1 or more. Groups above `list_size` have at
            least 2.
        seed: random seed of the run; with the group key, it decides which rollout is in which place
            of the plan.
    """

    list_size: int = 8
    repeats: int = 1
    seed: int = 0

    def iter_lists(self, n: int, key: str = "") -> Iterator[RolloutList]:
        """Yield the lists of n comparable rollouts, repeat by repeat; none if n < 2."""
        if n < 2:
            return
        places = permutation(n, generator_of(key, self.seed))
        for repeat in range(self._repeats_of(n)):
            for block in _blocks(n, self.list_size, repeat):
                order = williams_row(len(block), repeat)
                yield RolloutList(tuple(places[block[place]] for place in order), repeat)

    def count(self, n: int) -> int:
        """Count the lists of n rollouts."""
        return 0 if n < 2 else self._repeats_of(n) * self._blocks_of(n)

    def longest(self, n: int) -> int:
        """Return the length of the longest list of n rollouts."""
        return -(-n // self._blocks_of(n))

    def _blocks_of(self, n: int) -> int:
        return -(-n // self.list_size)

    def _repeats_of(self, n: int) -> int:
        return self.repeats if n <= self.list_size else max(self.repeats, LEAST_BLOCK_REPEATS)


def williams_row(n: int, number: int) -> list[int]:
    """Return one order of 0 to n - 1, the same for the same number.

    In n rows (2n of an odd n), each has every position equally often, and after each other
    one equally often. In any number of rows, the counts of positions differ by at most 1, and no
    one follows another more than once (twice if n is odd) in n rows."""
    row, is_mirrored = number % n, n % 2 == 1 and number // n % 2 == 1
    shift = row * _step_of(n)
    order = [(place + shift) % n for place in _base_row(n)]
    return order[::-1] if is_mirrored else order


def _base_row(n: int) -> list[int]:
    """Return 0, 1, n - 1, 2, n - 2, ..."""
    return [(number + 1) // 2 if number % 2 else (n - number // 2) % n for number in range(n)]


def _step_of(n: int) -> int:
    """Return the step coprime to n that is nearest to the golden share of it.

    A step of n - 1 would let two rows in turn show nearly the same neighbours."""
    steps = [step for step in range(1, n) if gcd(step, n) == 1 and (n <= 3 or step != n - 1)]
    return min(steps, key=lambda step: abs(step - _STEP * n), default=1)


def _blocks(n: int, list_size: int, repeat: int) -> list[list[int]]:
    """Return the blocks of one repeat: n places in rows of as many as there are blocks, each row
    shifted.
    """
    count = -(-n // list_size)
    blocks: list[list[int]] = [[] for _ in range(count)]
    for row, shift in enumerate(_shifts(n, count, repeat)):
        for column in range(min(count, n - row * count)):
            blocks[(column + shift) % count].append(row * count + column)
    return blocks


@lru_cache(maxsize=256)
def _shifts(n: int, count: int, repeat: int) -> tuple[int, ...]:
    """Return the shift of each row in a repeat: of those tried, the one after which differences
    between rollouts have the least mean variance, given the repeats before.
    """
    rows = -(-n // count)
    if repeat == 0 or count == 1:
        return (0,) * rows
    rng = Random(f"{n} {count} {repeat}")
    before = sum(_connections(n, count, _shifts(n, count, each)) for each in range(repeat))
    trials = min(_TRIALS, max(_FEWEST_TRIALS, _MAX_CELLS // n**2))
    # Only random() is guaranteed to give the same numbers in every version of Python.
    tried = [tuple(int(rng.random() * count) for _ in range(rows)) for _ in range(trials)]
    together = np.stack([before + _connections(n, count, shifts) for shifts in tried])
    strengths = np.linalg.eigvalsh(together)[:, 1:]
    # Rounded: the last bit of an eigenvalue must not decide which lists are asked.
    variances = np.round(np.sum(1 / np.maximum(strengths, 1e-9), axis=1), 6)
    return tried[int(np.argmin(variances))]


def _connections(n: int, count: int, shifts: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return [n, n] the information matrix of one repeat: the sum of I - 11'/k over its blocks."""
    places = np.arange(n)
    blocks = (places % count + np.array(shifts)[places // count]) % count
    together = (blocks[:, None] == blocks[None, :]).astype(np.float64)
    information: npt.NDArray[np.float64] = np.eye(n) - together / together.sum(
        axis=1, keepdims=True
    )
    return information
