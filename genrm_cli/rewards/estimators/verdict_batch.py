"""The verdicts of groups of one size as arrays, the input of every estimator."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genrm_cli.metrics.figures import rounded_all
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.verdicts import MIDDLE_RANKING, Verdict

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

Verdicts = Mapping[Comparison, Verdict]
"""The verdicts of one group; failed comparisons are absent."""

VERDICT_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class VerdictBatch:
    """G groups of n rollouts with up to M verdicts each; all arrays are [G, M].

    Attributes:
        first: index of the rollout shown first, 0 to n - 1; also where there is no verdict.
        second: index of the other rollout.
        score_1: finite, also where there is no verdict; likewise the two below.
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
        return binned_sums(values, bins, self.groups * self.n).reshape(self.groups, self.n)

    def sum_by_pair(self, of_pair: Floats) -> Floats:
        """Return [G, n, n] the sums of what each verdict gives to the cells (i, j) and (j, i)."""
        rows = np.arange(self.groups)[:, None] * (self.n * self.n)
        cells = rows + self.first * self.n + self.second
        shape = (self.groups, self.n, self.n)
        sums = binned_sums(of_pair * self.valid, cells, self.groups * self.n * self.n).reshape(
            shape
        )
        return sums + sums.swapaxes(1, 2)

    def means(self, values: Floats) -> Floats:
        """Return [G, 1] the mean of [G, M] values over the verdicts of each group; 0 for a group
        without any.
        """
        counts = np.maximum(self.valid.sum(axis=1, keepdims=True), 1)
        means: Floats = (values * self.valid).sum(axis=1, keepdims=True) / counts
        return means


@dataclass(frozen=True, slots=True)
class BatchEstimate:
    """The result of an estimator for a batch; if a flag is False, the corresponding number has no
    meaning.

    Attributes:
        base_scores: [G, n].
        scored: [G, n], whether the rollout has a base score: all with a verdict.
        variances: [G, n], squared standard errors, of the base score against the mean of the
            group's scored ones.
        known: [G], whether standard errors are known.
        reliabilities: [G], share of the spread of the base scores that is signal, 0 to 1: the
            expected squared correlation, beyond that by chance, with what the judge would say in
            the limit of many verdicts.
        chances: [G], probability that a group of equal qualities spreads as much.
        assessed: [G], whether reliabilities and chances are known; they also need at least two
            scored rollouts.
        converged: [G].
    """

    base_scores: Floats
    scored: Flags
    variances: Floats
    known: Flags
    reliabilities: Floats
    chances: Floats
    assessed: Flags
    converged: Flags


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


def binned_sums(values: Floats, bins: Indices, count: int) -> Floats:
    """Return `count` sums: of the values of each bin, in their order."""
    return np.asarray(np.bincount(bins.ravel(), values.ravel(), minlength=count), dtype=np.float64)


def inverse_of(matrices: Floats) -> Floats:
    """Return the inverses of [G, k, k] invertible matrices."""
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def rounded_array(values: Floats) -> Floats:
    """Return an array of the same shape with rounded numbers; see `rounded`."""
    return np.array(rounded_all(values.ravel().tolist())).reshape(values.shape)
