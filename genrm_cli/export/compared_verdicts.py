"""The judge's own comparisons, from the file beside scored lines: 28 bytes of memory each."""

from array import array
from collections.abc import Iterator

import numpy as np

from genrm_cli.export.candidates import Preferences
from genrm_cli.rewards.estimators import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.verdict_batch import Floats, batch_of
from genrm_cli.rewards.order import Posterior, posterior_of
from genrm_cli.scored.lines import ComparisonRecord
from genrm_cli.verdicts import Verdict, preference, sign_of

_MAX_DENSE = 2_048  # rollouts; a posterior of more would take gigabytes
_MAX_INDEX = 2**31


class ComparedVerdicts:
    """The verdicts of all groups, by group and comparison. Verdicts of a panel are joined by weight."""

    def __init__(self) -> None:
        self._places = array("I")  # group, repeat, first, second
        self._numbers = array("f")  # score_1, score_2, ranking, weight
        self._starts: dict[int, tuple[int, int]] | None = None
        self._table: Floats
        self._calibration: Calibration | None = None

    def add(self, comparison: ComparisonRecord, group: int, weight: float) -> None:
        """Add a comparison of a group; failures, grades and components are skipped.

        Raises:
            ValueError: its indices are out of range.
        """
        verdict = comparison.verdict
        if verdict is None or not comparison.is_pair:
            return
        first, second = comparison.indices
        if not (0 <= first < _MAX_INDEX and 0 <= second < _MAX_INDEX and first != second):
            raise ValueError("indices out of range")
        self._places.extend((group, comparison.judge_idx, first, second))
        self._numbers.extend((verdict.score_1, verdict.score_2, verdict.ranking, weight))

    def preferences(self, group: int) -> Preferences:
        """Return the preference of the judge in each pair that it compared; see `Preferences`."""
        by_order: dict[tuple[int, int], list[float]] = {}
        for first, second, *scores in self._rows(group).tolist():
            by_order.setdefault((int(first), int(second)), []).append(preference(Verdict(*scores)))
        signs = {order: sign_of(sum(map(sign_of, given))) for order, given in by_order.items()}
        found: dict[tuple[int, int], int] = {}
        for (first, second), sign in signs.items():
            pair, towards = ((first, second), sign) if first < second else ((second, first), -sign)
            found[pair] = towards if found.get(pair, towards) == towards else 0
        return found

    def posterior(self, group: int) -> Posterior | None:
        """Return what the verdicts of a group say about its rollouts; None without verdicts or a known noise."""
        rows = self._rows(group)
        if not len(rows):
            return None
        batch = batch_of(int(rows[:, :2].max()) + 1, [rows])
        return None if batch.n > _MAX_DENSE else posterior_of(batch, self.calibration)

    @property
    def calibration(self) -> Calibration:
        """The calibration of the judge on all verdicts."""
        if self._calibration is None:
            statistics = CalibrationStatistics()
            for group in self._spans():
                rows = self._rows(group)
                statistics.add_arrays(int(rows[:, :2].max()) + 1, rows)
            self._calibration = statistics.fit()
        return self._calibration

    def _rows(self, group: int) -> Floats:
        """Return [M, 5] the verdicts of a group: first, second, score_1, score_2, ranking."""
        start, end = self._spans().get(group, (0, 0))
        return self._table[start:end]

    def _spans(self) -> dict[int, tuple[int, int]]:
        if self._starts is None:
            self._starts = dict(self._joined())
        return self._starts

    def _joined(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Join the judges of each comparison, sort by group, and yield the bounds of each group."""
        places = np.frombuffer(self._places, dtype=np.uint32).reshape(-1, 4)
        numbers = np.frombuffer(self._numbers, dtype=np.float32).reshape(-1, 4)
        if not len(places):
            self._table = np.zeros((0, 5))
            return
        order = np.lexsort(places.T[::-1])
        places, numbers = places[order], numbers[order].astype(np.float64)
        is_new = np.append(True, np.any(places[1:] != places[:-1], axis=1))
        starts = np.flatnonzero(is_new)
        weights = numbers[:, 3]
        sums = np.add.reduceat(numbers[:, :3] * weights[:, None], starts, axis=0)
        joined = sums / np.add.reduceat(weights, starts)[:, None]
        self._table = np.concatenate([places[starts][:, 2:].astype(np.float64), joined], axis=1)
        groups = places[starts][:, 0]
        ends = [*(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        start = 0
        for end in ends:
            yield int(groups[start]), (start, end)
            start = end
