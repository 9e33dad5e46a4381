"""Keep length out of preference pairs, rows of one prompt apart, and prompts on one side of a
split.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from random import Random

BUCKET_CHARS = 64  # about 16 tokens


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
    # Sorted: the seed must drop the same pairs in whatever order the groups come.
    for bucket in sorted(sides):
        shorter, longer = sides[bucket]
        larger = max(shorter, longer, key=len)
        surplus = abs(len(longer) - len(shorter))
        for pair in source.sample(larger, surplus):
            keep[pair] = False
    return keep


def spread_order(keys: Sequence[int]) -> list[int]:
    """Return an order of rows in which those of one key, such as a prompt, are spread evenly.

    The nth of a key's rows stands at (n - 1/2) / rows of the whole; equal places keep their order.
    """
    rows = Counter(keys)
    seen: Counter[int] = Counter()
    places = []
    for key in keys:
        seen[key] += 1
        places.append((2 * seen[key] - 1) / rows[key])
    return sorted(range(len(keys)), key=places.__getitem__)


def validation_prompts(prompts: Iterable[int], share: float, seed: int) -> set[int]:
    """Return about this share of some prompts by their digests, at random; at least one of two or
    more, never all.
    """

    def rank(prompt: int) -> bytes:
        return hashlib.blake2b(f"{seed} {prompt}".encode(), digest_size=8).digest()

    ordered = sorted(set(prompts), key=rank)
    count = max(1, round(share * len(ordered))) if share > 0 else 0
    return set(ordered[: min(count, len(ordered) - 1)])
