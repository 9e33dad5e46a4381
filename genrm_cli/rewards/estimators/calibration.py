"""Calibrate a judge from the verdicts of a whole run: position bias, weight, signal, noise.

This needs no labels: two verdicts that share one rollout agree because of that rollout, two that
share none only because of the prompt.

Source: the method of moments for a linear model with random rollouts and random prompts.
"""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.metrics.figures import attempt
from genrm_cli.metrics.running_stats import ExpectedSignal, student_95
from genrm_cli.rewards.estimators.judge_noise import (
    LEAST_SHARE,
    NOISE_FLOOR,
    JudgeNoise,
    LeadMoments,
    Moments,
    Weights,
    fit_weights,
)
from genrm_cli.rewards.estimators.list_scores import ListCalibration, ListScores, ListStatistics
from genrm_cli.rewards.estimators.verdict_batch import (
    Floats,
    Indices,
    VerdictBatch,
    Verdicts,
    batches_of,
    verdict_array,
)
from genrm_cli.verdicts import MIDDLE_RANKING

# Pairs of verdicts with a rollout in common, and without for one ring, from which on intervals
# cover what they claim to.
MIN_SHARING_FOR_NOISE = 96
MIN_DISJOINT_FOR_NOISE = 200
# A bias is shrunk as if this many further verdicts had shown none: one verdict is opinion, not
# bias.
UNBIASED_VERDICTS = 32
_MAX_WAITING = 4096  # verdicts that are added together: a batch costs hardly more than one group

# Columns of a verdict's features: score_1 - score_2, 3.5 - ranking, the mean of both scores less 3,
# and 1.
_D, _R, _M, _ONE = range(4)
_GAPS = slice(_D, _M)
_COLUMNS = 4
# Sums of the products of features: of one verdict with itself, of two that share one rollout (with
# the signs of its positions; one of them signed; unsigned), and of two that share none.
_OWN, _SIGNED, _MIXED, _PLAIN, _DISJOINT = range(5)
_KINDS = 5
# The products of which each group's sums are kept, because errors depend on them.
_KEPT = np.zeros((_KINDS, _COLUMNS, _COLUMNS), dtype=np.bool_)
_GAPS_AND_ONE = np.ix_([_D, _R, _ONE], [_D, _R, _ONE])
_LEVEL_AND_ONE = np.ix_([_M, _ONE], [_M, _ONE])
for _kind in (_OWN, _SIGNED, _DISJOINT):
    _KEPT[_kind][_GAPS_AND_ONE] = True
for _kind in (_OWN, _PLAIN, _DISJOINT):
    _KEPT[_kind][_LEVEL_AND_ONE] = True
_KEPT[_MIXED][np.ix_([_D, _R, _ONE], [_M, _ONE])] = True
_KEPT[_PLAIN][_ONE, _ONE] = True
_ROWS = int(_KEPT.sum())


class Calibration(Struct, frozen=True):
    """Statistics of the whole run for an estimator; the defaults mean that nothing is known.

    Attributes:
        groups: with at least one verdict.
        gap_bias: mean of score_1 - score_2, above 0 where position 1 is preferred.
        ranking_bias: mean of 3.5 - ranking.
        weights: of rankings and levels.
        noise: of leads with this weight. None with too few verdicts: fewer than 96 pairs of
            verdicts share one rollout, or fewer than 200 share none (fewer suffice with more than
            one ring), as in groups of two and three.
        score_noise: of score differences alone; None with too few verdicts.
        expected: reliability that the noise lets expect in a typical group, near 0 if no signal was
            found. None with too few verdicts.
        expected_error: its standard error; None with too few verdicts or groups.
        reward_variance: mean of the variances of the rewards of a group; None if no rewards are
            known.
        lists: of a listwise judge.
        failed: why a bug kept the noise of the judge from being computed; None if it did not.
    """

    groups: int = 0
    gap_bias: float = 0.0
    ranking_bias: float = 0.0
    weights: Weights = Weights()
    noise: JudgeNoise | None = None
    score_noise: JudgeNoise | None = None
    expected: float | None = None
    expected_error: float | None = None
    reward_variance: float | None = None
    lists: ListCalibration = ListCalibration()
    failed: str | None = None

    def without_noise(self, failed: str) -> "Calibration":
        """Return what gives the same base scores, but neither standard errors nor reliability."""
        return replace(
            self,
            noise=None,
            score_noise=None,
            expected=None,
            expected_error=None,
            lists=replace(self.lists, noise=None, signal=None, uncertainty=None),
            failed=failed,
        )

    @property
    def expects(self) -> ExpectedSignal | None:
        """The expected reliability with its interval; None if it is unknown."""
        if self.expected is None or self.expected_error is None:
            return None
        return ExpectedSignal(self.expected, student_95(self.groups - 1) * self.expected_error)


class CalibrationStatistics:
    """Running sums over the verdicts of a run: some five hundred numbers, however many groups.

    The last bits of the sums depend on the order of the groups.

    Attributes:
        lists: sums over lists; None if the judges compare pairs.
    """

    def __init__(self, *, is_listwise: bool = False) -> None:
        """Begin before the first group."""
        self.lists = ListStatistics() if is_listwise else None
        self._groups = np.zeros(1)
        # Number and sum of the variances of the rewards of each group.
        self._variances = np.zeros(2)
        self._waiting: list[tuple[int, Floats]] = []
        self._waiting_verdicts = 0
        self._sums = np.zeros((_KINDS, _COLUMNS, _COLUMNS))
        # Sums over groups of the products of what each adds to two of the kept sums.
        self._by_group = np.zeros((_ROWS, _ROWS))

    def add_group(self, n: int, verdicts: Verdicts, lists: Sequence[ListScores] = ()) -> None:
        """Add the verdicts of one group of n rollouts, and the lists that they come from."""
        self.add_arrays(n, verdict_array(verdicts))
        if self.lists is not None:
            self.lists.add_group(n, lists)

    def add_arrays(self, n: int, verdicts: Floats) -> None:
        """Add the `verdict_array` [M, 5] of one group of n rollouts."""
        if len(verdicts):
            self._waiting.append((n, verdicts))
            self._waiting_verdicts += len(verdicts)
            if self._waiting_verdicts > _MAX_WAITING:
                self._take_waiting()

    def _take_waiting(self) -> None:
        for _, batch in batches_of(self._waiting):
            self.add_batch(batch)
        self._waiting.clear()
        self._waiting_verdicts = 0

    def add_batch(self, batch: VerdictBatch) -> None:
        """Add the verdicts of many groups of one size."""
        at = batch.valid
        self._groups += at.any(axis=1).sum()
        group = np.nonzero(at)[0]
        features = _features(batch)[at]
        first = group * batch.n + batch.first[at]
        second = group * batch.n + batch.second[at]
        # One row for each pair that was asked, not for each that there is.
        lower = np.minimum(first, second)
        upper = np.maximum(first, second)
        codes, pair = np.unique(lower * batch.n + upper % batch.n, return_inverse=True)
        lower = codes // batch.n
        upper = lower - lower % batch.n + codes % batch.n
        turned = np.where(first < second, 1.0, -1.0)[:, None]
        pairs = _sums(features, pair, len(codes))
        signed_pairs = _sums(features * turned, pair, len(codes))
        size = batch.groups * batch.n
        plain = _sums(pairs, lower, size) + _sums(pairs, upper, size)
        signed = _sums(signed_pairs, lower, size) - _sums(signed_pairs, upper, size)
        whole = _sums(features, group, batch.groups)
        of_pair = lower // batch.n
        of_rollout = np.repeat(np.arange(batch.groups), batch.n)
        groups = np.arange(batch.groups)

        def by_group(a: Floats, b: Floats, owner: Indices) -> Floats:
            products = (a[:, :, None] * b[:, None, :]).reshape(-1, _COLUMNS**2)
            return _sums(products, owner, batch.groups)

        same_pair = by_group(pairs, pairs, of_pair)
        # Verdicts on one pair share both rollouts: they are no two verdicts that share one.
        signed_pair = by_group(signed_pairs, signed_pairs, of_pair)
        shared = by_group(plain, plain, of_rollout) - 2 * same_pair
        parts = [
            by_group(features, features, group),
            by_group(signed, signed, of_rollout) - 2 * signed_pair,
            # Repeats of a pair cancel: the shared one is first, then second.
            by_group(signed, plain, of_rollout),
            shared,
            by_group(whole, whole, groups) - shared - same_pair,
        ]
        rows = np.concatenate(parts, axis=1)
        self._sums += rows.sum(axis=0).reshape(self._sums.shape)
        kept = rows[:, _KEPT.ravel()]
        self._by_group += kept.T @ kept

    def add_variance(self, variance: float) -> None:
        """Add the variance of the rewards of a group of two or more."""
        self._variances += (1, variance)

    @property
    def verdicts(self) -> int:
        """Verdicts so far."""
        self._take_waiting()
        return round(float(self._sums[_OWN, _ONE, _ONE]))

    @property
    def groups(self) -> int:
        """Groups with a verdict so far, as many as older ones still count for."""
        return round(float(self._groups[0]))

    def numbers(self) -> list[float]:
        """Return all sums; those of two parts of a run, added, are those of both."""
        self._take_waiting()
        return [number for sums in self._all_sums() for number in sums.ravel().tolist()]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float]) -> "CalibrationStatistics":
        """Return the statistics with these sums; `ValueError` for another number of them."""
        made = cls(is_listwise=len(numbers) > len(cls().numbers()))
        sizes = [sums.size for sums in made._all_sums()]
        if len(numbers) != sum(sizes):
            raise ValueError(f"{len(numbers)} sums")
        given = np.split(np.array(numbers, dtype=np.float64), np.cumsum(sizes)[:-1])
        for sums, values in zip(made._all_sums(), given, strict=True):
            sums += values.reshape(sums.shape)
        return made

    def _all_sums(self) -> tuple[Floats, ...]:
        lists = () if self.lists is None else self.lists.all_sums()
        return self._groups, self._sums, self._by_group, self._variances, *lists

    def fit(self) -> Calibration:
        """Return the calibration from the verdicts so far."""
        self._take_waiting()
        count = self._sums[_OWN, _ONE, _ONE]
        biases = self._sums[_OWN, _ONE, _GAPS] / (count + UNBIASED_VERDICTS)
        sharing = self._sums[_PLAIN, _ONE, _ONE] / 2
        disjoint = self._sums[_DISJOINT, _ONE, _ONE] / 2
        moments = self._moments() if min(sharing, disjoint) > 0 else None
        rewarded, variance = self._variances.tolist()
        known = Calibration(
            groups=self.groups,
            gap_bias=float(biases[_D]),
            ranking_bias=float(biases[_R]),
            weights=Weights() if moments is None else fit_weights(moments),
            reward_variance=variance / rewarded if rewarded else None,
        )
        # The prompt's part cancels as far as a rollout's positions differ in the pairs it shares.
        signs = abs(self._sums[_SIGNED, _ONE, _ONE]) / 2
        has_noise = sharing >= MIN_SHARING_FOR_NOISE
        has_noise &= disjoint * sharing >= MIN_DISJOINT_FOR_NOISE * signs
        failed: dict[str, str] = {}
        made = attempt(
            failed, ["noise"], lambda: self._with_noise(known, moments if has_noise else None)
        )
        return made or known.without_noise(failed["noise"])

    def _with_noise(self, known: Calibration, moments: Moments | None) -> Calibration:
        """Return the calibration with what only standard errors and reliability depend on."""
        if self.lists is not None:  # pairs of one list share its noise
            return _with_lists(known, self.lists.fit())
        if moments is None:
            return known
        weight = known.weights.ranking
        leads = moments.of_leads(weight)
        lead = np.array([1 - weight, weight])
        noise = leads.noise(float(lead @ moments.prompt[_GAPS, _GAPS] @ lead))
        return replace(
            known,
            noise=noise,
            score_noise=moments.of_leads(0.0).noise(float(moments.prompt[_D, _D])),
            expected=noise.expected_reliability(self._degree),
            expected_error=self._expected_error(leads, weight),
        )

    @property
    def _degree(self) -> float:
        """Mean number of verdicts on a rollout, 1 or more."""
        return 1 + float(self._sums[_PLAIN, _ONE, _ONE] / 2 / self._sums[_OWN, _ONE, _ONE])

    def _expected_error(self, leads: LeadMoments, weight: float) -> float | None:
        """Return the standard error of the expected reliability; None for a single group.

        Each moment is a sum over independent groups divided by another: its error is what leaving
        out groups would change. That of the reliability is taken over distances of one error,
        because it is not linear near its bounds.

        Source: the infinitesimal jackknife, L. A. Jaeckel, Bell Laboratories memorandum
        72-1215-11 (1972); sigma points, S. J. Julier and J. K. Uhlmann, SPIE 3068 (1997) 182."""
        if self.groups < 2:
            return None
        counts = self._sums[:, _ONE, _ONE]
        means = self._sums[_OWN, _ONE] / counts[_OWN]
        lead = np.array([1 - weight, weight, 0.0, 0.0])
        level = np.eye(_COLUMNS)[_M]
        lead[_ONE] -= lead @ means
        level[_ONE] -= level @ means
        one = np.eye(_COLUMNS)[_ONE]

        def influence(kind: int, a: Floats, b: Floats) -> Floats:
            """Return how the mean of a product follows what each group adds to all sums."""
            mean = a @ self._sums[kind] @ b / counts[kind]
            weights = np.zeros(self._sums.shape)
            weights[kind] = (np.outer(a, b) - mean * np.outer(one, one)) / counts[kind]
            return weights

        signs = counts[_SIGNED] / counts[_PLAIN]
        by_prompt = influence(_DISJOINT, lead, lead)
        prompt = lead @ self._sums[_DISJOINT] @ lead / counts[_DISJOINT]
        by_lead = np.zeros(self._sums.shape)
        by_lead[_SIGNED] = np.outer(lead, lead) - prompt * np.outer(one, one)
        by_lead[_PLAIN] = -leads.lead * np.outer(one, one)
        by_both = np.zeros(self._sums.shape)
        by_both[_MIXED] = np.outer(lead, level)
        by_both[_PLAIN] = -leads.both * np.outer(one, one)
        by_level_prompt = influence(_DISJOINT, level, level)
        weights = np.stack(
            [
                by_lead / counts[_PLAIN] - signs * by_prompt,
                by_both / counts[_PLAIN],
                influence(_PLAIN, level, level) - by_level_prompt,
                influence(_OWN, lead, lead) - by_prompt,
                influence(_OWN, level, level) - by_level_prompt,
            ]
        )[:, _KEPT]
        covariance = weights @ self._by_group @ weights.T * self.groups / (self.groups - 1)
        variances, directions = np.linalg.eigh(covariance)
        steps = (directions * np.sqrt(np.maximum(0.0, variances))).T
        centre = np.array(leads)

        def expected(numbers: Floats) -> float:
            moments = LeadMoments(*numbers.tolist())
            below = 2 * moments.lead / max(NOISE_FLOOR, moments.lead_within) - LEAST_SHARE
            known = moments.noise().expected_reliability(self._degree)
            return known + self._degree * min(0.0, below)

        return math.hypot(*((expected(centre + by) - expected(centre - by)) / 2 for by in steps))

    def _centred(self, sums: Floats) -> Floats:
        """Return the sums of products as if the mean over all verdicts were subtracted from each
        feature.
        """
        centre = np.eye(_COLUMNS)
        centre[_ONE] -= self._sums[_OWN, _ONE] / self._sums[_OWN, _ONE, _ONE]
        centre[_ONE, _ONE] = 1.0
        return np.asarray(centre.T @ sums @ centre, dtype=np.float64)

    def _moments(self) -> Moments:
        """Split the verdicts' variance into rollouts, prompts and the rest."""
        counts = self._sums[[_OWN, _PLAIN, _PLAIN, _PLAIN, _DISJOINT], _ONE, _ONE]
        means = (
            self._centred(sums) / count for sums, count in zip(self._sums, counts, strict=True)
        )
        own, signed, mixed, plain, prompt = means
        signal = np.empty((3, 3))
        signal[_GAPS, _GAPS] = signed[_GAPS, _GAPS] - signed[_ONE, _ONE] * prompt[_GAPS, _GAPS]
        signal[_GAPS, _M] = signal[_M, _GAPS] = mixed[_GAPS, _M]
        signal[_M, _M] = plain[_M, _M] - prompt[_M, _M]
        numbers = slice(_D, _ONE)
        pairs = float(counts[1]) / 2
        verdicts = float(counts[0])
        prompt = prompt[numbers, numbers]
        return Moments(signal, own[numbers, numbers] - prompt, prompt, pairs, verdicts)


def _with_lists(known: Calibration, lists: ListCalibration) -> Calibration:
    """Return a calibration with what the lists show."""
    if lists.noise is None or lists.signal is None:
        return replace(known, lists=lists)
    expected = max(LEAST_SHARE, lists.signal / (lists.signal + lists.noise))
    error = None if lists.uncertainty is None else lists.uncertainty * expected * (1 - expected)
    return replace(known, lists=lists, expected=expected, expected_error=error)


def _features(batch: VerdictBatch) -> Floats:
    """Return [G, M, 4]."""
    means = (batch.score_1 + batch.score_2) / 2 - 3.0
    columns = [
        batch.score_1 - batch.score_2,
        MIDDLE_RANKING - batch.ranking,
        means,
        np.ones_like(means),
    ]
    return np.stack(columns, axis=-1)


def _sums(values: Floats, owner: Indices, count: int) -> Floats:
    """Return [count, columns] the sums of the rows that belong to each owner."""
    columns = [np.bincount(owner, column, minlength=count) for column in values.T]
    return np.stack(columns, axis=-1)
