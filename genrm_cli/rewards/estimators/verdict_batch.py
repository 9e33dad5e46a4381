"""The verdicts of groups of one size as arrays, the input of every estimator."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.metrics.figures import rounded_all
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.verdicts import MIDDLE_RANKING, Verdict

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

Verdicts = Mapping[Comparison, Verdict]
"""The verdicts of one group; failed comparisons are absent."""

VERDICT_COLUMNS = 5
_INVERTED_AT_ONCE = 256
_MAX_CELLS = 1 << 18  # 2 MB for an array of n × n or M numbers a group: memory of a batch


class VerdictBatch(Struct, frozen=True):
    """G groups of n rollouts with up to M verdicts each; all arrays are [G, M].

    Attributes:
        first: index of the rollout shown first, 0 to n - 1; also where there is no verdict.
        second: index of the other rollout.
        score_1: score of the first rollout; finite, also where there is no verdict.
        score_2: score of the second rollout, as finite.
        ranking: its ranking, as finite.
        valid: whether there is a verdict. Where it is False, the other arrays do not affect any
            result.
    """

    n: int
    first: Indices
    second: Indices
    score_1: Floats
    score_2: Floats
    ranking: Floats
    valid: Flags

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.first.shape[0])

    def halves(self) -> tuple["VerdictBatch", "VerdictBatch"]:
        """Return the batch with the verdicts on every second pair of each group, and with the
        others. All verdicts on a pair are in one half: a judge repeats its error about it.
        """
        lower = np.minimum(self.first, self.second)
        upper = np.maximum(self.first, self.second)
        codes = lower * self.n + upper
        order = np.argsort(codes, axis=1, kind="stable")
        begins = np.diff(np.take_along_axis(codes, order, axis=1), axis=1, prepend=-1) != 0
        numbers = np.empty_like(codes)
        np.put_along_axis(numbers, order, np.cumsum(begins, axis=1), axis=1)
        is_odd = numbers % 2 == 1
        return replace(self, valid=self.valid & is_odd), replace(self, valid=self.valid & ~is_odd)

    def preferences(self) -> Floats:
        """Return [G, M] `preference` of each verdict: above 0 where the first rollout is
        preferred.
        """
        gaps = self.score_1 - self.score_2
        return np.where(gaps == 0, MIDDLE_RANKING - self.ranking, gaps)

    def corrected(self) -> Floats:
        """Return [G, M] the share of the judge's position preference to subtract from each verdict.

        It is 1 for a verdict that prefers a rollout. For a tie it is the share of such verdicts in
        its group: a corrected tie favours the rollout shown second, so that rollouts of a group of
        ties would differ by where they were shown. Uncorrected, the ties of a judge that decides
        most pairs would favour the rollout shown first.
        """
        decides = (self.preferences() != 0) & self.valid
        verdicts = np.maximum(self.valid.sum(axis=1, keepdims=True), 1)
        shares: Floats = np.where(decides, 1.0, decides.sum(axis=1, keepdims=True) / verdicts)
        return shares

    def counts(self) -> Floats:
        """Return [G, n] the number of verdicts on each rollout."""
        ones = np.ones_like(self.score_1)
        return self.sum_by_rollout(ones, ones)

    def sum_by_rollout(self, of_first: Floats, of_second: Floats) -> Floats:
        """Return [G, n] the sums, in the order of the verdicts, of what each gives to its two
        rollouts.
        """
        rows = np.arange(self.groups)[:, None, None] * self.n
        bins = rows + np.stack([self.first, self.second], axis=-1)
        values = np.stack([of_first, of_second], axis=-1) * self.valid[..., None]
        return _binned_sums(values, bins, self.groups * self.n).reshape(self.groups, self.n)

    def differences(self, values: Floats) -> Floats:
        """Return [G, M] the value of the first rollout of each verdict less that of the second."""
        of_first = np.take_along_axis(values, self.first, axis=1)
        differences: Floats = of_first - np.take_along_axis(values, self.second, axis=1)
        return differences

    def sum_by_order(self, values: Floats) -> Floats:
        """Return [G, n, n] the sums of what the verdicts on first i and second j give, in cell (i,
        j).
        """
        rows = np.arange(self.groups)[:, None] * (self.n * self.n)
        cells = rows + self.first * self.n + self.second
        sums = _binned_sums(values * self.valid, cells, self.groups * self.n * self.n)
        return sums.reshape(self.groups, self.n, self.n)

    def sum_by_pair(self, values: Floats) -> Floats:
        """Return [G, n, n] the sums of what the verdicts on i and j give, in either order."""
        sums = self.sum_by_order(values)
        return sums + sums.swapaxes(1, 2)

    def means(self, values: Floats) -> Floats:
        """Return [G, 1] the mean of [G, M] values over the verdicts of each group; 0 for a group
        without any.
        """
        counts = np.maximum(self.valid.sum(axis=1, keepdims=True), 1)
        means: Floats = (values * self.valid).sum(axis=1, keepdims=True) / counts
        return means


def scored_means(values: Floats, scored: Flags) -> Floats:
    """Return [G, 1] the mean of [G, n] values over the scored rollouts of each group; 0 for a group
    without any.
    """
    counts = np.maximum(scored.sum(axis=1, keepdims=True), 1)
    means: Floats = np.where(scored, values, 0.0).sum(axis=1, keepdims=True) / counts
    return means


def verdict_array(verdicts: Verdicts) -> Floats:
    """Return [M, 5] i, j, score_1, score_2 and ranking of the verdicts, in their order."""
    rows = [
        number
        for (i, j, _), verdict in verdicts.items()
        for number in (i, j, verdict.score_1, verdict.score_2, verdict.ranking)
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, VERDICT_COLUMNS)


def batch_of(n: int, arrays: Iterable[Floats]) -> VerdictBatch:
    """Return the verdicts of groups of n rollouts, at least one `verdict_array` and all of one
    shape, as a batch.
    """
    columns = np.stack(list(arrays))
    first = columns[..., 0].astype(np.intp)
    second = columns[..., 1].astype(np.intp)
    valid = np.ones(first.shape, dtype=np.bool_)
    return VerdictBatch(n, first, second, columns[..., 2], columns[..., 3], columns[..., 4], valid)


def batches_of(
    groups: Sequence[tuple[int, Floats]],
) -> Iterator[tuple[Sequence[int], VerdictBatch]]:
    """Yield batches of the groups of one shape, with their numbers.

    Args:
        groups: the size and the `verdict_array` of each.
    """
    shapes = defaultdict[tuple[int, int], list[int]](list)
    for number, (n, verdicts) in enumerate(groups):
        shapes[n, len(verdicts)].append(number)
    for (n, count), numbers in shapes.items():
        size = max(1, _MAX_CELLS // max(1, n * n, count))
        for start in range(0, len(numbers), size):
            some = numbers[start : start + size]
            yield some, batch_of(n, [groups[number][1] for number in some])


def _binned_sums(values: Floats, bins: Indices, count: int) -> Floats:
    """Return `count` sums: of the values of each bin, in their order."""
    return np.asarray(np.bincount(bins.ravel(), values.ravel(), minlength=count), dtype=np.float64)


def invert(matrices: Floats) -> None:
    """Replace [G, k, k] symmetric, positive definite matrices by their inverses.

    Large ones are inverted by blocks, in less than half of the time, and in place: one of a group
    of 2,048 takes 32 MB.

    Source: Boyd and Vandenberghe 2004, Convex Optimization, A.5.5 (Schur complement)."""
    k = matrices.shape[-1]
    if k <= _INVERTED_AT_ONCE:
        matrices[...] = np.linalg.inv(matrices)
        return
    half = k // 2
    first = matrices[:, :half, :half]
    second = matrices[:, half:, half:]
    across = matrices[:, :half, half:]
    invert(first)
    mapped = first @ across
    mapped *= -1
    second += mapped.swapaxes(1, 2) @ across
    invert(second)
    np.matmul(mapped, second, out=across)
    first += across @ mapped.swapaxes(1, 2)
    matrices[:, half:, :half] = across.swapaxes(1, 2)


def rounded_array(values: Floats) -> Floats:
    """Return an array of the same shape with rounded numbers; see `rounded`."""
    return np.array(rounded_all(values.ravel().tolist())).reshape(values.shape)
