"""Base scores from lists: a judge's scores of responses that it saw together.

A score is the quality of its rollout, plus the effect of its position, plus the level of its list,
plus noise. Lists of one group share rollouts, so that least squares joins them. What a judge says
in every order, right or wrong, counts as quality: the errors tell how well its opinion is known.

Source: two-way layout with random qualities; W. A. Fuller and G. E. Battese, J. Am. Stat. Assoc. 68
(1973) 626.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from genrm_cli.metrics.figures import rounded_all
from genrm_cli.metrics.running_stats import LEAST_SPREAD
from genrm_cli.rewards.estimators.verdict_batch import Floats

MAX_POSITIONS = 32  # of lists whose positions are corrected; longer lists have the last in common
# Noise from fewer degrees of freedom is not stated: its relative error would exceed a third.
_LEAST_FREEDOM = 20
_ROUNDS = 2  # the positions and the variances depend on each other; a third changes less than 1e-3


class ListScores(NamedTuple):
    """The scores of one list: the rollouts that have a score, their positions in the
    list, from 0, and their scores.
    """

    rollouts: Sequence[int]
    positions: Sequence[int]
    scores: Sequence[float]


class ListCalibration(Struct, frozen=True):
    """Statistics of the whole run about a listwise judge.

    Attributes:
        positions: effect of each position on a score, shrunk; they sum to 0.
        noise: variance of a score given its rollout and its list; None with too few repeats.
        signal: variance of the qualities of a group; None with too few repeats.
        uncertainty: standard error of the logarithm of signal over noise; None with too few
            repeats, or without a signal.
    """

    positions: tuple[float, ...] = (0.0,) * MAX_POSITIONS
    noise: float | None = None
    signal: float | None = None
    uncertainty: float | None = None


class _Stratum:
    """Sums of squares and products of the scores and of the position indicators, within or between
    rollouts.
    """

    def __init__(self) -> None:
        self.positions = np.zeros((MAX_POSITIONS, MAX_POSITIONS))
        self.products = np.zeros(MAX_POSITIONS)
        self.totals = np.zeros(2)  # squares of scores, degrees of freedom

    def add(self, indicators: Floats, scores: Floats, freedom: float) -> None:
        self.positions += indicators.T @ indicators
        self.products += indicators.T @ scores
        self.totals += (float(scores @ scores), freedom)

    @property
    def freedom(self) -> float:
        return float(self.totals[1])

    def squares_without(self, effects: Floats) -> float:
        """Return the sum of squares after the effects of positions are subtracted."""
        fitted = effects @ (self.positions @ effects - 2 * self.products)
        return max(0.0, float(self.totals[0] + fitted))

    def all_sums(self) -> tuple[Floats, ...]:
        return self.positions, self.products, self.totals


class ListStatistics:
    """Running sums over the lists of a run; those of two parts, added, are those of both."""

    def __init__(self) -> None:
        self._within = _Stratum()
        self._between = _Stratum()
        # Groups, and the sum of the traces of their information matrices: what a unit of the
        # variance of the qualities adds to the squares between rollouts.
        self._totals = np.zeros(2)

    @property
    def groups(self) -> float:
        """Groups with a list of two scores; a fraction after older ones have faded."""
        return float(self._totals[0])

    def all_sums(self) -> tuple[Floats, ...]:
        """Return the arrays of all sums, to be added to."""
        return *self._within.all_sums(), *self._between.all_sums(), self._totals

    def add_group(self, n: int, lists: Sequence[ListScores]) -> None:
        """Add the lists of a group of n rollouts; one of a single score says nothing."""
        design = design_of(n, lists)
        if design is None:
            return
        scores = design.scores
        positions = design.positions
        rollouts = design.rollouts
        by_rollout = rollouts @ np.linalg.pinv(rollouts)
        rank = round(float(np.trace(by_rollout)))
        self._between.add(by_rollout @ positions, by_rollout @ scores, rank)
        self._within.add(
            positions - by_rollout @ positions,
            scores - by_rollout @ scores,
            design.freedom - rank,
        )
        self._totals += (1.0, float((rollouts**2).sum()))

    def fit(self) -> ListCalibration:
        """Return the calibration from the lists so far."""
        within = self._within
        between = self._between
        effects = np.zeros(MAX_POSITIONS)
        if not self.groups:
            return ListCalibration()
        used = int(
            np.count_nonzero(np.diagonal(within.positions + between.positions) > LEAST_SPREAD)
        )
        noise = signal = 0.0
        for _ in range(_ROUNDS):
            free = within.freedom - max(0, used - 1)
            noise = within.squares_without(effects) / free if free > 0 else 0.0
            excess = between.squares_without(effects) - between.freedom * noise
            signal = max(0.0, excess / float(self._totals[1]))
            effects = self._effects(noise, signal, used)
        if free < _LEAST_FREEDOM or noise <= 0:
            return ListCalibration(tuple(rounded_all(effects.tolist())))
        return ListCalibration(
            positions=tuple(rounded_all(effects.tolist())),
            noise=noise,
            signal=signal,
            uncertainty=_log_error(
                between.squares_without(effects) / between.freedom / noise, between.freedom, free
            ),
        )

    def _effects(self, noise: float, signal: float, used: int) -> Floats:
        """Return the effects of positions by generalised least squares, shrunk towards 0.

        Source: positive-part James-Stein; B. Efron and C. Morris, J. Am. Stat. Assoc. 68 (1973)
        117."""
        within = self._within
        between = self._between
        share = float(self._totals[1]) / between.freedom if between.freedom else 0.0
        between_noise = noise + share * signal
        if between_noise <= 0:
            return np.zeros(MAX_POSITIONS)
        weight = 1 / between_noise
        system = weight * between.positions
        right = weight * between.products
        if noise > 0:
            system = system + within.positions / noise
            right = right + within.products / noise
        inverse = np.linalg.pinv(system, rcond=LEAST_SPREAD, hermitian=True)
        effects: Floats = inverse @ right
        size = float(effects @ effects)
        if used < 4 or size <= 0:  # too few positions to shrink
            return effects
        error = float(np.trace(inverse)) / used
        return effects * max(0.0, 1 - (used - 3) * error / size)


def _log_error(ratio: float, between: float, within: float) -> float | None:
    """Return the standard error of the logarithm of signal over noise; None without signal.

    `ratio` is the mean square between rollouts over that within, with their degrees of freedom. The
    qualities of the run's own groups are fixed: they need not be normal, nor equally spread.

    Source: P. B. Patnaik, Biometrika 36 (1949) 202; delta method."""
    if ratio <= 1:
        return None
    freedom = between * ratio**2 / (2 * ratio - 1)
    return ratio / (ratio - 1) * math.sqrt(2 / freedom + 2 / within)


class Design(NamedTuple):
    """The observations of one group, with the mean of each list subtracted from all columns.

    Attributes:
        scores: [N].
        positions: [N, MAX_POSITIONS], indicators.
        rollouts: [N, n], indicators.
        freedom: N less the number of lists.
        level: mean of the means of the lists.
    """

    scores: Floats
    positions: Floats
    rollouts: Floats
    freedom: int
    level: float


def design_of(n: int, lists: Sequence[ListScores]) -> Design | None:
    """Return the observations of a group of n rollouts; None if no list has two scores."""
    parts = []
    levels = []
    for each in lists:
        size = len(each.rollouts)
        if size < 2:
            continue
        scores = np.array(each.scores, dtype=np.float64)
        places = np.minimum(each.positions, MAX_POSITIONS - 1)
        columns = np.column_stack(
            [scores, np.eye(MAX_POSITIONS)[places], np.eye(n)[list(each.rollouts)]]
        )
        parts.append(columns - columns.mean(axis=0))
        levels.append(float(scores.mean()))
    if not parts:
        return None
    rows = np.concatenate(parts)
    return Design(
        rows[:, 0],
        rows[:, 1 : 1 + MAX_POSITIONS],
        rows[:, 1 + MAX_POSITIONS :],
        len(rows) - len(parts),
        math.fsum(levels) / len(levels),
    )
