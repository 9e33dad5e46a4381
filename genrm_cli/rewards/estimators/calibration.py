"""Calibrate a judge from the verdicts of a whole run: position bias, signal, noise.

This needs no labels: two verdicts that share one rollout agree because of that rollout, two that
share none only because of the prompt.

Source: the method of moments for a linear model with random rollouts and random prompts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from genrm_cli.metrics.figures import attempt
from genrm_cli.metrics.running_stats import LEAST_SPREAD, Z_95
from genrm_cli.rewards.estimators.judge_noise import (
    COMPARING,
    LEVEL_FLOOR,
    TYPICAL,
    JudgeNoise,
    LabelNoise,
    Moments,
    kind_of,
    noise_of,
)
from genrm_cli.rewards.estimators.labels import (
    FIVE_LABELS,
    MUCH,
    SIZES,
    THREE_LABELS,
    UNIT,
    LabelModel,
    sizes_of,
)
from genrm_cli.rewards.estimators.list_scores import ListCalibration, ListScores, ListStatistics
from genrm_cli.rewards.estimators.verdict_batch import (
    Floats,
    VerdictBatch,
    Verdicts,
    batches_of,
    verdict_array,
)
from genrm_cli.verdicts import MIDDLE_RANKING

# With these, standard errors are accurate to about 20 %.
MIN_SHARING_FOR_NOISE = 96
# A bias is shrunk as if this many further verdicts had shown none: one verdict is opinion, not
# bias.
UNBIASED_VERDICTS = 32
_NOISE_FLOOR = 0.02  # variance: a judge without any would have a ratio without bound
_MAX_WAITING = 4096  # verdicts that are added together: a batch costs hardly more than one group

# Columns of a verdict's features: score_1 - score_2, 3.5 - ranking, the mean of both scores less 3,
# 1, and +1 or -1 for the one that is preferred, 0 for an even verdict.
_D, _R, _M, _ONE, _WIN = range(5)
_GAPS = slice(_D, _M)
_COLUMNS = 5
_LEAD = np.array([0.5, 0.5, 0.0, 0.0, 0.0])
# Sums of the products of features: of one verdict with itself, of two that share one rollout (with
# the signs of its positions; one of them signed; unsigned), and of two that share none.
_OWN, _SIGNED, _MIXED, _PLAIN, _DISJOINT = range(5)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Statistics of the whole run for an estimator; the defaults mean that nothing is known.

    Attributes:
        groups: with at least one verdict.
        gap_bias: mean of score_1 - score_2, above 0 where position 1 is preferred.
        ranking_bias: mean of 3.5 - ranking.
        first_share: share of verdicts that prefer the first, half of the even ones included;
            strictly between 0 and 1.
        noise: None with too few verdicts (fewer than 96 pairs of verdicts share one rollout, or no
            two share none, as in groups of two and three), and if no signal was found.
        kind: of the judge; the typical kind if there are too few verdicts.
        labels: model of a judge of labels; None for a judge of scores.
        label_noise: of the values of its labels; None with too few verdicts.
        ratio: signal over noise of the leads, 0 if no signal was found; None with too few verdicts.
        ratio_error: its standard error; None with too few verdicts or groups.
        reward_variance: mean of the variances of the rewards of a group; None if no rewards are
            known.
        lists: of a listwise judge.
        failed: why a bug kept the noise of the judge from being computed; None if it did not.
    """

    groups: int = 0
    gap_bias: float = 0.0
    ranking_bias: float = 0.0
    first_share: float = 0.5
    noise: JudgeNoise | None = None
    kind: JudgeNoise = TYPICAL
    labels: LabelModel | None = None
    label_noise: LabelNoise | None = None
    ratio: float | None = None
    ratio_error: float | None = None
    reward_variance: float | None = None
    lists: ListCalibration = ListCalibration()  # noqa: RUF009  (immutable)
    failed: str | None = None

    def without_noise(self, failed: str) -> "Calibration":
        """Return what gives the same base scores, but neither standard errors nor reliability."""
        return replace(
            self,
            noise=None,
            label_noise=None,
            ratio=None,
            ratio_error=None,
            lists=replace(self.lists, noise=None, signal=None, uncertainty=None),
            failed=failed,
        )

    @property
    def uncertainty(self) -> float | None:
        """Standard error of the logarithm of signal over noise; None if unknown, or no signal."""
        if not self.ratio or self.ratio_error is None:
            return None
        return self.ratio_error / self.ratio

    @property
    def most_signal(self) -> float | None:
        """Upper end of the 95 % interval of signal over noise; None if unknown."""
        if self.ratio is None or self.ratio_error is None:
            return None
        return self.ratio + Z_95 * self.ratio_error


class CalibrationStatistics:
    """Running sums over the verdicts of a run: fewer than two hundred numbers, however many groups.

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
        self._sums = np.zeros((5, _COLUMNS, _COLUMNS))
        self._labels = np.zeros(SIZES)
        # Products, summed over groups, of what each adds to seven sums: of the products of leads
        # and ones of verdicts that share one rollout, signed; of the number of these; and of the
        # products for each verdict alone.
        self._by_group = np.zeros((7, 7))

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
        self._groups += batch.valid.any(axis=1).sum()
        self._labels += sizes_of(batch).sum(axis=0)
        features = _features(batch)
        columns = [batch.sum_by_order(column) for column in np.moveaxis(features, -1, 0)]
        ordered = np.stack(columns, axis=-1)
        plain_pairs = ordered + ordered.swapaxes(1, 2)
        signed_pairs = ordered - ordered.swapaxes(1, 2)
        plain = plain_pairs.sum(axis=2)
        signed = signed_pairs.sum(axis=2)
        # Verdicts on one pair share both rollouts: they are no two verdicts that share one.
        same_pair = _products(plain_pairs, plain_pairs)
        plain_share = _products(plain, plain) - same_pair
        whole = features.sum(axis=1)
        self._sums[_OWN] += _products(features, features)
        self._sums[_SIGNED] += _products(signed, signed) - _products(signed_pairs, signed_pairs)
        # Repeats of a pair cancel: the shared one is first, then second.
        self._sums[_MIXED] += _products(signed, plain)
        self._sums[_PLAIN] += plain_share
        self._sums[_DISJOINT] += _products(whole, whole) - plain_share - same_pair / 2
        parts = np.concatenate(
            [
                _products_by_group(signed) - _products_by_group(signed_pairs),
                (_products_by_group(plain) - _products_by_group(plain_pairs))[-1:],
                _products_by_group(features),
            ]
        )
        self._by_group += parts @ parts.T

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
        return self._groups, self._sums, self._labels, self._by_group, self._variances, *lists

    def fit(self) -> Calibration:
        """Return the calibration from the verdicts so far."""
        self._take_waiting()
        count = self._sums[_OWN, _ONE, _ONE]
        biases = self._sums[_OWN, _ONE, _GAPS] / (count + UNBIASED_VERDICTS)
        sharing = self._sums[_PLAIN, _ONE, _ONE] / 2
        disjoint = self._sums[_DISJOINT, _ONE, _ONE]
        moments = self._moments() if min(sharing, disjoint) > 0 else None
        rewarded, variance = self._variances.tolist()
        is_labels = 0 < count <= self._labels.sum() * (1 + 1e-9)  # sums that fade are rounded
        labels = FIVE_LABELS if self._labels[MUCH] else THREE_LABELS
        known = Calibration(
            groups=self.groups,
            gap_bias=float(biases[_D]),
            ranking_bias=float(biases[_R]),
            first_share=float(0.5 + self._sums[_OWN, _ONE, _WIN] / 2 / (count + UNBIASED_VERDICTS)),
            kind=self._kind(moments),
            labels=labels if is_labels else None,
            reward_variance=variance / rewarded if rewarded else None,
        )
        has_noise = sharing >= MIN_SHARING_FOR_NOISE
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
        lead = self._split(_LEAD)
        return replace(
            known,
            noise=noise_of(moments),
            ratio=lead.signal / lead.noise,
            ratio_error=self._ratio_error(lead),
            label_noise=None if known.labels is None else self._split(_LEAD / UNIT),
        )

    def _kind(self, moments: Moments | None) -> JudgeNoise:
        verdicts = self._sums[_OWN, _ONE, _ONE]
        if verdicts and self._centred(self._sums[_OWN])[_M, _M] <= LEVEL_FLOOR * verdicts:
            return COMPARING
        return TYPICAL if moments is None else kind_of(moments)

    def _split(self, features: Floats) -> LabelNoise:
        """Split the variance of a sum of features into rollouts, prompts and noise."""
        counts = self._sums[:, _ONE, _ONE]
        own, signed, _, _, prompt = (
            features @ self._centred(sums) @ features for sums in self._sums
        )
        prompt /= counts[_DISJOINT]
        signal = float(signed - counts[_SIGNED] * prompt) / float(counts[_PLAIN])
        noise = max(_NOISE_FLOOR, float(own / counts[_OWN] - prompt) - 2 * max(0.0, signal))
        # Sums that cancel leave some 1e-17, whose logarithm would have an error without bound.
        return LabelNoise(signal if signal > LEAST_SPREAD * noise else 0.0, noise)

    def _ratio_error(self, lead: LabelNoise) -> float | None:
        """Return the standard error of signal over noise, of leads; None for a single group.

        Source: the variance of a ratio of sums over independent groups, by linearisation; W. G.
        Cochran, Sampling Techniques (3rd edition, 1977) §6.4."""
        if self.groups < 2:
            return None
        verdicts = self._sums[_OWN, _ONE, _ONE]
        sharing = self._sums[_PLAIN, _ONE, _ONE]
        mean = float(_LEAD @ self._sums[_OWN, _ONE]) / verdicts
        centre = np.array([1.0, -2 * mean, mean**2])
        shared, whole = (
            _LEAD @ self._centred(self._sums[kind]) @ _LEAD for kind in (_SIGNED, _OWN)
        )
        ratio = lead.signal / lead.noise
        by_shared = (1 + 2 * ratio) / (lead.noise * sharing)
        by_own = -ratio / (lead.noise * verdicts)
        weights = np.array([*by_shared * centre, -by_shared * shared / sharing, *by_own * centre])
        weights[-1] -= by_own * whole / verdicts
        variance = float(weights @ self._by_group @ weights) * self.groups / (self.groups - 1)
        return math.sqrt(max(0.0, variance))

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
        return Moments(signal, own[numbers, numbers], prompt[numbers, numbers], pairs, verdicts)


def _with_lists(known: Calibration, lists: ListCalibration) -> Calibration:
    """Return a calibration with what the lists show."""
    ratio = None
    ratio_error = None
    if lists.noise is not None and lists.signal is not None:
        ratio = lists.signal / lists.noise
        ratio_error = None if lists.uncertainty is None else lists.uncertainty * ratio
    return replace(known, lists=lists, ratio=ratio, ratio_error=ratio_error)


def _features(batch: VerdictBatch) -> Floats:
    """Return [G, M, 5], all 0 where there is no verdict."""
    means = (batch.score_1 + batch.score_2) / 2 - 3.0
    columns = [
        batch.score_1 - batch.score_2,
        MIDDLE_RANKING - batch.ranking,
        means,
        np.ones_like(means),
        np.sign(batch.preferences()),
    ]
    return np.stack(columns, axis=-1) * batch.valid[..., None]


def _products(a: Floats, b: Floats) -> Floats:
    """Return the sums of the products of all columns."""
    products: Floats = a.reshape(-1, _COLUMNS).T @ b.reshape(-1, _COLUMNS)
    return products


def _products_by_group(values: Floats) -> Floats:
    """Return [3, G] the sums of the products of leads and ones: of leads, of both, of ones."""
    leads = values @ _LEAD
    ones = values[..., _ONE]
    rest = tuple(range(1, leads.ndim))
    return np.stack([product.sum(axis=rest) for product in (leads**2, leads * ones, ones**2)])
