"""Judges that answer different comparisons of a group: the evidence of each for the qualities that
the first sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from genrm_cli.metrics.rounding import rounded
from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import Estimate, estimate_many
from genrm_cli.rewards.estimators.least_squares import QUALITY_POINTS, laplacian_of, points_of
from genrm_cli.rewards.estimators.verdict_batch import Floats, Verdicts, batch_of, verdict_array
from genrm_cli.verdicts import MIDDLE_RANKING

_TYPICAL_AGREEMENT, _TYPICAL_PAIRS = (
    0.8,
    128,
)  # correlation of two judges' qualities, and how much it counts for
_UNKNOWN_RELIABILITY = 0.5
_LEAST, _MOST = 1e-6, 0.98  # of a reliability
_SHAPE = (2, 2)


@dataclass(slots=True)
class RunStatistics:
    """Running sums over the verdicts that count, and over those of each judge where judges share
    the pairs.

    `variances` are number and sum of the variances of the rewards of each group.
    """

    joined: CalibrationStatistics = field(default_factory=CalibrationStatistics)
    variances: Floats = field(default_factory=lambda: np.zeros(2))
    _judges: list[CalibrationStatistics] = field(default_factory=list)
    _products: dict[tuple[int, int], Floats] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], float] = field(default_factory=dict)

    def add_group(self, n: int, verdicts: Verdicts, own: Sequence[Verdicts] = ()) -> None:
        """Add the verdicts of one group of n rollouts: those that count, and those of each
        judge.
        """
        self.add_arrays(n, [verdict_array(verdicts), *map(verdict_array, own)])

    def add_arrays(self, n: int, arrays: Sequence[Floats]) -> None:
        """Add the `verdict_array` of one group of n rollouts, and that of each judge."""
        if not arrays:
            return
        joined, *own = arrays
        self.joined.add_arrays(n, joined)
        self._judges += [CalibrationStatistics() for _ in own[len(self._judges) :]]
        for judge, array in zip(self._judges, own, strict=False):
            judge.add_arrays(n, array)
        batches = [batch_of(n, [array]) for array in own]
        leads = [(b.score_1 - b.score_2 + MIDDLE_RANKING - b.ranking) / 2 for b in batches]
        sums = [
            np.stack([b.sum_by_rollout(x, -x)[0] for x in (lead, np.ones_like(lead))])
            for b, lead in zip(batches, leads, strict=True)
        ]
        graphs = [laplacian_of(batch)[0] for batch in batches]
        for i in range(len(own)):
            for j in range(i):
                self._products[i, j] = (
                    self._products.get((i, j), np.zeros(_SHAPE)) + sums[i] @ sums[j].T
                )
                self._pairs[i, j] = self._pairs.get((i, j), 0.0) + float(
                    (graphs[i] * graphs[j]).sum()
                )

    def add_variance(self, variance: float) -> None:
        """Add the variance of the rewards of a group of two or more."""
        self.variances += (1, variance)

    def merge(self, other: "RunStatistics") -> None:
        """Add the verdicts of another part of the run, by the same judges."""
        self.joined.merge(other.joined)
        self.variances += other.variances
        self._judges += [CalibrationStatistics() for _ in other._judges[len(self._judges) :]]
        for mine, theirs in zip(self._judges, other._judges, strict=False):
            mine.merge(theirs)
        for pair, products in other._products.items():
            self._products[pair] = self._products.get(pair, np.zeros(_SHAPE)) + products
            self._pairs[pair] = self._pairs.get(pair, 0.0) + other._pairs[pair]

    def numbers(self, judges: int) -> list[float]:
        """Return all sums, with room for so many judges; those of two parts of a run, added, are
        those of both.
        """
        missing = [CalibrationStatistics() for _ in range(judges - len(self._judges))]
        found = [
            number for each in (self.joined, *self._judges, *missing) for number in each.numbers()
        ]
        for pair in _pairs_of(judges):
            found += [
                *self._products.get(pair, np.zeros(_SHAPE)).ravel().tolist(),
                self._pairs.get(pair, 0.0),
            ]
        return [*found, *map(float, self.variances)]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], judges: int) -> "RunStatistics":
        """Return the statistics with these sums; `ValueError` for another number of them."""
        pairs = _pairs_of(judges)
        size = len(CalibrationStatistics().numbers())
        of_pairs = np.array(numbers[size * (1 + judges) : -2]).reshape(
            len(pairs), _SHAPE[0] * _SHAPE[1] + 1
        )
        parts = [numbers[at : at + size] for at in range(0, size * (1 + judges), size)]
        joined, *own = map(CalibrationStatistics.of_numbers, parts)
        products = {
            pair: row[:-1].reshape(_SHAPE) for pair, row in zip(pairs, of_pairs, strict=True)
        }
        shared = {pair: float(row[-1]) for pair, row in zip(pairs, of_pairs, strict=True)}
        return cls(joined, np.array(numbers[-2:]), own, products, shared)

    def fit(self) -> Calibration:
        """Return the calibration from the verdicts so far."""
        judges = tuple(judge.fit() for judge in self._judges)
        agreement = np.eye(len(judges))
        for (i, j), products in self._products.items():
            agreement[i, j] = agreement[j, i] = _agreement(
                judges[i], judges[j], products, self._pairs[i, j]
            )
        count, total = self.variances.tolist()
        return replace(
            self.joined.fit(),
            judges=judges,
            agreement=tuple(map(tuple, agreement.tolist())),
            reward_variance=total / count if count else None,
        )


def _pairs_of(judges: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(judges) for j in range(i)]


def _agreement(one: Calibration, other: Calibration, products: Floats, pairs: float) -> float:
    """Return the correlation of the qualities that two judges see, 0 to 1.

    Verdicts of both with a rollout in common share its qualities alone. With few of them it is near
    that of typical judges."""
    less = [np.array([1.0, -(judge.gap_bias + judge.ranking_bias) / 2]) for judge in (one, other)]
    scale = (one.noise or one.kind).scale * (other.noise or other.kind).scale
    shared = float(less[0] @ products @ less[1]) / scale
    return min(
        1.0, max(0.0, (shared + _TYPICAL_AGREEMENT * _TYPICAL_PAIRS) / (pairs + _TYPICAL_PAIRS))
    )


def estimate_panel(
    groups: Sequence[tuple[int, Sequence[Verdicts]]], calibration: Calibration
) -> list[Estimate]:
    """Estimate the qualities that the first judge sees, from the verdicts of all judges on their
    own comparisons.

    Each judge's verdicts alone give qualities, shrunk as far as they are unreliable, and a
    reliability. The others count as far as they are reliable and their qualities agree with those
    of the first. On the scale of `adapt`.

    Source: best linear unbiased prediction, C. R. Henderson, Biometrics 31 (1975) 423.
    """
    count = max((len(own) for _, own in groups), default=0)
    if not count:
        return []
    seen = len(
        calibration.judges
    )  # fewer than all if the last ones gave no verdict in the whole run
    known = (*calibration.judges, *(Calibration() for _ in range(count - seen)))
    by_judge = [
        estimate_many("adaptive", [(n, own[number]) for n, own in groups], known[number])
        for number in range(count)
    ]
    agreement = np.full((count, count), _TYPICAL_AGREEMENT)
    np.fill_diagonal(agreement, 1.0)
    if seen:
        agreement[:seen, :seen] = calibration.agreement
    points = points_of(known[0])
    return [
        _joined(list(estimates), points, agreement) for estimates in zip(*by_judge, strict=True)
    ]


def _joined(estimates: Sequence[Estimate], points: float, agreement: Floats) -> Estimate:
    scores = np.array(
        [[np.nan if x is None else x for x in each.base_scores] for each in estimates]
    )
    is_scored = ~np.isnan(scores)
    any_scored = is_scored.any(axis=0)
    if not any_scored.any():
        return estimates[0]
    means = [
        float(row[has].mean()) if has.any() else 0.0
        for row, has in zip(scores, is_scored, strict=True)
    ]
    level = next(mean for mean, has in zip(means, is_scored, strict=True) if has.any())
    qualities = np.where(is_scored, scores - np.array(means)[:, None], 0.0) / QUALITY_POINTS
    for row, each in zip(qualities, estimates, strict=True):
        row[:] = row if each.qualities is None else each.qualities
    qualities = np.where(is_scored, qualities, 0.0)
    given = [
        _UNKNOWN_RELIABILITY if each.reliability is None else each.reliability for each in estimates
    ]
    reliabilities = np.where(
        is_scored, np.clip(given, _LEAST, _MOST)[:, None], _LEAST
    ).T  # [n, judges]
    covariances = agreement + (1 / reliabilities - 1)[:, :, None] * np.eye(len(estimates))
    weights = np.linalg.solve(
        covariances, np.broadcast_to(agreement[0], reliabilities.shape)[..., None]
    )[..., 0]
    joined = (weights / reliabilities * qualities.T).sum(axis=1)
    explained = weights @ agreement[0]
    errors = points * np.sqrt(
        np.maximum(0.0, 1 - explained) * (1 - 1 / max(1, int(any_scored.sum())))
    )
    is_known = any(each.reliability is not None for each in estimates) and any_scored.sum() > 1
    joined = level + points * (joined - joined[any_scored].mean())
    return Estimate(
        [
            rounded(float(score)) if of else None
            for score, of in zip(joined, any_scored, strict=True)
        ],
        [
            rounded(float(error)) if of and is_known else None
            for error, of in zip(errors, any_scored, strict=True)
        ],
        all(each.converged for each in estimates),
        rounded(float(explained[any_scored].mean())) if is_known else None,
        uncertainty=estimates[0].uncertainty,
    )
