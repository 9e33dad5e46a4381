"""Journal of verdicts: a local SQLite file from which interrupted and later runs resume.

Writers append to `_batch` and wait for the next commit. `_next_commit` schedules it at the end of
the current turn of the event loop, so outcomes that arrive together share one transaction. An
outcome never waits longer: its slot is free, so another call may begin, and a kill would lose more
answers than calls in flight. A transaction also writes the claims that wait (`claims`), and deletes
a failure where a verdict replaces it. If it fails, the batch stays for the next one.

Several processes may share one file. SQLite locks serialise their writes. If two of them get a
verdict on one request, the first one stored counts for both. Do not use it on network file systems,
whose locks are unreliable."""

import asyncio
import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import zstandard

from genrm_cli.errors import StorageError
from genrm_cli.judging.claims import Claims
from genrm_cli.judging.journal_file import (
    FAILURE_COLUMNS,
    NOTE_COLUMNS,
    OUTCOME_COLUMNS,
    VERDICT_COLUMNS,
    Execute,
    JournalErrors,
    KeptRecords,
    KeptSums,
    Row,
    checksum_of,
    columns_of,
    connect,
    insert_row,
    parse_row,
    readable_row,
    sound_opinion,
    transaction,
)
from genrm_cli.verdicts import Failure, FailureKind, Judgment, Outcome

_REPLY_LEVEL = 3  # of zstandard, its default
# Claims wait this long after a commit for one of outcomes, or until there are enough of them: a
# commit costs as much for one claim as for many.
_COMMIT_S = 0.005
_ENOUGH = 64
_READ_COLUMNS = f"{', '.join(OUTCOME_COLUMNS)}, checksum"
_COPIED = "CREATE TEMP TABLE IF NOT EXISTS copied (key BLOB PRIMARY KEY) WITHOUT ROWID"
# One process may record a failure for a request for which another records a verdict.
_UNANSWERED = "FROM failures WHERE key NOT IN (SELECT key FROM verdicts)"
_HOW_ASKED = "how the judge is asked"  # the subject of notes
# The latest note of a key counts, whichever copy it comes from.
_TAKE_NOTE = (
    "INSERT INTO notes VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE "
    "SET text = excluded.text, noted_at = excluded.noted_at WHERE excluded.noted_at > noted_at"
)

# Key, judge and outcome; or key, subject and text of a note.
_Entry = tuple[bytes, str, Outcome | str]


class Copier(Protocol):
    """Copies committed entries to a second place."""

    def add(self, entry: Row) -> None:
        """Add an entry, as yielded by `Journal.iter_entries`."""

    async def room(self) -> None:
        """Wait while too many entries have not been copied yet."""


class Journal(AbstractContextManager["Journal"]):
    """A journal that is open for reading and writing.

    Outcomes of one turn of the event loop are committed together, with the claims that wait, and
    each writer waits for the commit. A killed process loses no committed entry; a power failure may
    lose the most recent ones. A damaged verdict counts as absent.

    `damaged` holds the keys of the damaged verdicts found so far.
    """

    def __init__(self, path: str, copier: Copier | None = None, *, read_only: bool = False) -> None:
        """Open a journal, creating it if needed, or raise `StorageError`. Any thread may use it,
        one at a time.

        The copier receives every entry that this process records, after its commit. `read_only`
        records nothing and works on read-only files."""
        self.path = path
        self.damaged: set[bytes] = set()
        self._errors = JournalErrors(path)
        self._copier = copier
        self._batch: list[_Entry] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._committed_at_s = -_COMMIT_S
        self._pack = zstandard.ZstdCompressor(level=_REPLY_LEVEL, write_checksum=True).compress
        self._unpacker = zstandard.ZstdDecompressor()
        with contextlib.ExitStack() as opening:
            with self._errors:
                self._connection = connect(path, read_only=read_only)
                opening.callback(self._connection.close)
                self._reader = self._connection.cursor()
                self._reader.row_factory = None
                # Most journals have no failures: then a new verdict has none to delete.
                failure = self._connection.execute("SELECT 1 FROM failures LIMIT 1").fetchone()
                self._has_failures = failure is not None
            self.claims = Claims(self._connection, self._errors, self._next_commit)
            self.sums = KeptSums(self._connection, self._errors)
            opening.pop_all()

    def __exit__(self, *_: object) -> None:
        self.close()

    def kept_records(self) -> KeptRecords:
        """Return the records that servers keep in this file for a while."""
        return KeptRecords(self._connection, self._errors)

    def _one(self, query: str, *values: object) -> Any:
        with self._errors:
            return self._connection.execute(query, values).fetchone()

    def __len__(self) -> int:
        return int(self._one("SELECT count(*) FROM verdicts")[0])

    @property
    def has_verdicts(self) -> bool:
        """Whether the journal has any verdict; unlike `len`, this is fast."""
        return self._one("SELECT 1 FROM verdicts LIMIT 1") is not None

    def find_judge(self, label: str) -> str | None:
        """Return the name of the latest judge among the first verdicts, and the notes, that is this
        one, or None.

        The name may continue with the judge's context. A full search could read the whole file.
        """
        query = (
            "SELECT judge FROM (SELECT * FROM (SELECT judge, answered_at FROM verdicts LIMIT 1000) "
            "UNION ALL SELECT text, noted_at FROM notes WHERE subject = ?) "
            "WHERE instr(judge || ' · ', ? || ' · ') = 1 ORDER BY answered_at DESC LIMIT 1"
        )
        found = self._one(query, _HOW_ASKED, label)
        return None if found is None else str(found[0])

    def note_judge(self, label: str) -> None:
        """Note how a judge is asked from now on, for runs before its first verdict; any thread may
        call it.
        """
        key = hashlib.sha256(f"{_HOW_ASKED}\0{label}".encode()).digest()
        self._batch.append((key, _HOW_ASKED, label))

    def recall(self, key: bytes, *, with_reply: bool = False) -> Outcome | None:
        """Return the stored verdict of a request, or None; the judge's reply is decompressed only
        on demand.
        """
        return self._verdicts([key], with_reply).get(key)

    def _verdicts(self, keys: Sequence[bytes], with_reply: bool) -> dict[bytes, Outcome]:
        known = {}
        with self._errors:
            # Fetch all rows: an unfinished statement would keep a read transaction open.
            rows = self._reader.execute(_reading(len(keys), with_reply), keys).fetchall()
            for key, *outcome, checksum, reply in rows:
                opinion = self._sound(key, outcome, checksum)
                text = None if reply is None else self._reply_text(key, reply)
                if opinion is None or (text is None and reply is not None):
                    continue
                attempts, latency_s, prompt, completion, cached, reasks = outcome[5:]
                known[key] = Outcome(
                    opinion,
                    attempts,
                    latency_s,
                    prompt,
                    completion,
                    cached,
                    text,
                    True,
                    key,
                    reasks=reasks,
                )
        return known

    def _sound(self, key: bytes, outcome: Sequence[Any], checksum: int) -> Judgment | None:
        """Return the judgment of a stored row; None if the row is damaged."""
        opinion = sound_opinion(key, outcome, checksum)
        if opinion is None:
            self.damaged.add(key)
        return opinion

    def _reply_text(self, key: bytes, reply: bytes) -> str | None:
        """Return a stored reply; None if it is damaged."""
        frame = (
            self._unpacker.decompressobj()
        )  # `decompress` trusts a frame that claims to be empty
        try:
            text = frame.decompress(reply).decode()
        except (zstandard.ZstdError, UnicodeDecodeError, TypeError):
            text = None
        if text is None or not frame.eof:
            self.damaged.add(key)
            return None
        return text

    def has_failed(self, key: bytes) -> bool:
        """Return whether the request was made without a verdict."""
        return self._one("SELECT 1 FROM failures WHERE key = ?", key) is not None

    def recall_failure(self, key: bytes) -> Outcome | None:
        """Return the recorded failure of a request, or None."""
        query = "SELECT kind, detail, attempts, caused_by, reasks FROM failures WHERE key = ?"
        row = self._one(query, key)
        if row is None or row["kind"] not in set(FailureKind):
            return None
        causes = tuple(int(each) for each in row["caused_by"].split() if each.isdecimal())
        failure = Failure(FailureKind(row["kind"]), row["detail"], causes)
        return Outcome(failure, row["attempts"], from_journal=True, reasks=row["reasks"])

    def recall_decided(
        self, keys: Sequence[bytes], *, with_reply: bool = False
    ) -> dict[bytes, Outcome]:
        """Return the stored verdicts of requests, or the failures that a response caused, in one
        statement.

        Such a failure is not asked again: the answers until one is not ambiguous are not a fair
        sample."""
        known = self._verdicts(keys, with_reply)
        for key in keys if self._has_failures else ():
            failed = None if key in known else self.recall_failure(key)
            if (
                failed is not None
                and isinstance(failed.result, Failure)
                and failed.result.caused_by
            ):
                known[key] = failed
        return known

    async def record(self, key: bytes, judge: str, outcome: Outcome) -> Outcome:
        """Store the outcome of a request, wait for the commit, and return the outcome that counts.

        If another process stored a verdict first, that one counts. A failure is kept for reports,
        until a verdict replaces it."""
        self._batch.append((key, judge, outcome))
        await self._next_commit()
        if not isinstance(outcome.result, Failure):
            return outcome
        return self.recall(key, with_reply=True) or outcome

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
        with self._errors:
            self._write()
        await self.room()

    def _next_commit(self) -> asyncio.Future[None]:
        """Return the commit of the batch, at the end of this turn of the loop if an outcome is in
        it.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting or self._waiting[0].get_loop() is not loop:
            self._waiting = []
            wait_s = self._committed_at_s + _COMMIT_S - time.monotonic()
            self._timer = loop.call_later(max(0.0, wait_s), self._commit)
        claims = self.claims
        if self._timer is not None and (
            self._batch or not claims.held or len(claims.wanted) >= _ENOUGH
        ):
            self._timer.cancel()
            self._timer = None
            loop.call_soon(self._commit)
        committed = loop.create_future()
        self._waiting.append(committed)
        return committed

    async def room(self) -> None:
        """Wait while the copier is too far behind for new calls."""
        if self._copier is not None:
            await self._copier.room()

    def close(self) -> None:
        """Commit pending entries and close; closing twice is harmless."""
        with self._errors, contextlib.closing(self._connection):
            if self._batch:
                self._write()
            self.claims.close()

    def mean_tokens(self) -> tuple[float, float] | None:
        """Return the mean prompt and completion tokens of verdicts whose server reported them; None
        without any.
        """
        row = self._one(
            "SELECT avg(prompt_tokens), avg(completion_tokens) FROM verdicts WHERE "
            "completion_tokens > 0"
        )
        return None if row[0] is None else (float(row[0]), float(row[1]))

    def iter_entries(self) -> Iterator[Row]:
        """Yield every verdict that is not damaged, then every failure, as JSON-ready objects."""
        yield from self._iter_verdicts("SELECT * FROM verdicts ORDER BY key")
        with self._errors:
            for row in self._connection.execute(f"SELECT * {_UNANSWERED} ORDER BY key"):
                yield readable_row(dict(row))

    def iter_notes(self) -> Iterator[Row]:
        """Yield every note, as JSON-ready objects."""
        return self._iter_notes("SELECT * FROM notes ORDER BY key")

    def _iter_notes(self, query: str) -> Iterator[Row]:
        with self._errors:
            for row in self._connection.execute(query):
                yield readable_row(dict(row))

    def _iter_verdicts(self, query: str) -> Iterator[Row]:
        with self._errors:
            for row in map(dict, self._connection.execute(query)):
                text = self._reply_text(row["key"], row["reply"])
                if self._is_sound(row) and text is not None:
                    yield readable_row(row, text)

    def import_entries(
        self, entries: Iterable[Row], origin: str = "another journal's copy"
    ) -> None:
        """Store entries of another journal, as `iter_entries` and `iter_notes` yield them; existing
        entries are kept, but for earlier notes.

        If one is invalid, nothing is stored, and a `StorageError` names `origin`. Damaged verdicts
        are skipped."""
        with self._errors, transaction(self._connection) as execute:
            execute(_COPIED)
            for entry in entries:
                try:
                    row = parse_row(entry)
                except (ValueError, TypeError, KeyError, RecursionError) as error:
                    message = (
                        f"{origin}: contains an invalid journal entry ({error}); move it away."
                    )
                    raise StorageError(message) from error
                if "subject" in row:
                    execute(_TAKE_NOTE, list(row.values()))
                    execute("INSERT OR IGNORE INTO copied VALUES (?)", (row["key"],))
                    continue
                if (
                    "reply" not in row
                ):  # a verdict of this journal on the same request still has to be copied
                    insert_row(execute, "failures", list(row.values()))
                    continue
                if not self._is_sound(row):
                    continue
                row["reply"] = self._pack(row["reply"].encode())
                self._store(execute, list(row.values()))
                execute("INSERT OR IGNORE INTO copied VALUES (?)", (row["key"],))
            self._has_failures = True

    def iter_uncopied(self) -> Iterator[Row]:
        """Yield the verdicts and notes that did not come from `import_entries`."""
        with self._errors:
            self._connection.execute(_COPIED)
        yield from self._iter_verdicts(
            "SELECT * FROM verdicts WHERE key NOT IN (SELECT key FROM copied)"
        )
        yield from self._iter_notes("SELECT * FROM notes WHERE key NOT IN (SELECT key FROM copied)")

    def _commit(self) -> None:
        """Write the batch and wake its waiters."""
        waiting = self._waiting
        self._waiting = []
        self._committed_at_s = time.monotonic()
        failed: Exception | None = None
        try:
            with self._errors:
                self._write()
        except (StorageError, ValueError, ArithmeticError) as error:  # anything else is a bug
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
            with transaction(self._connection) as execute:
                stored = [self._write_entry(execute, entry, now) for entry in batch]
                for key, _, _ in batch:
                    self.claims.give_back(key)
                self.claims.write(execute)
        except sqlite3.Error:
            self._batch = batch + self._batch  # `close` tries again: these verdicts were paid for
            raise
        if self._copier is not None:
            for columns, values, reply in filter(None, stored):
                self._copier.add(readable_row(dict(zip(columns, values, strict=True)), reply))

    def _write_entry(
        self, execute: Execute, entry: _Entry, now: float
    ) -> tuple[Sequence[str], Sequence[Any], str | None] | None:
        """Store an entry and return its columns, values and reply; None if an earlier verdict
        replaces it.
        """
        key, judge, outcome = entry
        if isinstance(outcome, str):
            note = (key, judge, outcome, now)
            insert_row(execute, "notes", note, otherwise="REPLACE")
            return NOTE_COLUMNS, note, None
        result = outcome.result
        if self._has_failures:
            outcome.reasks = max(outcome.reasks, self._reasks_before(key))
        if isinstance(result, Failure):
            self._has_failures = True
            causes = " ".join(map(str, result.caused_by))
            failure = (
                key,
                judge,
                result.kind.value,
                result.detail,
                outcome.attempts,
                now,
                causes,
                outcome.reasks,
            )
            insert_row(execute, "failures", failure, otherwise="REPLACE")
            return FAILURE_COLUMNS, failure, None
        costs = (
            outcome.attempts, outcome.latency_s, outcome.prompt_tokens, outcome.completion_tokens,
            outcome.cached_tokens, outcome.reasks,
        )  # fmt: skip
        *numbers, grades = columns_of(result)
        checksum = checksum_of(key, (*numbers, grades, *costs))
        text = outcome.reply_text or ""
        verdict = (key, judge, *numbers, *costs, now, self._pack(text.encode()), grades, checksum)
        earlier = self._store(execute, verdict)
        outcome.journal_key = key
        if earlier is not None:
            outcome.result = earlier
        if self._has_failures:
            execute("DELETE FROM failures WHERE key = ?", (key,))
        return (VERDICT_COLUMNS, verdict, text) if earlier is None else None

    def _reasks_before(self, key: bytes) -> int:
        """Return how many replies without a verdict earlier runs got: a judge that answers only
        where a response wins would otherwise be asked by one run after another until it does.
        """
        earlier = self.recall_failure(key)
        if earlier is None or not isinstance(earlier.result, Failure):
            return 0
        return earlier.reasks + earlier.result.kind.is_parse_failure

    def _store(self, execute: Execute, values: Sequence[Any]) -> Judgment | None:
        """Store a verdict, unless an earlier one exists that is not damaged; return that one
        instead.
        """
        if insert_row(execute, "verdicts", values):
            return None
        stored = execute(
            f"SELECT {_READ_COLUMNS} FROM verdicts WHERE key = ?",  # noqa: S608
            values[:1],
        ).fetchone()
        *outcome, checksum = stored
        earlier = self._sound(values[0], outcome, checksum)
        if earlier is None:
            insert_row(execute, "verdicts", values, otherwise="REPLACE")
        return earlier

    def _is_sound(self, row: Row) -> bool:
        return (
            self._sound(row["key"], [row[name] for name in OUTCOME_COLUMNS], row["checksum"])
            is not None
        )


@cache
def _reading(keys: int, with_reply: bool) -> str:
    columns = f"key, {_READ_COLUMNS}, {'reply' if with_reply else 'NULL'}"
    values = ", ".join("?" * keys)
    return f"SELECT {columns} FROM verdicts WHERE key IN ({values})"  # noqa: S608  (our own names)
