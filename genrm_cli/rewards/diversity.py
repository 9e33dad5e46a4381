"""Responses of a group → clusters of near copies; components are divided by the sizes of the clusters."""

from collections import Counter
from collections.abc import Sequence, Set
from itertools import combinations


def ngram_clusters(texts: Sequence[str], n: int = 3, threshold: float = 0.5) -> list[int]:
    """Number the clusters of texts by single linkage: similar to any member of a cluster is enough to belong.

    The similarity is Jaccard's index of the sets of character n-grams of the texts, lower-cased and stripped. A text
    shorter than n is one gram of its own; two empty texts are alike (1.0), an empty one and another are not (0.0).
    Time grows with the square of the number of different texts, and with their length.

    Args:
        texts: of any length.
        n: characters of a gram, 1 or more.
        threshold: least similarity that joins two texts, 0 to 1.

    Returns:
        The cluster of each text, numbered from 0 by first appearance.

    Raises:
        ValueError: `n` or `threshold` is out of range.
    """
    if n < 1:
        raise ValueError(f"n is {n}, expected 1 or more")
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold is {threshold}, expected 0 to 1")
    normalised = [text.lower().strip() for text in texts]
    distinct = list(dict.fromkeys(normalised))
    roots = _link([_grams(text, n) for text in distinct], threshold) if len(distinct) > 1 else [0] * len(distinct)
    numbers: dict[int, int] = {}
    clusters = {text: numbers.setdefault(root, len(numbers)) for text, root in zip(distinct, roots, strict=True)}
    return [clusters[text] for text in normalised]


def cluster_sizes(clusters: Sequence[int]) -> list[int]:
    """Return for each member of a group how many share its cluster, itself included."""
    counts = Counter(clusters)
    return [counts[cluster] for cluster in clusters]


def _grams(text: str, n: int) -> frozenset[str]:
    if len(text) < n:
        return frozenset([text] if text else [])
    return frozenset(map("".join, zip(*(text[start:] for start in range(n)), strict=False)))


def _link(grams: Sequence[Set[str]], threshold: float) -> list[int]:
    """Return a root for each of different texts; those joined by a chain of similar texts have the same root."""
    roots = list(range(len(grams)))

    def root_of(index: int) -> int:
        while roots[index] != index:
            roots[index] = roots[roots[index]]
            index = roots[index]
        return index

    for (i, one), (j, other) in combinations(enumerate(grams), 2):
        if _may_reach(len(one), len(other), threshold) and root_of(i) != root_of(j):
            shared = len(one & other)
            if shared / (len(one) + len(other) - shared) >= threshold:
                roots[root_of(j)] = root_of(i)
    return [root_of(index) for index in range(len(grams))]


def _may_reach(one: int, other: int, threshold: float) -> bool:
    """Whether two sets of these sizes can be that similar: at best one contains the other."""
    return min(one, other) / max(one, other) >= threshold
