"""Record served groups in files that `genrm report` and `genrm export` read."""

import asyncio
import base64
import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import orjson

from genrm_cli.errors import SettingRef, StorageError
from genrm_cli.groups.count_group import count_served_group
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.jobs.context import s3_options
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.pacing.pool import OnEvent
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.rollouts.formats import Score, recognise
from genrm_cli.scored.describe_run import output_mark, run_record, run_totals
from genrm_cli.scored.json_form import Json, to_json
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.scored.write_lines import comparison_json, scored_line
from genrm_cli.serve.cohort import Member
from genrm_cli.settings import Settings
from genrm_cli.settings.resolve import state_folder
from genrm_cli.storage.encoding.records import render_document, render_record
from genrm_cli.storage.location import is_s3, require_rl_prefix
from genrm_cli.storage.outputs import Outputs
from genrm_cli.tasks import in_thread

_MOST_BYTES = 256_000_000  # of one file's spool
_OF_COMPARE = "response_objs"
_SUFFIX = ".spool"


class GroupSpool:
    """Groups that are not in a file yet: a hidden local file that outlives a killed server.

    Blocks of scored lines, comparisons and a mark, one group after another; locked while a process writes it. Blocks
    that the disk has no room for wait in memory.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.stem = path.name.removeprefix(".").removesuffix(_SUFFIX)
        self.size_bytes = self._written_bytes = path.stat().st_size
        self._file = file
        self._waiting: list[bytes] = []

    @classmethod
    def create(cls, folder: Path, stem: str) -> "GroupSpool":
        """Create a spool."""
        try:
            return cls._locked(folder / f".{stem}{_SUFFIX}", os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise StorageError(SettingRef("record", str(folder)), f": cannot be written: {error.strerror}.") from error

    @classmethod
    def iter_left(cls, folder: Path) -> Iterator["GroupSpool"]:
        """Yield the spools that killed servers left in a folder."""
        for path in sorted(folder.glob(f".*{_SUFFIX}")):
            with contextlib.suppress(OSError):  # another server is writing it, or has just finished
                yield cls._locked(path)

    @classmethod
    def _locked(cls, path: Path, flags: int = 0) -> "GroupSpool":
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600), "a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        return cls(path, file)

    def add(self, *parts: bytes) -> None:
        """Add a group, and write all that waits; raise `StorageError` if some of it still waits."""
        block = b" ".join(map(base64.b64encode, parts)) + b"\n"
        self._waiting.append(block)
        self.size_bytes += len(block)
        self.flush()

    def flush(self) -> None:
        """Write what waits, or raise `StorageError`."""
        while self._waiting:
            block = self._waiting[0]
            try:
                if os.write(self._file.fileno(), block) < len(block):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file.fileno(), self._written_bytes)
                raise StorageError(SettingRef("record"), f": {self.path}: {error.strerror}.") from error
            self._written_bytes += len(block)
            del self._waiting[0]

    @property
    def waiting_bytes(self) -> int:
        """Length of the blocks that wait."""
        return self.size_bytes - self._written_bytes

    def iter_blocks(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield scored lines, comparisons and mark of each group; a block that a kill cut off is left out."""
        self._file.seek(0)
        for line in chain(self._file, self._waiting):
            if line.endswith(b"\n"):
                scored, comparisons, mark = map(base64.b64decode, line.rstrip(b"\n").split(b" "))
                yield scored, comparisons, mark

    def close(self) -> None:
        """Release the file without removing it."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file, now that its groups are elsewhere."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()


class Recorder:
    """Writes served groups to files of a folder, a new file from time to time; each appears whole.

    Groups are spooled on a local disk first, so a killed server loses none: the next one writes what it left.
    """

    def __init__(
        self, folder: str, settings: Settings, plan: GroupPlan, judges: Sequence[JudgeSpec], on_event: OnEvent
    ) -> None:
        """Prepare the folder; writes nothing.

        Raises:
            UsageError: an S3 folder outside `rl/`.
            StorageError: the folder cannot be written.
        """
        self._folder = folder.rstrip("/")
        require_rl_prefix(f"{self._folder}/x", settings.storage.any_prefix)
        self._settings, self._plan, self._judges, self._on_event = settings, plan, judges, on_event
        self._spool_folder = _spool_folder(self._folder)
        self._spool: GroupSpool | None = None
        self._names: set[str | None] = set()
        self._metrics = RunMetrics()
        self._begun = datetime.now(UTC)
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._pid = os.getpid()
        self._unwritten: list[tuple[GroupSpool, RunTotals | None]] = []
        self._has_failed = False

    @property
    def is_failing(self) -> bool:
        """Whether some served groups could not be written."""
        return bool(self._unwritten) or (self._spool is not None and self._spool.waiting_bytes > 0)

    async def open(self, keep_marks: Callable[[Iterable[bytes]], None]) -> None:
        """Write the groups that killed servers left, once their marks are kept: nothing may record them again."""
        for left in GroupSpool.iter_left(self._spool_folder):
            keep_marks([mark for _, _, mark in left.iter_blocks() if mark])
            await in_thread(lambda spool=left: self._write(spool, None))  # type: ignore[misc]

    def add(self, members: Sequence[Member], judged: JudgedGroup, rewards: GroupRewards, mark: bytes) -> None:
        """Record a group. A file never holds two groups of one name.

        Args:
            mark: says that the group was recorded, for `open` after a kill; empty if it may be recorded again.

        Raises:
            StorageError: nothing could be written for so long that no further group may wait in memory.
        """
        comparisons = b"".join(
            orjson.dumps(comparison_json(each, with_reply=self._plan.keep_replies), option=orjson.OPT_APPEND_NEWLINE)
            for each in rewards.comparisons
        )
        self._spool_lines(rewards.key, scored_lines(members, rewards, self._plan), comparisons, mark)
        count_served_group(self._metrics, judged, rewards, self._plan)

    def add_late(self, member: Member, rewards: GroupRewards, index: int) -> None:
        """Record a late member, apart from its group; its comparisons are in the journal."""
        alone = replace(rewards, scores=[rewards.scores[index]], comparisons=[])
        self._spool_lines(rewards.key, scored_lines([member], alone, self._plan), b"", b"")

    def _spool_lines(self, key: str | None, *parts: bytes) -> None:
        if self._spool is not None and (key in self._names or self._spool.size_bytes > _MOST_BYTES):
            self._rotate()
        spool = self._spool or self._begin()
        if spool.waiting_bytes > _MOST_BYTES:
            spool.flush()
        self._names.add(key)
        try:
            spool.add(*parts)
        except StorageError as error:
            self._say_failure(error)
        else:
            self._say_recovery()

    def _say_failure(self, error: Exception) -> None:
        if not self._has_failed:
            self._on_event("record_failed", {"detail": str(error)})
        self._has_failed = True

    def _say_recovery(self) -> None:
        if self._has_failed and not self.is_failing:
            self._on_event("record_resumed", {})
            self._has_failed = False

    def _begin(self) -> GroupSpool:
        self._count += 1
        self._begun = datetime.now(UTC)
        self._names, self._metrics = set(), RunMetrics()
        stem = f"served-{self._begun:%Y%m%dT%H%M%SZ}-{self._pid}-{self._count:05}"
        self._spool = GroupSpool.create(self._spool_folder, stem)
        self._rotate_later()
        return self._spool

    def _rotate_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._settings.serve.record_every, self._rotate)

    def _rotate(self) -> None:
        """Write the groups spooled so far, and what could not be written before, while others arrive."""
        spool, self._spool = self._spool, None
        if self._timer is not None:
            self._timer.cancel()
        due, self._unwritten = self._unwritten, []
        if spool is not None:
            wall_time_s = (datetime.now(UTC) - self._begun).total_seconds()
            due.append((spool, run_totals(self._settings, self._metrics, self._plan, self._judges, wall_time_s)))
        if due:
            task = asyncio.ensure_future(self._write_all(due))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _write_all(self, due: Sequence[tuple[GroupSpool, RunTotals | None]]) -> None:
        for spool, totals in due:
            try:
                await in_thread(lambda spool=spool, totals=totals: self._write(spool, totals))  # type: ignore[misc]
            except (StorageError, OSError) as error:  # the latter without file descriptors, too
                self._unwritten.append((spool, totals))
                self._say_failure(error)
                if self._spool is None:
                    self._rotate_later()
        self._say_recovery()

    async def close(self) -> None:
        """Write everything.

        Raises:
            StorageError: not everything can be written. The next server writes what is spooled.
        """
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._rotate()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._timer is not None:
            self._timer.cancel()
        lost_bytes = sum(spool.waiting_bytes for spool, _ in self._unwritten)
        for spool, _ in self._unwritten:
            spool.close()
        if self._unwritten:
            raise StorageError(
                SettingRef("record", self._folder),
                f": {len(self._unwritten)} files of served groups could not be written. The next server that records "
                "there writes them"
                + (f", but {lost_bytes:,} bytes of them were in memory only, and are lost." if lost_bytes else "."),
            )

    def _write(self, spool: GroupSpool, totals: RunTotals | None) -> None:
        """Write the files of a spool, all of them or none; without metrics those that a killed server left."""
        place = f"{self._folder}/{spool.stem}"
        with Outputs(s3_options(self._settings), overwrite=True, manifest_uri=f"{place}.commit") as outputs:
            comparisons = outputs.open(f"{place}.comparisons.jsonl")
            metrics = None if totals is None else outputs.open(f"{place}.metrics.json")
            scored = outputs.open(f"{place}.scored.jsonl")
            for scored_block, comparisons_block, _ in spool.iter_blocks():
                scored.write(scored_block)
                comparisons.write(comparisons_block)
            scored.finish()
            if metrics is not None and totals is not None:
                journal = self._settings.journal.journal if self._settings.journal.use_journal else None
                mark = output_mark(scored.mark)
                record = run_record(
                    totals, self._settings, input_=None, output=scored.uri, output_mark=mark, journal=journal
                )
                metrics.write(render_document(to_json(record)))
            outputs.commit()
        spool.remove()
        self._on_event("recorded", {"output": f"{place}.scored.jsonl"})


def _spool_folder(folder: str) -> Path:
    """Return where groups are spooled: the folder itself, or for one on S3 a folder in the user's state."""
    path = Path(folder)
    if is_s3(folder):
        path = state_folder() / f"record-{hashlib.sha256(folder.encode()).hexdigest()[:16]}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(SettingRef("record", folder), f": {path} cannot be created: {error.strerror}.") from error
    return path


def scored_lines(members: Sequence[Member], rewards: GroupRewards, plan: GroupPlan) -> bytes:
    """Return the lines of a group in its order, each with its reward; a compare request is one line."""
    scores = [scored_line(score, rewards, plan).as_score() for score in rewards.scores]
    if members and isinstance(members[0].line.get(_OF_COMPARE), dict):  # one response of a compare request
        whole = {**members[0].line, _OF_COMPARE: [member.line[_OF_COMPARE] for member in members]}
        return _annotated(whole, scores)
    return b"".join(_annotated({**member.line}, [score]) for member, score in zip(members, scores, strict=True))


def _annotated(line: Json, scores: Sequence[Score]) -> bytes:
    recognise(line).annotate(line, scores)
    return render_record(line)
