"""The verdicts of many groups of one size as arrays: what every estimator works on, a single group included."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class JudgedPair(NamedTuple):
    """A verdict on rollouts `i` (shown first) and `j` (shown second) of a group."""

    i: int
    j: int
    score_1: float
    score_2: float
    ranking: float


@dataclass(frozen=True, slots=True)
class VerdictBatch:
    """G groups of n rollouts with up to M verdicts each; all arrays are [G, M].

    Attributes:
        n: rollouts in each group.
        first: place of the rollout shown first, 0 to n - 1; also where there is no verdict.
        second: place of the other.
        score_1: finite, also where there is no verdict; likewise the two below.
        there: whether there is a verdict. What the other arrays hold where there is none changes no result.
    """

    n: int
    first: Places
    second: Places
    score_1: Floats
    score_2: Floats
    ranking: Floats
    there: Flags

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.first.shape[0])

    def leads(self) -> Floats:
        """Return [G, M] by how much the first is preferred: by the scores, on equal ones by the ranking."""
        gaps = self.score_1 - self.score_2
        return np.where(gaps == 0, 3.5 - self.ranking, gaps)

    def counts(self) -> Floats:
        """Return [G, n] the verdicts on each rollout."""
        ones = np.ones_like(self.score_1)
        return self.sum_by_rollout(ones, ones)

    def sum_by_rollout(self, of_first: Floats, of_second: Floats) -> Floats:
        """Return [G, n] the sums, in the order of the verdicts, of what each gives to its two rollouts."""
        rows = np.arange(self.groups)[:, None, None] * self.n
        places = rows + np.stack([self.first, self.second], axis=-1)
        values = np.stack([of_first, of_second], axis=-1) * self.there[..., None]
        sums = binned_sums(values, places, self.groups * self.n)
        return sums.reshape(self.groups, self.n)

    def sum_by_pair(self, of_pair: Floats) -> Floats:
        """Return [G, n, n] the sums of what each verdict gives to the cells (i, j) and (j, i)."""
        rows = np.arange(self.groups)[:, None] * (self.n * self.n)
        cells = rows + self.first * self.n + self.second
        shape = (self.groups, self.n, self.n)
        sums = binned_sums(of_pair * self.there, cells, self.groups * self.n * self.n).reshape(shape)
        return sums + sums.swapaxes(1, 2)

    def means(self, values: Floats) -> Floats:
        """Return [G, 1] the mean of [G, M] values over the verdicts that are there; 0 for a group without any."""
        counts = np.maximum(self.there.sum(axis=1, keepdims=True), 1)
        means: Floats = (values * self.there).sum(axis=1, keepdims=True) / counts
        return means


@dataclass(frozen=True, slots=True)
class BatchEstimate:
    """What an estimator made of a batch; where a flag is not set, the number beside it means nothing.

    Attributes:
        base_scores: [G, n].
        scored: [G, n], whether the rollout has a base score: all with a verdict.
        variances: [G, n], squared standard errors, of the base score against the mean of the group's scored ones.
        known: [G], whether standard errors can be said.
        reliabilities: [G], share of the spread of the base scores that is signal, 0 to 1: the expected squared
            correlation, beyond that by chance, with what the judge would say in the limit of many verdicts.
        assessed: [G], whether reliabilities can be said; at least two scored rollouts are needed, too.
        converged: [G].
    """

    base_scores: Floats
    scored: Flags
    variances: Floats
    known: Flags
    reliabilities: Floats
    assessed: Flags
    converged: Flags


def binned_sums(values: Floats, bins: Places, count: int) -> Floats:
    """Return `count` sums: of the values of each bin, in their order."""
    return np.asarray(np.bincount(bins.ravel(), values.ravel(), minlength=count), dtype=np.float64)


def inverse_of(matrices: Floats) -> Floats:
    """Return the inverses of [G, k, k] matrices that have one."""
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def batch_of(n: int, *groups: Sequence[JudgedPair]) -> VerdictBatch:
    """Return the verdicts of groups of n rollouts as a batch; all groups have as many verdicts."""
    columns = np.array(groups, dtype=np.float64).reshape(len(groups), -1, 5)
    first, second = columns[..., 0].astype(np.intp), columns[..., 1].astype(np.intp)
    there = np.ones(first.shape, dtype=np.bool_)
    return VerdictBatch(n, first, second, columns[..., 2], columns[..., 3], columns[..., 4], there)
