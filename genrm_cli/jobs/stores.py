"""What a file job keeps on disk between its passes: texts, results, scores."""

import io
import pickle
from array import array
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import orjson

from genrm_cli.groups.group import JudgedGroup
from genrm_cli.rewards.estimators import Calibration, Floats, RunStatistics, Verdicts, verdict_array
from genrm_cli.rollouts.formats import Score
from genrm_cli.storage.spool import Spool

_KEPT_COLUMNS = 6  # whose verdict, and its numbers
_BLOCK_BYTES = 1 << 20


class _Spans:
    """Offsets and lengths of pieces of a spool, by number; 16 bytes each."""

    def __init__(self) -> None:
        self._numbers = array("Q")

    def __len__(self) -> int:
        return len(self._numbers) // 2

    def __getitem__(self, number: int) -> tuple[int, int]:
        return self._numbers[2 * number], self._numbers[2 * number + 1]

    def __setitem__(self, number: int, span: tuple[int, int]) -> None:
        missing = 2 * (number + 1) - len(self._numbers)
        if missing > 0:
            self._numbers.frombytes(bytes(8 * missing))
        self._numbers[2 * number], self._numbers[2 * number + 1] = span


class _Store:
    """A spool that is closed with its store."""

    def __init__(self) -> None:
        self._spool = Spool()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    def _keep(self, value: object) -> tuple[int, int]:
        kept = io.BytesIO()
        pickler = pickle.Pickler(kept, pickle.HIGHEST_PROTOCOL)
        pickler.fast = True  # remembers no objects, which takes more memory than the objects of a large group
        pickler.dump(value)
        return self._spool.append(kept.getbuffer())

    def _load(self, span: tuple[int, int]) -> Any:
        return pickle.loads(self._spool.read(*span))  # noqa: S301  (our own bytes, in a file without a name)


class OutcomeStore(_Store):
    """The judged groups of an input by number, and their verdicts; 32 bytes of memory a group."""

    def __init__(self) -> None:
        super().__init__()
        self._groups, self._verdicts = _Spans(), _Spans()

    def keep(self, number: int, judged: JudgedGroup, verdicts: Verdicts, own: Sequence[Verdicts] = ()) -> None:
        """Keep a judged group, the verdicts that count, and those of each judge of a panel that shares the pairs."""
        self._groups[number] = self._keep(judged)
        arrays = [verdict_array(verdicts), *map(verdict_array, own)]
        self._verdicts[number] = self._spool.append(
            np.concatenate([_numbered(array_, which) for which, array_ in enumerate(arrays)]).tobytes()
        )

    def __contains__(self, number: int) -> bool:
        return number < len(self._groups) and self._groups[number][1] > 0

    def load(self, number: int) -> JudgedGroup:
        """Return a judged group."""
        judged: JudgedGroup = self._load(self._groups[number])
        return judged

    def calibrate(self, sizes: Iterator[int]) -> Calibration:
        """Return what all verdicts say of the judge.

        Groups are added in their own order: sums must not depend on which was answered first.

        Args:
            sizes: number of rollouts of each group, in order.
        """
        statistics = RunStatistics()
        for number, size in zip(range(len(self._verdicts)), sizes, strict=False):
            kept = np.frombuffer(self._spool.read(*self._verdicts[number])).reshape(-1, _KEPT_COLUMNS)
            owners = range(int(kept[-1, 0]) + 1) if len(kept) else ()
            statistics.add_arrays(size, [kept[kept[:, 0] == owner, 1:] for owner in owners])
        return statistics.fit()


def _numbered(verdicts: Floats, which: int) -> Floats:
    return np.insert(verdicts, 0, which, axis=1)


class ScoreStore(_Store):
    """The scores of an input by row and its comparison records by group; 16 bytes of memory a rollout or group."""

    def __init__(self) -> None:
        super().__init__()
        self._scores, self._comparisons = _Spans(), _Spans()
        self.samples: list[dict[str, Any]] = []

    def enter_scores(self, rows: Sequence[int], scores: Sequence[Score]) -> None:
        """Keep the scores of the rows of a group."""
        kept = [orjson.dumps((score.reward, score.detail)) for score in scores]
        offset, _ = self._spool.append(b"".join(kept))
        for row, record in zip(rows, kept, strict=True):
            self._scores[row] = offset, len(record)
            offset += len(record)

    def enter_comparisons(self, group: int, lines: Iterable[bytes]) -> None:
        """Keep the comparison records of a group, as lines."""
        start = len(self._spool)
        for line in lines:
            self._spool.append(line)
        self._comparisons[group] = start, len(self._spool) - start

    def read_score(self, row: int) -> Score:
        """Return the score of a row."""
        return Score(*orjson.loads(self._spool.read(*self._scores[row])))

    def iter_comparison_blocks(self) -> Iterator[bytes]:
        """Yield the comparison records of all groups as lines, groups by first appearance."""
        for group in range(len(self._comparisons)):
            start, length = self._comparisons[group]
            for offset in range(0, length, _BLOCK_BYTES):
                yield self._spool.read(start + offset, min(_BLOCK_BYTES, length - offset))
