"""Data that a file job keeps on disk between passes: judged groups with their verdicts, and
scores.
"""

import io
import pickle
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import orjson

from genrm_cli.groups.group import JudgedGroup
from genrm_cli.json_types import Record
from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.rewards.compose import weight_of
from genrm_cli.rollouts.formats import Score
from genrm_cli.scored.write_lines import score_of
from genrm_cli.storage.spool import Pieces, Spool


class OutcomeStore(AbstractContextManager["OutcomeStore"]):
    """The judged groups of an input by number; 16 bytes of memory a group."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._groups = Pieces(self._spool)

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def keep(self, number: int, judged: JudgedGroup) -> None:
        """Store a judged group."""
        # Pickle, as a judged group holds objects of several types, and the file is only ours.
        kept = io.BytesIO()
        pickler = pickle.Pickler(kept, pickle.HIGHEST_PROTOCOL)
        # It remembers no objects, which takes more memory than the objects of a large group.
        pickler.fast = True
        pickler.dump(judged)
        self._groups.add(number, kept.getbuffer())

    def __contains__(self, number: int) -> bool:
        return number in self._groups

    def load(self, number: int) -> JudgedGroup:
        """Return a judged group."""
        # Our own bytes, from a file without a name.
        judged: JudgedGroup = pickle.loads(self._groups[number])  # noqa: S301
        return judged


class ScoreStore(AbstractContextManager["ScoreStore"]):
    """The scored lines of an input by row, its comparisons as lines of their file by group; 16
    bytes of memory a rollout or group.
    """

    def __init__(self) -> None:
        self._spool = Spool()
        self._variances = RunningStats()
        self._lines = Pieces(self._spool)
        self.comparisons = Pieces(self._spool)

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def enter_lines(
        self, rows: Sequence[int], lines: Iterable[Record], variance: float | None
    ) -> None:
        """Keep the scored lines of the rows of a group; if advantages are pooled, with the variance
        of its rewards.
        """
        if variance is not None:
            self._variances.add(variance)
        for row, line in zip(rows, lines, strict=True):
            self._lines.add(row, orjson.dumps((line, variance)))

    def read_score(self, row: int) -> Score:
        """Return the score of a row, with the advantage that it has among all groups entered."""
        # Only now is the mean of all groups' variances known.
        detail, variance = orjson.loads(self._lines[row])
        if variance is not None and detail["advantage"] is not None:
            detail["advantage"] *= weight_of("pooled", variance, self._variances.mean, None)
        return score_of(detail)
