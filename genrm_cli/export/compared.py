"""The judge's own comparisons of a group: its preferences, and how sure it is of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from genrm_cli.errors import InputError
from genrm_cli.export.candidates import Preferences
from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.verdict_batch import Floats, batch_of
from genrm_cli.rewards.order import posterior_of
from genrm_cli.scored.lines import ComparisonRecord
from genrm_cli.verdicts import Verdict, preference, sign_of

Confidence = Callable[[int, int], float | None]
"""Probability that the judge truly prefers the first index to the second; None if unknown."""


def joined_verdicts(comparisons: Sequence[ComparisonRecord], weights: Mapping[str, float]) -> Floats:
    """Return [M, 5] the verdicts of a group: first, second, score_1, score_2, ranking; those of a panel by weight.

    Failures, grades and components are skipped.

    Raises:
        InputError: indices are out of range.
    """
    kept = []
    for each in comparisons:
        if each.verdict is None or not each.is_pair:
            continue
        first, second = each.indices
        if min(first, second) < 0 or first == second:
            raise InputError(f"group {each.group}: a comparison of {first} and {second}; score the rollouts again")
        weight = weights.get(each.judge) or 1.0
        scores = each.verdict.score_1, each.verdict.score_2, each.verdict.ranking
        kept.append((each.judge_idx, first, second, weight, *(weight * score for score in scores)))
    verdicts = np.array(kept, dtype=np.float64).reshape(-1, 7)
    places, number = np.unique(verdicts[:, :3], axis=0, return_inverse=True)
    sums = np.zeros((len(places), 4))
    np.add.at(sums, number.ravel(), verdicts[:, 3:])
    return np.column_stack([places[:, 1:], sums[:, 1:] / sums[:, :1]])


def preferences_of(verdicts: Floats) -> Preferences:
    """Return the preference of the judge in each pair that it compared; see `Preferences`."""
    by_order: dict[tuple[int, int], list[float]] = {}
    for first, second, *scores in verdicts.tolist():
        by_order.setdefault((int(first), int(second)), []).append(preference(Verdict(*scores)))
    signs = {order: sign_of(sum(map(sign_of, given))) for order, given in by_order.items()}
    found: dict[tuple[int, int], int] = {}
    for (first, second), sign in signs.items():
        pair, towards = ((first, second), sign) if first < second else ((second, first), -sign)
        found[pair] = towards if found.get(pair, towards) == towards else 0
    return found


def calibrated(groups: Iterable[Floats]) -> Calibration:
    """Return the calibration of the judge on the verdicts of all groups."""
    statistics = CalibrationStatistics()
    for verdicts in groups:
        if len(verdicts):
            statistics.add_arrays(_size_of(verdicts), verdicts)
    return statistics.fit()


def confidence_of(verdicts: Floats, calibration: Calibration) -> Confidence:
    """Return the probability that the judge truly prefers one index of a group to another; None if unknown."""
    posterior = None
    if len(verdicts):
        posterior = posterior_of(batch_of(_size_of(verdicts), [verdicts]), calibration)

    def of_pair(i: int, j: int) -> float | None:
        scored = () if posterior is None else posterior.scored[0]
        if posterior is None or min(i, j) < 0 or max(i, j) >= len(scored):
            return None
        return posterior.confidence(0, i, j) if scored[i] and scored[j] else None

    return of_pair


def _size_of(verdicts: Floats) -> int:
    return int(verdicts[:, :2].max()) + 1
