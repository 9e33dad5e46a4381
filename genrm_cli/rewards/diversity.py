"""Responses of a group → clusters of near copies, by whose sizes components are divided.

The set of a text's character n-grams is compared with that of every other by Jaccard's index, exactly. The sets are
rows of a matrix of zeros and ones, so one matrix product holds the sizes of all intersections of a group.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_MATRIX_CELLS = 1 << 22  # bounds memory for large groups; and float32 counts exactly up to 1 << 24
_KEY_BITS = 63

_Keys = npt.NDArray[np.uint64]


def similarity(a: str, b: str, n: int = 3) -> float:
    """Return Jaccard's index of the sets of character n-grams of two texts, lower-cased and stripped; 0 to 1.

    A text shorter than n is one gram of its own; two empty texts are alike (1.0), an empty and another are not (0.0).

    Raises:
        ValueError: `n`, the characters of a gram, is below 1.
    """
    texts = _distinct([a, b])
    return float(_similarities(texts, n)[0, -1])


def ngram_clusters(texts: Sequence[str], n: int = 3, threshold: float = 0.5) -> list[int]:
    """Number the clusters of texts that single linkage makes: similar to any of a cluster is enough to belong.

    Time and memory grow with the square of the number of different texts, and with their length.

    Args:
        texts: of any length; see `similarity` for how they are compared.
        n: characters of a gram, 1 or more.
        threshold: least similarity that joins two texts, 0 to 1.

    Returns:
        The cluster of each text, numbered from 0 by first appearance.

    Raises:
        ValueError: `n` or `threshold` is out of range.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold is {threshold}, expected 0 to 1")
    distinct = _distinct(texts)
    roots = _link(_similarities(distinct, n) >= threshold)
    numbers: dict[int, int] = {}
    clusters = {text: numbers.setdefault(root, len(numbers)) for text, root in zip(distinct, roots, strict=True)}
    return [clusters[text] for text in map(_normalise, texts)]


def cluster_sizes(clusters: Sequence[int]) -> list[int]:
    """Return for each member of a group how many share its cluster, itself included."""
    counts = Counter(clusters)
    return [counts[cluster] for cluster in clusters]


def _normalise(text: str) -> str:
    return text.lower().strip()


def _distinct(texts: Sequence[str]) -> list[str]:
    """Return the different texts, normalised, in the order in which they come first."""
    return list(dict.fromkeys(map(_normalise, texts)))


def _similarities(texts: list[str], n: int) -> npt.NDArray[np.float64]:
    """Return the similarity of each of k different texts with each other, k x k."""
    if n < 1:
        raise ValueError(f"n is {n}, expected 1 or more")
    # A text shorter than n shares nothing with any other: its gram is the whole of it, and no other text is.
    long = [row for row, text in enumerate(texts) if len(text) >= n]
    similarities = np.eye(len(texts))
    if len(long) > 1:
        shared = _intersections([texts[row] for row in long], n)
        sizes = np.diag(shared)
        similarities[np.ix_(long, long)] = shared / (sizes[:, None] + sizes[None, :] - shared)
    return similarities


def _intersections(texts: list[str], n: int) -> npt.NDArray[np.int64]:
    """Return how many different n-grams each two of k texts share, k x k; none of the texts is shorter than n."""
    k = len(texts)
    row_bits = (k - 1).bit_length()
    lengths = [len(text) for text in texts]
    rows = np.repeat(np.arange(k, dtype=np.uint64), [length - n + 1 for length in lengths])
    keys = _number_grams(texts, lengths, n, _KEY_BITS - row_bits)
    # Sorting gram and row as one number brings equal grams together, and a text's repeated grams too.
    keys <<= np.uint64(row_bits)
    keys |= rows
    keys.sort()
    keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
    rows = keys & np.uint64((1 << row_bits) - 1)
    keys >>= np.uint64(row_bits)
    columns = np.concatenate(([0], np.cumsum(keys[1:] != keys[:-1])))
    shared = np.zeros((k, k), dtype=np.int64)
    step = max(1, _MATRIX_CELLS // k)
    for first in range(0, int(columns[-1]) + 1, step):
        begin, end = np.searchsorted(columns, (first, first + step))
        held = np.zeros((k, min(step, int(columns[-1]) + 1 - first)), dtype=np.float32)
        held[rows[begin:end], columns[begin:end] - first] = 1.0
        shared += (held @ held.T).astype(np.int64)
    return shared


def _number_grams(texts: list[str], lengths: list[int], n: int, limit_bits: int) -> _Keys:
    """Number the n-grams of all texts, text after text: equal numbers for equal grams, each below 2 ** limit_bits.

    Code points are put side by side in one number; where that is too wide, what is there so far is renumbered
    without gaps.
    """
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    point_bits = int(points.max()).bit_length()
    if point_bits * n > limit_bits:
        points, point_bits = _close_gaps(points)
    count = len(points) - n + 1
    keys, bits = points[:count].copy(), point_bits
    for offset in range(1, n):
        if bits + point_bits > limit_bits:
            keys, bits = _close_gaps(keys)
        keys = (keys << np.uint64(point_bits)) | points[offset : offset + count]
        bits += point_bits
    return keys[_within_one_text(lengths, n, count)]


def _close_gaps(keys: _Keys) -> tuple[_Keys, int]:
    """Renumber by rank; return the bits that suffices for, too."""
    distinct, ranks = np.unique(keys, return_inverse=True)
    return ranks.astype(np.uint64), (len(distinct) - 1).bit_length()


def _within_one_text(lengths: list[int], n: int, count: int) -> npt.NDArray[np.bool_]:
    """Mark the windows of n characters over all texts that do not reach from one text into the next."""
    whole = np.ones(count, dtype=np.bool_)
    for end in np.cumsum(lengths)[:-1]:
        whole[max(0, end - n + 1) : end] = False
    return whole


def _link(joined: npt.NDArray[np.bool_]) -> list[int]:
    """Return a root for each row; rows have the same root when a chain of joined pairs leads from one to the other."""
    roots = list(range(len(joined)))

    def root_of(row: int) -> int:
        while roots[row] != row:
            roots[row] = roots[roots[row]]
            row = roots[row]
        return row

    for one, other in np.argwhere(np.triu(joined, k=1)).tolist():
        roots[root_of(other)] = root_of(one)
    return [root_of(row) for row in range(len(roots))]
