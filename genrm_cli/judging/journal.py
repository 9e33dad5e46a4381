"""Journal of verdicts: a local SQLite file from which interrupted and later runs resume.

Several processes may share one file. SQLite locks serialise their writes, and of two verdicts on one request the first
one stored counts for both. Not for network file systems, whose locks cannot be trusted.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import zstandard

from genrm_cli.errors import StorageError
from genrm_cli.judging.journal_file import (
    FAILURE_COLUMNS,
    VERDICT_COLUMNS,
    Execute,
    JournalErrors,
    columns_of,
    connect,
    insert_row,
    opinion_of,
    parse_row,
)
from genrm_cli.verdicts import Failure, Outcome

_REPLY_LEVEL = 3
_OPINION_COLUMNS = "score_1, score_2, ranking, defaulted, grades"
_READ_COLUMNS = f"{_OPINION_COLUMNS}, attempts, latency_s, prompt_tokens, completion_tokens, cached_tokens"
_READ_VERDICT = f"SELECT {_READ_COLUMNS}, NULL FROM verdicts WHERE key = ?"  # noqa: S608  (our own names)
_READ_WITH_REPLY = f"SELECT {_READ_COLUMNS}, reply FROM verdicts WHERE key = ?"  # noqa: S608
_COPIED = "CREATE TEMP TABLE IF NOT EXISTS copied (key BLOB PRIMARY KEY) WITHOUT ROWID"
# One process may record a failure where another records a verdict.
_UNANSWERED = "FROM failures WHERE key NOT IN (SELECT key FROM verdicts)"


_Entry = tuple[bytes, str, Outcome]
"""Key, judge and outcome."""


class Copier(Protocol):
    """Copies committed entries to a second place."""

    def add(self, entry: dict[str, Any]) -> None:
        """Add an entry, as yielded by `Journal.iter_entries`."""

    async def room(self) -> None:
        """Wait while too many entries are not copied yet."""


class Journal(AbstractContextManager["Journal"]):
    """A journal that is open for reading and writing.

    Writes of one turn of the event loop are committed together, and each writer waits for the commit. A killed process
    loses no committed entry; a power failure may lose the most recent ones.
    """

    def __init__(self, path: str, copier: Copier | None = None) -> None:
        """Open a journal, creating it if needed, or raise `StorageError`. Threads may use it in turns.

        The copier receives every entry that this process records, after its commit.
        """
        self.path = path
        self._errors = JournalErrors(path)
        self._copier = copier
        self._batch: list[_Entry] = []
        self._committed: asyncio.Future[None] | None = None
        self._pack = zstandard.ZstdCompressor(level=_REPLY_LEVEL).compress
        self._unpack = zstandard.ZstdDecompressor().decompress
        with self._errors:
            self._connection = connect(path)
            self._reader = self._connection.cursor()
            self._reader.row_factory = None
            # Most journals have no failures: then a new verdict has none to delete.
            self._has_failures = self._connection.execute("SELECT 1 FROM failures LIMIT 1").fetchone() is not None

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._errors:
            return int(self._connection.execute("SELECT count(*) FROM verdicts").fetchone()[0])

    @property
    def has_verdicts(self) -> bool:
        """Whether the journal holds any verdict; unlike `len`, this takes no time."""
        with self._errors:
            return self._connection.execute("SELECT 1 FROM verdicts LIMIT 1").fetchone() is not None

    def knows_judge(self, label: str) -> bool:
        """Whether one of the first verdicts is by this judge; a longer search could read the whole file."""
        with self._errors:
            found = self._connection.execute(
                "SELECT 1 FROM (SELECT judge FROM verdicts LIMIT 1000) WHERE judge = ? LIMIT 1", (label,)
            )
            return found.fetchone() is not None

    def recall(self, key: bytes, *, with_reply: bool = False) -> Outcome | None:
        """Return the stored verdict of a request, or None; the judge's reply is decompressed on demand only."""
        with self._errors:
            # All rows are fetched, as an unfinished statement would keep a read transaction open.
            rows = self._reader.execute(_READ_WITH_REPLY if with_reply else _READ_VERDICT, (key,)).fetchall()
            if not rows:
                return None
            *judgment, attempts, latency_s, prompt, completion, cached, reply = rows[0]
            text = None if reply is None else self._unpack(reply).decode()
            opinion = opinion_of(*judgment)
            return Outcome(opinion, attempts, latency_s, prompt, completion, cached, text, from_journal=True)

    def has_failed(self, key: bytes) -> bool:
        """Return whether the request was made without a verdict."""
        with self._errors:
            return self._connection.execute("SELECT 1 FROM failures WHERE key = ?", (key,)).fetchone() is not None

    async def record(self, key: bytes, judge: str, outcome: Outcome) -> Outcome:
        """Store the outcome of a request, wait for the commit, and return the outcome that counts.

        If another process stored a verdict first, that one counts. A failure is kept for reports, until a verdict
        replaces it.
        """
        loop = asyncio.get_running_loop()
        if self._committed is None:
            self._committed = loop.create_future()
            loop.call_soon(self._commit)
        self._batch.append((key, judge, outcome))
        await asyncio.shield(self._committed)  # cancelling one waiter must not cancel the others
        if not isinstance(outcome.result, Failure):
            return outcome
        return self.recall(key, with_reply=True) or outcome

    async def room(self) -> None:
        """Wait while the copier is too far behind for new calls."""
        if self._copier is not None:
            await self._copier.room()

    def close(self) -> None:
        """Commit pending entries and close; closing twice is harmless."""
        with self._errors:
            if self._batch:
                self._write()
            self._connection.close()

    def statistics(self) -> dict[str, Any]:
        """Return the counts of verdicts and failures by judge, with tokens, times (Unix seconds) and size."""
        with self._errors:
            rows = self._connection.execute(
                "SELECT judge, count(*), sum(attempts), sum(prompt_tokens), sum(completion_tokens), "
                "min(answered_at), max(answered_at), sum(length(reply)) FROM verdicts GROUP BY judge ORDER BY judge"
            ).fetchall()
            failed = self._connection.execute(
                f"SELECT judge, kind, count(*) {_UNANSWERED} GROUP BY judge, kind ORDER BY judge, kind"
            ).fetchall()
        names = (
            "judge", "verdicts", "calls", "prompt_tokens", "completion_tokens", "first_at", "last_at", "reply_bytes",
        )  # fmt: skip
        return {
            "path": self.path,
            "size_bytes": Path(self.path).stat().st_size,
            "judges": [dict(zip(names, row, strict=True)) for row in rows],
            "failures": [{"judge": judge, "kind": kind, "count": count} for judge, kind, count in failed],
        }

    def mean_tokens(self) -> tuple[float, float] | None:
        """Return the mean prompt and completion tokens, over verdicts whose server reported them; None without any."""
        with self._errors:
            row = self._connection.execute(
                "SELECT avg(prompt_tokens), avg(completion_tokens) FROM verdicts WHERE completion_tokens > 0"
            ).fetchone()
        return None if row[0] is None else (float(row[0]), float(row[1]))

    def iter_verdicts(self, judge: str) -> Iterator[tuple[float, float, float]]:
        """Yield score_1, score_2 and ranking of a judge's verdicts, except grades and defaulted verdicts."""
        with self._errors:
            yield from self._connection.execute(
                "SELECT score_1, score_2, ranking FROM verdicts WHERE judge = ? AND grades IS NULL AND NOT defaulted "
                "ORDER BY key",
                (judge,),
            )

    def iter_entries(self) -> Iterator[dict[str, Any]]:
        """Yield every verdict, then every failure, as JSON-ready objects."""
        with self._errors:
            for row in self._connection.execute("SELECT * FROM verdicts ORDER BY key"):
                yield self._rendered(dict(row))
            for row in self._connection.execute(f"SELECT * {_UNANSWERED} ORDER BY key"):
                yield self._rendered(dict(row))

    def take_in(self, entries: Iterable[dict[str, Any]], origin: str = "another journal's copy") -> None:
        """Store entries of another journal, as `iter_entries` yields them; existing entries are kept.

        If one is invalid, nothing is stored, and a `StorageError` names `origin`.
        """
        with self._errors, self._transaction() as execute:
            execute(_COPIED)
            for entry in entries:
                try:
                    row = parse_row(entry)
                except (ValueError, TypeError, KeyError, RecursionError) as error:
                    message = f"{origin}: contains an invalid journal entry ({error}); move it away."
                    raise StorageError(message) from error
                if "reply" not in row:  # a verdict of this journal on the same request still has to be copied
                    insert_row(execute, "failures", list(row.values()))
                    continue
                row["reply"] = self._pack(row["reply"].encode())
                insert_row(execute, "verdicts", list(row.values()))
                execute("INSERT OR IGNORE INTO copied VALUES (?)", (row["key"],))
            self._has_failures = True

    def iter_uncopied(self) -> Iterator[dict[str, Any]]:
        """Yield the verdicts that did not come from `take_in`."""
        with self._errors:
            self._connection.execute(_COPIED)
            for row in self._connection.execute("SELECT * FROM verdicts WHERE key NOT IN (SELECT key FROM copied)"):
                yield self._rendered(dict(row))

    def prune(self, *, failures: bool, before: float | None, judge: str | None) -> tuple[int, int]:
        """Delete failures, and verdicts of a judge, from before a time (Unix seconds), or both.

        Return the numbers of deleted verdicts and failures.
        """
        with self._errors:
            gone_failures = self._connection.execute("DELETE FROM failures").rowcount if failures else 0
            gone_verdicts = 0
            if before is not None or judge is not None:
                gone_verdicts = self._connection.execute(
                    "DELETE FROM verdicts WHERE (?1 IS NULL OR answered_at < ?1) AND (?2 IS NULL OR judge = ?2)",
                    (before, judge),
                ).rowcount
            self._connection.execute("VACUUM")
        return gone_verdicts, gone_failures

    def _commit(self) -> None:
        """Write the batch and wake its waiters."""
        committed, self._committed = self._committed, None
        try:
            with self._errors:
                self._write()
        except (StorageError, ValueError, ArithmeticError) as error:  # anything else is a bug
            if committed is not None and not committed.done():
                committed.set_exception(error)
            return
        if committed is not None and not committed.done():
            committed.set_result(None)

    def _write(self) -> None:
        batch, self._batch = self._batch, []
        now = time.time()
        try:
            with self._transaction() as execute:
                stored = [self._write_entry(execute, entry, now) for entry in batch]
        except sqlite3.Error:
            self._batch = batch + self._batch  # closing tries again: these verdicts were paid for
            raise
        if self._copier is not None:
            for row in stored:
                if row is not None:
                    self._copier.add(self._rendered(row))

    def _write_entry(self, execute: Execute, entry: _Entry, now: float) -> dict[str, Any] | None:
        """Store an entry and return its row; None if an earlier verdict exists, which then replaces the entry's own."""
        key, judge, outcome = entry
        result = outcome.result
        if isinstance(result, Failure):
            self._has_failures = True
            failure = (key, judge, result.kind.value, result.detail, outcome.attempts, now)
            execute("DELETE FROM failures WHERE key = ?", (key,))
            insert_row(execute, "failures", failure)
            return dict(zip(FAILURE_COLUMNS, failure, strict=True))
        *opinion, grades = columns_of(result)
        verdict = (
            key, judge, *opinion, outcome.attempts,
            outcome.latency_s, outcome.prompt_tokens, outcome.completion_tokens, outcome.cached_tokens, now,
            self._pack((outcome.reply_text or "").encode()), grades,
        )  # fmt: skip
        is_new = insert_row(execute, "verdicts", verdict)
        if not is_new:
            earlier = execute(f"SELECT {_OPINION_COLUMNS} FROM verdicts WHERE key = ?", (key,)).fetchone()  # noqa: S608
            outcome.result = opinion_of(*earlier)
        if self._has_failures:
            execute("DELETE FROM failures WHERE key = ?", (key,))
        return dict(zip(VERDICT_COLUMNS, verdict, strict=True)) if is_new else None

    def _rendered(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row as a JSON-ready object."""
        shown = row | {"key": row["key"].hex()}
        return shown | {"reply": self._unpack(row["reply"]).decode()} if "reply" in row else shown

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        """Commit everything done inside, or nothing."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            yield execute
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise
