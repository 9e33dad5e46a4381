"""One output of `genrm score` with the files beside it, read line by line and given back group by group."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np

from genrm_cli.errors import InputError
from genrm_cli.jobs.context import s3_options
from genrm_cli.jobs.index import format_of
from genrm_cli.jobs.journals import open_known_journal
from genrm_cli.jobs.stores import TextStore
from genrm_cli.judging.journal import Journal
from genrm_cli.report.scored_group import ScoredGroup, parse_group, parse_rollout
from genrm_cli.rollouts.formats import Score
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.files import ScoredInput, group_name
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import BadLineError, Line, parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.source import open_source
from genrm_cli.storage.spool import Spool
from genrm_cli.verdicts import Verdict


class ScoredRun:
    """Scored lines, their comparisons and metrics; about 60 bytes of memory a rollout. Use it as a context manager.

    Replies that the comparisons lack are read from the journal.

    Attributes:
        name: of the scored lines, or of the set of their files.
        metrics: the object that `genrm score` wrote beside them; empty without one.
        has_comparisons: whether the comparisons file was found.
        lines: read; `rejected` of them are not scored lines.
    """

    def __init__(self, scored: ScoredInput, settings: Settings) -> None:
        self.name = scored.name
        self._scored = scored
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
        self._journal: Journal | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def __len__(self) -> int:
        return len(self._keys)

    def read(self) -> None:
        """Read the scored lines, and the files beside them.

        Raises:
            InputError: none of the lines is scored, or a file beside them cannot be read.
        """
        s3 = s3_options(self._settings)
        first = self._read_scored(s3)
        if not self._groups:
            found = f"none of its {self.lines:,} lines is scored ({first})" if self.lines else "it is empty"
            raise InputError(f"{self.name}: {found}; expected an output of `genrm score`, or a result of `genrm eval`")
        self._read_comparisons(s3)
        source = self._scored.open_beside(".metrics.json", s3, self._settings)
        if source is not None:
            with source:
                for line in source.iter_lines():
                    self.metrics = _parsed(line, source.uri, source.unit)

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
        record = parse_record(self._comparisons.read(start, self._ends[number] - start))
        if record.get("reply") is None:
            record["reply"] = self._reply_of(record)
        return record

    def _reply_of(self, record: Mapping[str, Any]) -> str | None:
        """Return the reply that the journal holds of a comparison; None if it holds none, or a later one."""
        try:
            key = bytes.fromhex(record.get("journal_key", ""))
        except (TypeError, ValueError):
            return None
        known = self._journal.recall(key, with_reply=True) if self._journal is not None and key else None
        if known is None or not known.reply_text:
            return None
        numbers = [record.get(name) for name in ("score_1", "score_2", "ranking")]
        verdict = known.result
        is_later = isinstance(verdict, Verdict) and numbers != [verdict.score_1, verdict.score_2, verdict.ranking]
        return None if is_later else known.reply_text

    def _read_scored(self, s3: S3Options) -> str:
        """Read the scored lines; return what is wrong with the first that is not one."""
        first = ""
        for uri in self._scored.files:
            with open_source(uri, s3, self._settings.input.max_line_bytes) as source:
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
        format_ = format_of(record, self._settings.input)
        rollouts, scores = format_.read(record), format_.scores(record)
        if len(rollouts) != len(scores):
            raise UnreadableRecordError(f"{len(rollouts)} rollouts but {len(scores)} scores; score it again")
        for rollout, score in zip(rollouts, scores, strict=True):
            key = group_name(score.detail, self.lines)
            self._groups.append(self._keys.setdefault(key, len(self._keys)))
            self._texts.append(key, rollout, {**score.detail, "reward": score.reward})

    def _read_comparisons(self, s3: S3Options) -> None:
        source = self._scored.open_beside(".comparisons.jsonl", s3, self._settings)
        if source is None:
            return
        self.has_comparisons = True
        lacks_reply = False
        with source:
            for line in source.iter_lines():
                record = _parsed(line, source.uri, source.unit)
                group = self._keys.get(str(record.get("group")))
                if group is not None:
                    self._asked.append(group)
                    self._comparisons.append(line.raw)
                    self._ends.append(len(self._comparisons))
                    lacks_reply |= "journal_key" in record
        if lacks_reply:
            self._journal = self._opened.enter_context(open_known_journal(self._scored.uri, self._settings))


def _parsed(line: Line, uri: str, unit: str) -> dict[str, Any]:
    try:
        if line.oversize is not None:
            raise BadLineError("longer than --max-line-bytes")
        return parse_record(line.raw)
    except BadLineError as error:
        remedy = "it is not a file of `genrm score`, or torn; score the rollouts again with --force, or move it away"
        raise InputError(f"{uri}: {unit} {line.number}: {error}; {remedy}") from error


def _members(groups: "array[int]", count: int) -> Sequence[Sequence[int]]:
    """Return the row numbers of each group, in their order."""
    numbers = np.frombuffer(groups, dtype=np.uint32) if len(groups) else np.zeros(0, dtype=np.uint32)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))  # type: ignore[return-value]
