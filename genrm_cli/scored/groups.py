"""Read an output of `genrm score` and its companion files, group by group.

The lines of a group are anywhere in the file, and so are its comparisons. One pass parses and
checks every line and keeps it in a temporary file; memory holds the number of its group alone. The
groups then come in the order of their first lines, each sorted by the index of its rollouts.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import InputError, SettingRef
from genrm_cli.groups.line_records import ComparisonRecord, ScoredLine
from genrm_cli.json_types import Record
from genrm_cli.judging.journal import Journal
from genrm_cli.rollouts.views import with_one_reading
from genrm_cli.scored.files import REMEDY, ScoredInput, read_run_record
from genrm_cli.scored.lines import ScoredGroup, ScoredRollout
from genrm_cli.scored.parse_lines import iter_scored
from genrm_cli.scored.rollout_store import RolloutStore
from genrm_cli.scored.run_record import RunRecord
from genrm_cli.settings import Settings
from genrm_cli.storage.contract import InputIdentity
from genrm_cli.storage.location import is_stream, sibling
from genrm_cli.storage.source import open_source
from genrm_cli.storage.spool import Pieces, Spool
from genrm_cli.storage.store import Store
from genrm_cli.typed_json import parse_json
from genrm_cli.verdicts import Verdict

OpenJournal = Callable[[str, Settings], AbstractContextManager[Journal | None]]


class ScoredFile(Struct, frozen=True):
    """A file of scored lines; `sha256` is the digest of its lines, each with a newline."""

    identity: InputIdentity
    sha256: str
    lines: int
    rollouts: int


class ScoredRun(AbstractContextManager["ScoredRun"]):
    """Scored lines, their comparisons and metrics; about 60 bytes of memory a rollout. Use it as a
    context manager.

    Attributes:
        name: of the scored lines, or of the set of their files.
        files: the files of the scored lines.
        metrics: their metrics file; None without one.
        has_comparisons: whether the comparisons file was found.
        lines: number of lines. `rejects`: those that are not scored lines, by reason.
        judges: names of the judges.
    """

    def __init__(
        self,
        scored: ScoredInput,
        settings: Settings,
        open_journal: OpenJournal | None = None,
        kept_of: Callable[[Record], Record] = lambda record: {},
    ) -> None:
        """Open temporary files.

        Args:
            scored: the scored lines.
            settings: how lines are read.
            open_journal: opens the journal for replies that the comparisons lack; None to leave
                them unknown.
            kept_of: returns the fields of a rollout's line to keep in `ScoredRollout.record`.
        """
        self.name = scored.name
        self.files: list[ScoredFile] = []
        self.metrics: RunRecord | None = None
        self.has_comparisons = False
        self.lines = 0
        self.rejects = Counter[str]()
        self.judges: set[str] = set()
        self._kept_of = kept_of
        self._scored = scored
        self._settings = settings
        self._open_journal = open_journal
        self._keys: dict[str, int] = {}
        self._groups = array("I")  # group of each rollout
        self._asked = array("I")  # group of each comparison
        self._opened = ExitStack()
        self._rollouts: RolloutStore[tuple[ScoredLine, Record]] = self._opened.enter_context(
            RolloutStore()
        )
        self._comparisons = Pieces(self._opened.enter_context(Spool()))
        self._journal: Journal | None = None

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def __len__(self) -> int:
        return len(self._keys)

    def read(self, store: Store, *, comparisons: bool = True) -> None:
        """Read the scored lines and their companion files.

        Raises:
            InputError: none of the lines is scored, one of them is not with the setting `strict`,
                or a companion file cannot be read.
        """
        first = self._read_scored(store)
        if self.lines and not self._groups:
            problem = f"none of its {self.lines:,} lines is scored ({first})"
            raise InputError(f"{self.name}: {problem}; expected an output of `genrm score`")
        if first and self._settings.input.strict:
            raise InputError(f"{self.name}: ", SettingRef("strict", True), f" refuses {first}")
        if comparisons:
            self._read_comparisons(store)
        if not is_stream(self._scored.uri):
            self.metrics = read_run_record(sibling(self._scored.uri, ".metrics.json"), store)

    def iter_groups(self) -> Iterator[ScoredGroup]:
        """Yield the groups in the order of their first lines; each in the reading that was
        judged.
        """
        rows_of = _members(self._groups, len(self._keys))
        lines_of = _members(self._asked, len(self._keys))
        for number, key in enumerate(self._keys):
            stored = (self._rollouts.read(int(row)) for row in rows_of[number])
            members = [
                ScoredRollout(rollout, line, record) for _, rollout, (line, record) in stored
            ]
            members.sort(key=lambda each: each.line.index)
            read = with_one_reading([each.rollout for each in members])
            members = [
                replace(each, rollout=rollout) for each, rollout in zip(members, read, strict=True)
            ]
            yield ScoredGroup(
                key,
                tuple(members),
                tuple(self._comparison(int(number)) for number in lines_of[number]),
            )

    def _comparison(self, number: int) -> ComparisonRecord:
        # Parsed again: as objects, the comparisons of a run would take most of the memory.
        comparison = parse_json(ComparisonRecord, self._comparisons[number])
        if comparison.reply is None:
            return replace(comparison, reply=self._reply_of(comparison))
        return comparison

    def _reply_of(self, comparison: ComparisonRecord) -> str | None:
        """Return the reply to a comparison from the journal; None if the journal has none, or a
        later one.
        """
        if self._journal is None or comparison.journal_key is None:
            return None
        try:
            key = bytes.fromhex(comparison.journal_key)
        except ValueError:
            return None
        # The request may have been made again since, with another reply.
        outcome = self._journal.recall([key], with_reply=True).get(key)
        if outcome is None or not outcome.reply_text:
            return None
        is_later = isinstance(outcome.result, Verdict) and outcome.result != comparison.verdict
        return None if is_later else outcome.reply_text

    def _read_scored(self, store: Store) -> str:
        """Read the scored lines; return the problem of the first one that cannot be read."""
        first = ""
        for uri in self._scored.files:
            with open_source(uri, store, self._settings.input) as source:
                digest = hashlib.sha256()
                lines = self.lines
                rollouts = len(self._groups)
                for line, members, problem in iter_scored(source, self._settings.input):
                    self.lines += 1
                    # Of the lines and not of the file, so that compressing it changes nothing.
                    digest.update(line.raw + b"\n")
                    if problem is not None:
                        self.rejects[problem] += 1
                        first = first or f"{source.unit} {line.number}: {problem}"
                    for each in members:
                        self._add(each)
                # A run may be writing this very file.
                source.verify_unchanged()
                of_file = self.lines - lines, len(self._groups) - rollouts
                self.files.append(ScoredFile(source.identity, digest.hexdigest(), *of_file))
        return first

    def _add(self, scored: ScoredRollout) -> None:
        key = scored.line.group_name(self.lines)
        self._groups.append(self._keys.setdefault(key, len(self._keys)))
        self._rollouts.append(key, scored.rollout, (scored.line, self._kept_of(scored.record)))
        if scored.line.judge is not None:
            self.judges.add(scored.line.judge)

    def _read_comparisons(self, store: Store) -> None:
        source = self._scored.open_beside(".comparisons.jsonl", store, self._settings)
        if source is None:
            return
        self.has_comparisons = True
        lacks_reply = False
        with source:
            for line in source.iter_lines():
                try:
                    if line.oversize is not None:
                        raise ValueError("longer than max_line_bytes")
                    comparison = parse_json(ComparisonRecord, line.raw)
                except ValueError as error:
                    where = f"{source.uri}: {source.unit} {line.number}"
                    raise InputError(f"{where}: {error}", *REMEDY) from error
                group = self._keys.get(str(comparison.group))
                # Groups whose lines were all rejected have no rollouts for their comparisons.
                if group is not None:
                    self._comparisons.add(len(self._asked), line.raw)
                    self._asked.append(group)
                    lacks_reply |= comparison.journal_key is not None
        if lacks_reply and self._open_journal is not None:
            self._journal = self._opened.enter_context(
                self._open_journal(self._scored.uri, self._settings)
            )


def _members(groups: "array[int]", count: int) -> Sequence[Sequence[int]]:
    """Return the row numbers of each group, in their order."""
    numbers = np.array(groups, dtype=np.uint32)
    # Stable, since rows are kept in the order of the file.
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(1, count))
    rows: Sequence[Sequence[int]] = np.split(order, ends)  # type: ignore[assignment]
    return rows
