"""Cluster the near-duplicates in a group; components are divided by the cluster sizes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations, count

import numpy as np
from msgspec import Struct

from genrm_cli.neutralise.forms import fold


class Clusters(Struct, frozen=True):
    """The number and the size of the cluster of near-duplicates of each rollout; None and 1 without
    a response.

    `failed` says that the judge gave no clusters, so that the fallback applies.
    """

    numbers: list[int | None]
    sizes: list[int]
    failed: bool = False


def ngram_clusters(texts: Sequence[str], n: int = 3, threshold: float = 0.5) -> list[int]:
    """Cluster texts by single linkage, numbered from 0: a text joins a cluster if it is similar to
    any of its members.

    The similarity is Jaccard's index of the sets of character n-grams of the texts, lower-cased,
    stripped, and folded: without invisible characters, and with plain ones for look-alikes. A text
    shorter than n is a single gram. Two empty texts have similarity 1.0, an empty and a non-empty
    one 0.0. Time grows with the square of the number of different texts, and with their length."""
    normalised = [fold(text)[0].lower().strip() for text in texts]
    distinct = list(dict.fromkeys(normalised))
    roots = _link(_gram_sets(distinct, n), threshold) if len(distinct) > 1 else [0] * len(distinct)
    numbers: dict[int, int] = {}
    clusters = {
        text: numbers.setdefault(root, len(numbers))
        for text, root in zip(distinct, roots, strict=True)
    }
    return [clusters[text] for text in normalised]


def clusters_of(
    found: Sequence[int] | None, answered: Sequence[int], size: int, *, uniform_fallback: bool
) -> Clusters:
    """Spread the clusters of the answered rollouts over the whole group, of `size` rollouts.

    Without clusters, all responses are one cluster with `uniform_fallback`, and each is unique
    otherwise."""
    numbers: list[int | None] = [None] * size
    sizes = [1] * size
    if found is None:
        fallback = len(answered) if uniform_fallback else 1
        return Clusters(numbers, [fallback] * size, failed=True)
    members = Counter(found)
    for index, number in zip(answered, found, strict=True):
        numbers[index] = number
        sizes[index] = members[number]
    return Clusters(numbers, sizes)


def _gram_sets(texts: Sequence[str], n: int) -> list[int]:
    """Return the set of n-grams of each text as the bits of an integer: an intersection then takes
    microseconds.
    """
    numbers: defaultdict[object, int] = defaultdict(count().__next__)
    rows = [
        np.fromiter(map(numbers.__getitem__, _iter_grams(text, n)), dtype=np.intp) for text in texts
    ]
    sets = []
    for row in rows:
        flags = np.zeros(len(numbers), dtype=np.bool_)
        flags[row] = True
        sets.append(int.from_bytes(np.packbits(flags).tobytes()))
    return sets


def _iter_grams(text: str, n: int) -> Iterable[object]:
    if len(text) < n:
        return [text] if text else []
    return zip(*(text[start:] for start in range(n)), strict=False)


def _link(sets: Sequence[int], threshold: float) -> list[int]:
    """Return a root for each set; those joined by a chain of similar sets have the same root."""
    roots = list(range(len(sets)))
    sizes = [grams.bit_count() for grams in sets]
    for i, j in combinations(range(len(sets)), 2):
        shared = (sets[i] & sets[j]).bit_count()
        if roots[i] != roots[j] and shared / (sizes[i] + sizes[j] - shared) >= threshold:
            joined = roots[j]
            roots = [roots[i] if root == joined else root for root in roots]
    return roots
