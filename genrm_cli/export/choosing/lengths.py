"""Keep length out of preference pairs."""

import re
from collections import defaultdict
from collections.abc import Sequence
from random import Random

BUCKET_CHARS = 64  # about 16 tokens
_WORDS = re.compile(r"\w+")


def balanced(differences: Sequence[int], seed: int) -> list[bool]:
    """Return which pairs to keep, so that in each bucket the longer answer is chosen as often as the shorter.

    Args:
        differences: characters of the chosen minus those of the rejected answer, one per pair; buckets are 64
            characters wide. Pairs of equal lengths are kept.
        seed: random seed for the pairs of the larger side to drop.
    """
    sides: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for pair, difference in enumerate(differences):
        if difference:
            sides[abs(difference) // BUCKET_CHARS][difference > 0].append(pair)
    kept = [True] * len(differences)
    source = Random(f"balance {seed}")
    for bucket in sorted(sides):
        shorter, longer = sides[bucket]
        larger, surplus = max(shorter, longer, key=len), abs(len(longer) - len(shorter))
        for pair in source.sample(larger, surplus):
            kept[pair] = False
    return kept


def similarity(one: str, other: str) -> float:
    """Return Jaccard's index of the sets of three-word shingles of two texts, 0 to 1."""
    first, second = _shingles(one), _shingles(other)
    return len(first & second) / len(first | second)


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = _WORDS.findall(text.lower())
    return {tuple(words[at : at + 3]) for at in range(max(1, len(words) - 2))}
