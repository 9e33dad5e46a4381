"""Order rows so that rows of one prompt are far apart."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray


def spread_order(keys: Sequence[int], seed: int) -> NDArray[np.int64]:
    """Return an order of rows in which equal keys are spread evenly.

    The order consists of as many rounds as the most frequent key has rows. Each key occurs at most once in a round, at
    the same position in all rounds. Two neighbours share a key only if there are not enough other rows to put between
    them. Time is n log n.

    Args:
        keys: one key per row, such as its prompt.
        seed: random seed for the first round of each key, and for the order of the keys.
    """
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    _, numbers, counts = np.unique(np.asarray(keys, dtype=np.uint64), return_inverse=True, return_counts=True)
    rows = np.argsort(numbers, kind="stable")
    starts = np.append(0, np.cumsum(counts)[:-1])
    occurrence = np.empty(len(keys), dtype=np.int64)
    occurrence[rows] = np.arange(len(keys)) - np.repeat(starts, counts)
    source = Random(f"spread {seed}")
    offsets = np.array([source.random() for _ in counts])
    places = np.array(source.sample(range(len(counts)), len(counts)))
    rounds = np.floor((occurrence + offsets[numbers]) * (counts.max() / counts[numbers])).astype(np.int64)
    order: NDArray[np.int64] = np.lexsort((places[numbers], rounds)).astype(np.int64)
    return order


def count_neighbours(keys: Sequence[int]) -> int:
    """Count the rows whose predecessor has the same key."""
    return sum(1 for one, other in pairwise(keys) if one == other)
