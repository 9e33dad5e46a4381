"""Data that a file job keeps on disk between passes: judged groups with their verdicts, and
scores.
"""

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
import orjson

from genrm_cli.groups.caused_failures import SuspectCounts
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.rewards.compose import weight_of
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.estimators.verdict_batch import Verdicts, verdict_array
from genrm_cli.rollouts.formats import Score
from genrm_cli.storage.spool import Pieces, Spool

_KEPT_COLUMNS = 5  # of `verdict_array`


class OutcomeStore(AbstractContextManager["OutcomeStore"]):
    """The judged groups of an input by number, and their verdicts; 32 bytes of memory a group."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._groups = Pieces(self._spool)
        self._verdicts = Pieces(self._spool)
        self.suspects = SuspectCounts()

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def keep(self, number: int, judged: JudgedGroup, verdicts: Verdicts) -> None:
        """Store a judged group and the verdicts that count."""
        kept = io.BytesIO()
        pickler = pickle.Pickler(kept, pickle.HIGHEST_PROTOCOL)
        pickler.fast = (
            True  # remembers no objects, which takes more memory than the objects of a large group
        )
        pickler.dump(judged)
        self._groups.add(number, kept.getbuffer())
        self._verdicts.add(number, verdict_array(verdicts).tobytes())

    def __contains__(self, number: int) -> bool:
        return number in self._groups

    def load(self, number: int) -> JudgedGroup:
        """Return a judged group."""
        judged: JudgedGroup = pickle.loads(self._groups[number])  # noqa: S301  (our own bytes, in a file without a name)
        return judged

    def statistics(self, sizes: Iterator[int]) -> CalibrationStatistics:
        """Return the statistics of the judge over all verdicts, from the number of rollouts of each
        group, in order.

        Groups are added in their own order: sums must not depend on which was answered first.
        """
        statistics = CalibrationStatistics()
        for number, size in zip(range(len(self._verdicts)), sizes, strict=False):
            kept = np.frombuffer(self._verdicts[number]).reshape(-1, _KEPT_COLUMNS)
            statistics.add_arrays(size, kept)
        return statistics


class ScoreStore(AbstractContextManager["ScoreStore"]):
    """The scores of an input by row, its `comparisons` as lines by group; 16 bytes of memory a
    rollout or group.
    """

    def __init__(self) -> None:
        self._spool = Spool()
        self._variances = RunningStats()
        self._scores = Pieces(self._spool)
        self.comparisons = Pieces(self._spool)

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def enter_scores(
        self, rows: Sequence[int], scores: Iterable[Score], variance: float | None
    ) -> None:
        """Keep the scores of the rows of a group; if advantages are pooled, with the variance of
        its rewards.
        """
        if variance is not None:
            self._variances.add(variance)
        for row, score in zip(rows, scores, strict=True):
            self._scores.add(row, orjson.dumps((score.reward, score.detail, variance)))

    def read_score(self, row: int) -> Score:
        """Return the score of a row, with the advantage that it has among all groups entered."""
        reward, detail, variance = orjson.loads(self._scores[row])
        if variance is not None and detail["advantage"] is not None:
            detail["advantage"] *= weight_of("pooled", variance, self._variances.mean, None)
        return Score(reward, detail)
