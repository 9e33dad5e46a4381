"""Journal of verdicts: a local SQLite file from which interrupted and later runs resume.

Writers append to `_batch` and wait for the next commit. `_next_commit` schedules it at the end of
the current turn of the event loop, so outcomes that arrive together share one transaction. An
outcome never waits longer: its slot is free, so another call may begin, and a kill would lose more
answers than calls in flight. If a transaction fails, the batch stays for the next one.

There is one entry for each request. The first verdict is final; a failure is kept until a
verdict or a later failure replaces it (`_store`).

One process at a time records in a file (`journal_lock`); others may read it meanwhile. Do not use
it on network file systems, whose locks are unreliable."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import zstandard

from genrm_cli.errors import StorageError
from genrm_cli.json_types import Record
from genrm_cli.judging.journal_file import (
    FAILURE,
    NOTE,
    VERDICT,
    Entry,
    Execute,
    JournalFile,
    KeptRecords,
    KeptSums,
    entry_of,
    parse_entry,
    remove_if_empty,
)
from genrm_cli.judging.journal_lock import holding
from genrm_cli.verdicts import Failure, Outcome

_REPLY_LEVEL = 3  # of zstandard, its default
_COPIED = "CREATE TEMP TABLE IF NOT EXISTS copied (key BLOB PRIMARY KEY) WITHOUT ROWID"
_COLUMNS = "key, kind, judge, at, body, checksum"
_INSERT = "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_REPLACE = _INSERT.replace("IGNORE", "REPLACE")
_SEARCHED = 1_000  # verdicts in which `find_judge` looks; a full search could read the whole file
_HOW_ASKED = b"how the judge is asked"
_JOB = b"what a run is to do"
_NO_JUDGE = ""  # of a note about a run


class Copier(Protocol):
    """Copies committed entries to a second place."""

    def add(self, entry: Record) -> None:
        """Add an entry, as yielded by `Journal.iter_entries`."""

    async def room(self) -> None:
        """Wait while too many entries have not been copied yet."""


class Journal(AbstractContextManager["Journal"]):
    """A journal that is open for reading and writing.

    Outcomes of one turn of the event loop are committed together, and each writer waits for the
    commit. A killed process loses no committed entry; a power failure may
    lose the most recent ones. A damaged verdict counts as absent.

    `damaged` holds the keys of the damaged verdicts found so far.
    """

    def __init__(self, path: str, copier: Copier | None = None, *, read_only: bool = False) -> None:
        """Open a journal, creating it if needed, or raise `StorageError`, also if another process
        records in it. Any thread may use it, one at a time.

        The copier receives every entry that this process records, after its commit. `read_only`
        records nothing and works on read-only files."""
        self.path = path
        self.damaged: set[bytes] = set()
        self._copier = copier
        self._batch: list[tuple[bytes, str, Outcome | Record]] = []  # a record: a note
        self._waiting: list[asyncio.Future[None]] = []
        self._pack = zstandard.ZstdCompressor(level=_REPLY_LEVEL, write_checksum=True).compress
        self._unpacker = zstandard.ZstdDecompressor()
        with contextlib.ExitStack() as resources:
            if not read_only:
                resources.enter_context(holding(path, remove_if_empty))
            self._file = JournalFile(path, read_only=read_only)
            resources.callback(self._file.close)
            self._resources = resources.pop_all()
        self.sums = KeptSums(self._file)
        self.records = KeptRecords(self._file)

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_verdicts(self) -> bool:
        """Whether the journal has any verdict."""
        return bool(self._file.rows("SELECT 1 FROM entries WHERE kind = ? LIMIT 1", (VERDICT,)))

    def find_judge(self, label: str) -> str | None:
        """Return the name of the latest judge among the first verdicts, and the notes, that is this
        one, or None.

        The name may continue with the judge's context.
        """
        query = (
            "SELECT judge FROM ("
            "SELECT * FROM (SELECT judge, at FROM entries WHERE kind = ? LIMIT ?) "
            "UNION ALL SELECT judge, at FROM entries WHERE kind = 'note') "
            "WHERE instr(judge || ' · ', ? || ' · ') = 1 ORDER BY at DESC LIMIT 1"
        )
        found = self._file.row(query, (VERDICT, _SEARCHED, label))
        return None if found is None else str(found[0])

    def note_judge(self, label: str) -> None:
        """Note how a judge is asked from now on, for runs before its first verdict; any thread may
        call it.
        """
        key = hashlib.sha256(_HOW_ASKED + label.encode()).digest()
        self._batch.append((key, label, {}))

    def note_job(self, output: str, job: str) -> None:
        """Note what a run is to do, for those who read the journal while it runs; it is committed
        with the first outcome. A run that continues another one notes nothing new.
        """
        if job not in self.iter_jobs():
            key = hashlib.sha256(_JOB + output.encode("utf-8", "surrogatepass")).digest()
            self._batch.append((key, _NO_JUDGE, {"job": job}))

    def iter_jobs(self) -> Iterator[str]:
        """Yield what runs noted of themselves, the latest first."""
        query = (
            f"SELECT {_COLUMNS}, reply FROM entries "  # noqa: S608  (our own names)
            "WHERE kind = 'note' AND judge = ? ORDER BY at DESC"
        )
        for row in self._file.rows(query, (_NO_JUDGE,)):
            entry = Entry(*row)
            if entry.is_sound:
                yield str(entry.note()["job"])

    def recall(self, keys: Sequence[bytes], *, with_reply: bool = False) -> dict[bytes, Outcome]:
        """Return the stored outcomes of requests; the judge's replies are decompressed only on
        demand.
        """
        reply = "reply" if with_reply else "NULL"
        values = ", ".join("?" * len(keys))
        query = f"SELECT {_COLUMNS}, {reply} FROM entries WHERE key IN ({values})"  # noqa: S608
        known = {}
        for row in self._file.rows(query, keys):
            entry = Entry(*row)
            outcome = self._outcome(entry)
            if outcome is not None:
                known[entry.key] = outcome
        return known

    def _outcome(self, entry: Entry) -> Outcome | None:
        """Return the outcome of an entry, with its reply if it has been read; None if it is
        damaged.
        """
        outcome = entry.outcome()
        if outcome is not None and entry.reply is not None:
            # `decompress` trusts a frame that claims to be empty.
            frame = self._unpacker.decompressobj()
            try:
                outcome.reply_text = frame.decompress(entry.reply).decode()
            except (zstandard.ZstdError, UnicodeDecodeError, TypeError):
                outcome = None
            if not frame.eof:
                outcome = None
        if outcome is None:
            self.damaged.add(entry.key)
        elif not isinstance(outcome.result, Failure):
            outcome.journal_key = entry.key
        return outcome

    async def record(self, key: bytes, judge: str, outcome: Outcome) -> Outcome:
        """Store the outcome of a request, wait for the commit, and return the outcome that counts.

        If another input of the run stored a verdict first, that one counts. A failure is kept for
        reports, until a verdict replaces it."""
        self._batch.append((key, judge, outcome))
        await self._next_commit()
        if not isinstance(outcome.result, Failure):
            return outcome
        stored = self.recall([key], with_reply=True).get(key, outcome)
        return outcome if isinstance(stored.result, Failure) else stored

    @property
    def entered(self) -> int:
        """Number of outcomes that wait for a commit."""
        return len(self._batch)

    def enter(self, key: bytes, judge: str, outcome: Outcome) -> None:
        """Store an outcome with the next commit, `flush` or `close`; any thread may call it."""
        if not isinstance(outcome.result, Failure):
            outcome.journal_key = key
        self._batch.append((key, judge, outcome))

    async def flush(self) -> None:
        """Commit what was entered, and wait while the copier is too far behind."""
        self._write()
        await self.room()

    def _next_commit(self) -> asyncio.Future[None]:
        """Return the commit of the batch at the end of this turn of the loop."""
        loop = asyncio.get_running_loop()
        if not self._waiting or self._waiting[0].get_loop() is not loop:
            self._waiting = []
            loop.call_soon(self._commit)
        committed = loop.create_future()
        self._waiting.append(committed)
        return committed

    async def room(self) -> None:
        """Wait while the copier is too far behind for new calls."""
        if self._copier is not None:
            await self._copier.room()

    def close(self) -> None:
        """Commit pending entries and close; closing twice is harmless. An empty file is removed."""
        with self._resources:
            if self._batch:
                self._write()

    def mean_tokens(self) -> tuple[float, float] | None:
        """Return the mean prompt and completion tokens of verdicts whose server reported them; None
        without any.
        """
        read = "json_extract(body, '$.completion_tokens')"
        row = self._file.row(
            f"SELECT avg(json_extract(body, '$.prompt_tokens')), avg({read}) "  # noqa: S608
            f"FROM entries WHERE kind = ? AND json_valid(body) AND {read} > 0",
            (VERDICT,),
        )
        return None if row[0] is None else (float(row[0]), float(row[1]))

    def iter_entries(self) -> Iterator[Record]:
        """Yield every verdict, then every failure, as JSON-ready objects; skip damaged ones."""
        return self._iter_readable("WHERE kind <> 'note' ORDER BY kind DESC, key")

    def iter_notes(self) -> Iterator[Record]:
        """Yield every note, as JSON-ready objects."""
        return self._iter_readable("WHERE kind = 'note' ORDER BY key")

    def _iter_readable(self, condition: str) -> Iterator[Record]:
        query = f"SELECT {_COLUMNS}, reply FROM entries {condition}"  # noqa: S608  (our own names)
        for row in self._file.iter_rows(query):
            entry = Entry(*row)
            if entry.kind == NOTE:
                yield entry.readable(None)
            elif (outcome := self._outcome(entry)) is not None:
                yield entry.readable(outcome.reply_text)

    def import_entries(
        self, copies: Iterable[object], origin: str = "another journal's copy"
    ) -> None:
        """Store entries of another journal, as `iter_entries` and `iter_notes` yield them.

        If one is invalid, nothing is stored, and a `StorageError` names `origin`. Damaged verdicts
        are skipped."""
        with self._file.transaction() as execute:
            execute(_COPIED)
            for copy in copies:
                try:
                    entry = parse_entry(copy, self._pack)
                except ValueError as error:
                    message = (
                        f"{origin}: contains an invalid journal entry ({error}); move it away."
                    )
                    raise StorageError(message) from error
                is_sound = entry.is_sound if entry.kind == NOTE else self._outcome(entry)
                if not is_sound:
                    continue
                self._store(execute, entry, is_copy=True)
                # A verdict of this journal on a request that failed there still has to be copied.
                if entry.kind != FAILURE:
                    execute("INSERT OR IGNORE INTO copied VALUES (?)", (entry.key,))

    def iter_uncopied(self) -> Iterator[Record]:
        """Yield the verdicts and notes that did not come from `import_entries`."""
        self._file.rows(_COPIED)
        return self._iter_readable(
            "WHERE kind <> 'failure' AND key NOT IN (SELECT key FROM copied)"
        )

    def _commit(self) -> None:
        """Write the batch and wake its waiters."""
        waiting = self._waiting
        self._waiting = []
        failed: Exception | None = None
        try:
            self._write()
        except (StorageError, TypeError, ValueError) as error:  # anything else is a bug
            failed = error
        for committed in waiting:
            if committed.done():
                continue
            if failed is None:
                committed.set_result(None)
            else:
                committed.set_exception(failed)

    def _write(self) -> None:
        batch = self._batch
        self._batch = []
        now = time.time()
        try:
            with self._file.transaction() as execute:
                stored = [self._write_entry(execute, *entry, now) for entry in batch]
        except StorageError:
            self._batch = batch + self._batch  # `close` tries again: these verdicts were paid for
            raise
        if self._copier is not None:
            for entry, reply in filter(None, stored):
                self._copier.add(entry.readable(reply))

    def _write_entry(
        self, execute: Execute, key: bytes, judge: str, outcome: Outcome | Record, now: float
    ) -> tuple[Entry, str | None] | None:
        """Store an entry and return it with its reply; None if an earlier verdict counts."""
        text = None
        if isinstance(outcome, Outcome) and not isinstance(outcome.result, Failure):
            text = outcome.reply_text or ""
            outcome.journal_key = key
        packed = None if text is None else self._pack(text.encode())
        entry = entry_of(key, judge, outcome, now, packed)
        earlier = self._store(execute, entry)
        if not isinstance(outcome, Outcome) or earlier is None:
            return entry, text
        if isinstance(earlier.result, Failure):
            execute(_REPLACE, entry)
            return entry, text
        if not isinstance(outcome.result, Failure):
            outcome.result = earlier.result
        return None

    def _store(self, execute: Execute, entry: Entry, *, is_copy: bool = False) -> Outcome | None:
        """Store an entry if it is the first of its key, or the one before is damaged; return the
        outcome before otherwise.

        A copy also replaces an earlier failure or note."""
        if execute(_INSERT, entry).rowcount:
            return None
        query = f"SELECT {_COLUMNS}, NULL FROM entries WHERE key = ?"  # noqa: S608
        stored = Entry(*execute(query, (entry.key,)).fetchone())
        earlier = None if stored.kind == NOTE else self._outcome(stored)
        if is_copy and stored.kind != VERDICT:
            if entry.kind == VERDICT or entry.at > stored.at:
                earlier = None
            else:
                return earlier
        if earlier is None:
            execute(_REPLACE, entry)
        return earlier
