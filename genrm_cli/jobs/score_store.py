"""What became of each rollout and comparison, kept on disk until the lines are written."""

from array import array
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import orjson

from genrm_cli.rollouts.dialects import Score
from genrm_cli.storage.formats.records import render_record
from genrm_cli.storage.formats.spool import Spool


class ScoreStore:
    """The scores by row and the comparison records by group; 12 bytes of memory a rollout, 16 a group."""

    def __init__(self) -> None:
        self._scores = Spool()
        self._comparisons = Spool()
        self._offsets = array("Q")
        self._lengths = array("I")
        self._samples: dict[int, list[dict[str, Any]]] = {}
        self._blocks = array("Q")  # offset and length of each group's comparison records

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scores.close()
        self._comparisons.close()

    def prepare(self, rollouts: int) -> None:
        """Make room for the scores of so many rollouts."""
        self._offsets = array("Q", bytes(8 * rollouts))
        self._lengths = array("I", bytes(4 * rollouts))

    def enter(
        self, group: int, rows: list[int], scores: list[dict[str, Any]], comparisons: Iterable[dict[str, Any]]
    ) -> None:
        """Enter a finished group: one score a row, and its comparison records."""
        for row, score in zip(rows, scores, strict=True):
            self._offsets[row], self._lengths[row] = self._scores.append(orjson.dumps(score))
        block = b"".join(render_record(record) for record in comparisons)
        missing = 2 * (group + 1) - len(self._blocks)
        if missing > 0:
            self._blocks.extend([0] * missing)
        self._blocks[2 * group], self._blocks[2 * group + 1] = self._comparisons.append(block)

    def read_score(self, row: int) -> Score:
        """Return what was entered for a row."""
        score = orjson.loads(self._scores.read(self._offsets[row], self._lengths[row]))
        return Score(score["reward"], score["detail"])

    def iter_comparison_blocks(self) -> Iterator[bytes]:
        """Yield the comparison records of all groups as lines, groups in the order of first appearance."""
        for place in range(0, len(self._blocks), 2):
            yield self._comparisons.read(self._blocks[place], self._blocks[place + 1])

    def keep_sample(self, group: int, sample: list[dict[str, Any]]) -> None:
        """Keep a group for a person to look at."""
        self._samples[group] = sample

    def samples(self) -> list[dict[str, Any]]:
        """Return the kept rows, groups in the order of first appearance."""
        return [row for group in sorted(self._samples) for row in self._samples[group]]
