"""One output of `genrm score` with the files beside it, read line by line and given back group by group."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np

from genrm_cli.errors import InputError
from genrm_cli.export.scored.read_scored import side_source
from genrm_cli.jobs.index import dialect_of
from genrm_cli.jobs.stores import TextStore
from genrm_cli.report.scored_group import ScoredGroup, parse_group, parse_rollout
from genrm_cli.rollouts.dialects import Score
from genrm_cli.rollouts.record import UnreadableRecordError
from genrm_cli.settings import Settings
from genrm_cli.storage.formats.location import S3Options
from genrm_cli.storage.formats.records import BadLineError, parse_record
from genrm_cli.storage.formats.spool import Spool
from genrm_cli.storage.source import open_source


class ScoredRun:
    """Scored lines, their comparisons and metrics; about 60 bytes of memory a rollout. Use it as a context manager.

    Attributes:
        uri: of the scored lines.
        metrics: the object that `genrm score` wrote beside them; empty without one.
        has_comparisons: whether the comparisons file was found.
        lines: read; `rejected` of them are not scored lines.
    """

    def __init__(self, uri: str, settings: Settings) -> None:
        self.uri = uri
        self.metrics: Mapping[str, Any] = {}
        self.has_comparisons = False
        self.lines = self.rejected = 0
        self._settings = settings
        self._keys: dict[str, int] = {}
        self._groups = array("I")  # of each rollout
        self._asked = array("I")  # group of each comparison, and the end of its line in the spool
        self._ends = array("Q")
        self._opened = ExitStack()
        self._texts = self._opened.enter_context(TextStore())
        self._comparisons = self._opened.enter_context(Spool())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def __len__(self) -> int:
        return len(self._keys)

    def read(self) -> None:
        """Read all three files.

        Raises:
            InputError: none of the lines is scored.
        """
        storage = self._settings.storage
        s3 = S3Options(storage.s3_endpoint_url, storage.s3_profile, storage.s3_region)
        first = self._read_scored(s3)
        if not self._groups:
            raise InputError(f"{self.uri}: none of its {self.lines:,} lines is scored ({first or 'it is empty'})")
        self._read_comparisons(s3)
        source = side_source(self.uri, ".metrics.json", s3, self._settings)
        if source is not None:
            with source:
                for line in source.iter_lines():
                    self.metrics = _parsed(line.raw, source.uri)

    def iter_groups(self) -> Iterator[ScoredGroup]:
        """Yield the groups in the order of their first lines."""
        rows_of = _members(self._groups, len(self._keys))
        lines_of = _members(self._asked, len(self._keys))
        for number, key in enumerate(self._keys):
            rollouts, detail = [], {}
            for row in rows_of[number]:
                _, rollout, kept = self._texts.read(int(row))
                detail = dict(kept or {})
                rollouts.append(parse_rollout(rollout, Score(detail.pop("reward"), detail)))
            lines = [self._line(int(number)) for number in lines_of[number]]
            yield parse_group(key, rollouts, detail, lines)

    def _line(self, number: int) -> dict[str, Any]:
        start = self._ends[number - 1] if number else 0
        return parse_record(self._comparisons.read(start, self._ends[number] - start))

    def _read_scored(self, s3: S3Options) -> str:
        """Read the scored lines; return what is wrong with the first that is not one."""
        first = ""
        with open_source(self.uri, s3, self._settings.input.max_line_bytes) as source:
            for line in source.iter_lines():
                self.lines += 1
                try:
                    if line.oversize is not None:
                        raise BadLineError("longer than --max-line-bytes")
                    self._add_line(line.raw)
                except (BadLineError, UnreadableRecordError) as error:
                    self.rejected += 1
                    first = first or f"{source.unit} {line.number}: {error}"
        return first

    def _add_line(self, raw: bytes) -> None:
        record = parse_record(raw)
        dialect = dialect_of(record, self._settings.input)
        rollouts, scores = dialect.read(record), dialect.scores(record)
        if len(rollouts) != len(scores):
            raise UnreadableRecordError(f"{len(rollouts)} rollouts but {len(scores)} scores; score it again")
        for rollout, score in zip(rollouts, scores, strict=True):
            key = str(score.detail.get("group"))
            self._groups.append(self._keys.setdefault(key, len(self._keys)))
            self._texts.append(key, rollout, {**score.detail, "reward": score.reward})

    def _read_comparisons(self, s3: S3Options) -> None:
        source = side_source(self.uri, ".comparisons.jsonl", s3, self._settings)
        if source is None:
            return
        self.has_comparisons = True
        with source:
            for line in source.iter_lines():
                group = self._keys.get(str(_parsed(line.raw, source.uri).get("group")))
                if group is not None:
                    self._asked.append(group)
                    self._comparisons.append(line.raw)
                    self._ends.append(len(self._comparisons))


def _parsed(raw: bytes, uri: str) -> dict[str, Any]:
    try:
        return parse_record(raw)
    except BadLineError as error:
        raise InputError(f"{uri}: {error}; expected a file of `genrm score`") from error


def _members(groups: "array[int]", count: int) -> Sequence[Sequence[int]]:
    """Return the row numbers of each group, in their order."""
    numbers = np.frombuffer(groups, dtype=np.uint32) if len(groups) else np.zeros(0, dtype=np.uint32)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))  # type: ignore[return-value]
