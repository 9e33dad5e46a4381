"""Keep length out of preference pairs, rows of one prompt apart, and prompts on one side of a
split.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

BUCKET_CHARS = 64  # about 16 tokens
_WORDS = re.compile(r"\w+")


def balanced(differences: Sequence[int], seed: int) -> list[bool]:
    """Return which pairs to keep, so that in each bucket the longer answer is chosen as often as
    the shorter.

    Args:
        differences: characters of the chosen minus those of the rejected answer, one per pair;
            buckets are 64 characters wide. Pairs of equal lengths are kept.
        seed: random seed for the pairs of the larger side to drop.
    """
    sides: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for pair, difference in enumerate(differences):
        if difference:
            sides[abs(difference) // BUCKET_CHARS][difference > 0].append(pair)
    keep = [True] * len(differences)
    source = Random(f"balance {seed}")
    for bucket in sorted(sides):
        shorter, longer = sides[bucket]
        larger = max(shorter, longer, key=len)
        surplus = abs(len(longer) - len(shorter))
        for pair in source.sample(larger, surplus):
            keep[pair] = False
    return keep


def balanced_ties(ties: Sequence[bool], seed: int) -> list[bool]:
    """Return which couples of replies to keep, so that there are no more ties than replies that
    prefer either position.

    A couple has the replies about one pair in both orders: two ties, or one reply for each
    position."""
    tied = [couple for couple, is_tie in enumerate(ties) if is_tie]
    most = (len(ties) - len(tied)) // 2
    dropped = set(Random(f"ties {seed}").sample(tied, max(0, len(tied) - most)))
    return [couple not in dropped for couple in range(len(ties))]


def similarity(one: str, other: str) -> float:
    """Return Jaccard's index of the sets of three-word shingles of two texts, 0 to 1."""
    first = _shingles(one)
    second = _shingles(other)
    return len(first & second) / len(first | second)


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = _WORDS.findall(text.lower())
    return {tuple(words[at : at + 3]) for at in range(max(1, len(words) - 2))}


def spread_order(keys: Sequence[int], seed: int) -> NDArray[np.int64]:
    """Return an order of rows in which equal keys are spread evenly.

    The order consists of as many rounds as the most frequent key has rows. Each key occurs at most
    once in a round, at the same position in all rounds. Two neighbours share a key only if there
    are not enough other rows to put between them. Time is n log n.

    Args:
        keys: one key per row, such as its prompt.
        seed: random seed for the first round of each key, and for the order of the keys.
    """
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    _, numbers, counts = np.unique(
        np.asarray(keys, dtype=np.uint64), return_inverse=True, return_counts=True
    )
    rows = np.argsort(numbers, kind="stable")
    starts = np.append(0, np.cumsum(counts)[:-1])
    occurrence = np.empty(len(keys), dtype=np.int64)
    occurrence[rows] = np.arange(len(keys)) - np.repeat(starts, counts)
    source = Random(f"spread {seed}")
    offsets = np.array([source.random() for _ in counts])
    places = np.array(source.sample(range(len(counts)), len(counts)))
    rounds = np.floor((occurrence + offsets[numbers]) * (counts.max() / counts[numbers])).astype(
        np.int64
    )
    order: NDArray[np.int64] = np.lexsort((places[numbers], rounds)).astype(np.int64)
    return order


def validation_prompts(prompts: Iterable[int], share: float, seed: int) -> set[int]:
    """Return about this share of some prompts by their digests, at random; at least one of two or
    more, never all.
    """

    def rank(prompt: int) -> bytes:
        return hashlib.blake2b(f"{seed} {prompt}".encode(), digest_size=8).digest()

    ordered = sorted(set(prompts), key=rank)
    count = max(1, round(share * len(ordered))) if share > 0 else 0
    return set(ordered[: min(count, len(ordered) - 1)])
