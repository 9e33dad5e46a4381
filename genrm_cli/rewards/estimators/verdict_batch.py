"""The verdicts of groups of one size as arrays, the input of every estimator, and the variances of their numbers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from genrm_cli.pairing import Comparison
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
        n: rollouts in each group.
        first: index of the rollout shown first, 0 to n - 1; also where there is no verdict.
        second: index of the other rollout.
        score_1: finite, also where there is no verdict; likewise the two below.
        valid: whether there is a verdict. Where it is False, the other arrays do not affect any result.
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
        """Return [G, M] `preference` of each verdict: above 0 where the first rollout is preferred."""
        gaps = self.score_1 - self.score_2
        return np.where(gaps == 0, MIDDLE_RANKING - self.ranking, gaps)

    def corrected(self) -> Floats:
        """Return [G, 1] 1 where any verdict prefers a rollout, else 0: there is then no preference to correct.

        Corrected for the judge's position preference, a group of ties would differ by where its rollouts were shown.
        """
        flags: Floats = ((self.preferences() != 0) & self.valid).any(axis=1, keepdims=True).astype(np.float64)
        return flags

    def counts(self) -> Floats:
        """Return [G, n] the number of verdicts on each rollout."""
        ones = np.ones_like(self.score_1)
        return self.sum_by_rollout(ones, ones)

    def sum_by_rollout(self, of_first: Floats, of_second: Floats) -> Floats:
        """Return [G, n] the sums, in the order of the verdicts, of what each gives to its two rollouts."""
        rows = np.arange(self.groups)[:, None, None] * self.n
        bins = rows + np.stack([self.first, self.second], axis=-1)
        values = np.stack([of_first, of_second], axis=-1) * self.valid[..., None]
        return binned_sums(values, bins, self.groups * self.n).reshape(self.groups, self.n)

    def sum_by_pair(self, of_pair: Floats) -> Floats:
        """Return [G, n, n] the sums of what each verdict gives to the cells (i, j) and (j, i)."""
        rows = np.arange(self.groups)[:, None] * (self.n * self.n)
        cells = rows + self.first * self.n + self.second
        shape = (self.groups, self.n, self.n)
        sums = binned_sums(of_pair * self.valid, cells, self.groups * self.n * self.n).reshape(shape)
        return sums + sums.swapaxes(1, 2)

    def means(self, values: Floats) -> Floats:
        """Return [G, 1] the mean of [G, M] values over the verdicts of each group; 0 for a group without any."""
        counts = np.maximum(self.valid.sum(axis=1, keepdims=True), 1)
        means: Floats = (values * self.valid).sum(axis=1, keepdims=True) / counts
        return means


@dataclass(frozen=True, slots=True)
class BatchEstimate:
    """The result of an estimator for a batch; if a flag is False, the corresponding number has no meaning.

    Attributes:
        base_scores: [G, n].
        scored: [G, n], whether the rollout has a base score: all with a verdict.
        variances: [G, n], squared standard errors, of the base score against the mean of the group's scored ones.
        known: [G], whether standard errors are known.
        qualities: [G, n], predictions of the qualities from the base scores, of variance 1 within a group; where
            `assessed`.
        reliabilities: [G], share of the spread of the base scores that is signal, 0 to 1: the expected squared
            correlation, beyond that by chance, with what the judge would say in the limit of many verdicts.
        assessed: [G], whether reliabilities are known; they also need at least two scored rollouts.
        converged: [G].
    """

    base_scores: Floats
    scored: Flags
    variances: Floats
    known: Flags
    qualities: Floats
    reliabilities: Floats
    assessed: Flags
    converged: Flags


def scored_means(values: Floats, scored: Flags) -> Floats:
    """Return [G, 1] the mean of [G, n] values over the scored rollouts of each group; 0 for a group without any."""
    means: Floats = np.where(scored, values, 0.0).sum(axis=1, keepdims=True) / np.maximum(
        scored.sum(axis=1, keepdims=True), 1
    )
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
    """Return the verdicts of groups of n rollouts as a batch.

    Args:
        n: rollouts in each group.
        arrays: one `verdict_array` per group, all of one shape; at least one.
    """
    columns = np.stack(list(arrays))
    first, second = columns[..., 0].astype(np.intp), columns[..., 1].astype(np.intp)
    valid = np.ones(first.shape, dtype=np.bool_)
    return VerdictBatch(n, first, second, columns[..., 2], columns[..., 3], columns[..., 4], valid)


def binned_sums(values: Floats, bins: Indices, count: int) -> Floats:
    """Return `count` sums: of the values of each bin, in their order."""
    return np.asarray(np.bincount(bins.ravel(), values.ravel(), minlength=count), dtype=np.float64)


def inverse_of(matrices: Floats) -> Floats:
    """Return the inverses of [G, k, k] invertible matrices."""
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


# An analysis of variance of the scores and wins that verdicts give to their two rollouts.

MIN_FREEDOM = 12  # degrees of freedom; with these, standard errors are accurate to about 20 %

_Given = tuple[Floats, Floats]
_KIND_SUMS, _SHARED_SUMS = 3, 4
_LEADS = 2  # the last of the sums of a kind


class Variances(NamedTuple):
    """Variances of the numbers that verdicts give to rollouts.

    Attributes:
        within: variance of those of one rollout in one position.
        between: variance between the rollouts of a group in the limit of many verdicts.
        position: mean gain of position 1 and loss of position 2.
    """

    within: float
    between: float
    position: float


def scores_given(batch: VerdictBatch) -> _Given:
    """Return the numbers for the first and the second, [G, M]: their scores, moved apart by the ranking if equal."""
    shifts = np.where(batch.score_1 == batch.score_2, MIDDLE_RANKING - batch.ranking, 0.0)
    return batch.score_1 + shifts, batch.score_2 - shifts


def wins_given(batch: VerdictBatch) -> _Given:
    """Return 5 for the preferred rollout and 1 for the other, 3 for both of an even verdict."""
    wins = 3 + 2 * np.sign(batch.preferences())
    return wins, 6 - wins


KINDS: tuple[Callable[[VerdictBatch], _Given], ...] = (scores_given, wins_given)
SUMS = _KIND_SUMS * len(KINDS) + _SHARED_SUMS


def sums_of(batch: VerdictBatch) -> Floats:
    """Return the sums from which `variances_of` works; those of several batches add up."""
    counts, scored = batch.counts(), batch.counts() > 0
    n = np.maximum(scored.sum(axis=1, keepdims=True), 1)
    ones = np.ones_like(batch.score_1)
    position_spread = (counts - batch.sum_by_rollout(ones, -ones) ** 2 / np.maximum(counts, 1)).sum(axis=1)
    sums = [number for kind in KINDS for number in _sums_of_kind(batch, kind(batch), position_spread)]
    within_freedom = np.maximum(counts - 1, 0).sum() - (position_spread > 0).sum()
    noise_share = np.where(scored, (1 - 1 / n) / np.maximum(counts, 1), 0.0).sum()
    return np.array(
        [*sums, batch.valid.sum(), within_freedom, noise_share, np.maximum(scored.sum(axis=1) - 1, 0).sum()]
    )


def variances_of(sums: Floats, kind: int) -> Variances | None:
    """Split the variance of the numbers of one of `KINDS`; None if there are too few verdicts.

    Source: one-way analysis of covariance, the position within each group as the covariate; R. A. Fisher, Statistical
    Methods for Research Workers (4th edition, 1932).
    """
    verdicts, within_freedom, noise_share, freedom = sums[-_SHARED_SUMS:].tolist()
    if min(within_freedom, freedom) < MIN_FREEDOM:
        return None
    squares_within, squares_between, leads = sums[kind * _KIND_SUMS : (kind + 1) * _KIND_SUMS].tolist()
    within = max(0.0, squares_within) / within_freedom
    between = max(0.0, squares_between - within * noise_share) / freedom
    return Variances(within, between, leads / verdicts)


def sum_of_leads(sums: Floats, kind: int) -> float:
    """Return half of what position 1 got more than position 2, over all verdicts, of one of `KINDS`."""
    return float(sums[kind * _KIND_SUMS + _LEADS])


def _sums_of_kind(batch: VerdictBatch, given: _Given, position_spread: Floats) -> tuple[float, float, float]:
    """Return the squares within rollouts, less what position explains; between rollouts; and the sum of half leads."""
    one, two = given[0] - 3, given[1] - 3  # loses less in rounding
    counts, scored = batch.counts(), batch.counts() > 0
    means = batch.sum_by_rollout(one, two) / np.maximum(counts, 1)
    ones = np.ones_like(one)
    within = (batch.sum_by_rollout(one**2, two**2) - means**2 * counts).sum(axis=1)
    with_position = (batch.sum_by_rollout(one, -two) - means * batch.sum_by_rollout(ones, -ones)).sum(axis=1)
    explained = np.divide(with_position**2, position_spread, out=np.zeros_like(within), where=position_spread > 0)
    between = np.where(scored, (means - scored_means(means, scored)) ** 2, 0.0).sum()
    leads = ((one - two) / 2 * batch.valid).sum()
    return float((within - explained).sum()), float(between), float(leads)
