"""The SQLite file of a journal: its tables, how entries are written in it, and opening.

All entries are in one table. `body` is JSON, so that a new field changes no table; it and the key
are covered by `checksum`. The reply, the only long column, is compressed, and has a checksum of its
own. `kind` and `judge` are columns because queries select by them."""

import contextlib
import os
import sqlite3
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import orjson
import zstandard

from genrm_cli.errors import SettingRef, StorageError
from genrm_cli.json_types import Record
from genrm_cli.typed_json import from_json
from genrm_cli.verdicts import ChatTurn, Failure, Grades, Judgment, Outcome, Verdict

FORMAT = 4  # increase it when tables or entries change
_APPLICATION_ID = 0x67656E72  # distinguishes our files from other SQLite files
_BUSY_TIMEOUT_S = 30.0  # another input of the run may import a whole copy in one transaction
# Keys are hashes, so reads are random: with SQLite's default of 2 MB they take a third longer.
_CACHE_KIB = 8 << 10
_SWITCH_PAUSE_S = 0.02  # the other process reads for milliseconds
Execute = Callable[..., sqlite3.Cursor]
Values = Sequence[object] | Mapping[str, object]
"""The values of a query, by position or by name."""

_ELSEWHERE = ("set ", SettingRef("journal"), " to another file.")

# Entries are stored in the order in which they come, and found by an index of their keys: an index
# of random keys that holds the replies, too, takes twice the space and time.
_NEW_TABLES = """
CREATE TABLE IF NOT EXISTS entries (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, judge TEXT NOT NULL, at REAL NOT NULL,
    body TEXT NOT NULL, checksum INTEGER NOT NULL, reply BLOB
);
CREATE INDEX IF NOT EXISTS notes ON entries (at) WHERE kind = 'note';
CREATE TABLE IF NOT EXISTS sums (name TEXT PRIMARY KEY, numbers BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS summed (
    name TEXT NOT NULL, part BLOB NOT NULL, PRIMARY KEY (name, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, until REAL, record BLOB);
CREATE INDEX IF NOT EXISTS kept_until ON kept (until);
"""
_ANY_ROW = (
    "SELECT 1 FROM entries WHERE judge <> '' LIMIT 1",  # what a run is to do is no result
    "SELECT 1 FROM summed LIMIT 1",
    "SELECT 1 FROM kept LIMIT 1",
)
_SUMS = "SELECT numbers FROM sums WHERE name = ?"
VERDICT = "verdict"
FAILURE = "failure"
NOTE = "note"
# The costs of an outcome, which its entry keeps.
_COSTS = ["attempts", "latency_s", "prompt_tokens", "completion_tokens", "reasks"]
# Rarely needed: entries leave them out.
_ESTIMATED = "estimated_replies"
_SHORTENED = "shortened"
_RESULTS: Mapping[str, type[Judgment | Failure]] = {
    "verdict": Verdict,
    "grades": Grades,
    "chatturn": ChatTurn,
    "failure": Failure,
}


class Entry(NamedTuple):
    """A row of the file.

    Attributes:
        key: of the request; of a note, a hash of what it is about.
        kind: `VERDICT` (grades and turns too), `FAILURE` or `NOTE`.
        judge: label of the judge that was asked.
        at: when it was written, by the system's clock.
        body: the outcome as JSON.
        reply: the judge's reply, compressed; None for a failure or a note.
    """

    key: bytes
    kind: str
    judge: str
    at: float
    body: str
    checksum: int
    reply: bytes | None

    @property
    def is_sound(self) -> bool:
        """Whether the body is what was written."""
        return isinstance(self.body, str) and self.checksum == _checksum(self.key, self.body)

    def outcome(self) -> Outcome | None:
        """Return the outcome without its reply; None if the entry is damaged."""
        if not self.is_sound:
            return None
        try:
            fields = orjson.loads(self.body)
            name = next(name for name in _RESULTS if name in fields)
            result = from_json(_RESULTS[name], fields[name])
            costs = {cost: fields[cost] for cost in _COSTS}
            return Outcome(
                result,
                from_journal=True,
                **costs,
                estimated_replies=fields.get(_ESTIMATED, 0),
                shortened=tuple(fields.get(_SHORTENED, ())),
            )
        except (ValueError, TypeError, KeyError, StopIteration):
            return None

    def note(self) -> Record:
        """Return the content of a note."""
        content: Record = orjson.loads(self.body)
        return content

    def readable(self, reply: str | None) -> Record:
        """Return it as a JSON-ready object, which `parse_entry` reads."""
        fields = {**self._asdict(), "key": self.key.hex(), "reply": reply}
        return fields | {"body": orjson.loads(self.body)}


class _Copy(msgspec.Struct):
    """An entry as `Entry.readable` makes it."""

    key: str
    kind: Literal["verdict", "failure", "note"]
    judge: str
    at: float
    body: Record
    checksum: int
    reply: str | None


def entry_of(
    key: bytes, judge: str, outcome: Outcome | Record, at: float, reply: bytes | None = None
) -> Entry:
    """Return the entry of an outcome, or of the content of a note."""
    kind = NOTE
    fields: dict[str, object] = {}
    if not isinstance(outcome, Outcome):
        fields = outcome
    else:
        result = outcome.result
        kind = FAILURE if isinstance(result, Failure) else VERDICT
        fields = {cost: getattr(outcome, cost) for cost in _COSTS}
        if outcome.estimated_replies:
            fields[_ESTIMATED] = outcome.estimated_replies
        if any(outcome.shortened):
            fields[_SHORTENED] = outcome.shortened
        fields[type(result).__name__.lower()] = msgspec.to_builtins(result)
    body = orjson.dumps(fields).decode()
    return Entry(key, kind, judge, at, body, _checksum(key, body), reply)


def parse_entry(copy: object, compress: Callable[[bytes], bytes]) -> Entry:
    """Return the entry of a copy as `Entry.readable` makes it; its content may be damaged.

    Raises:
        ValueError: it is not an entry. SQLite would store any type in any column.
    """
    given = from_json(_Copy, copy)
    if (given.kind == VERDICT) != (given.reply is not None):
        raise ValueError(f"a {given.kind} with the reply {given.reply!r:.40}")
    return Entry(
        bytes.fromhex(given.key),
        given.kind,
        given.judge,
        given.at,
        orjson.dumps(given.body).decode(),
        given.checksum,
        None if given.reply is None else compress(given.reply.encode()),
    )


def _checksum(key: bytes, body: str) -> int:
    return zlib.crc32(body.encode("utf-8", "surrogatepass"), zlib.crc32(key))


class _JournalErrors:
    """Context that converts errors of SQLite and zstandard into a `StorageError` with a remedy."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Do nothing. This is a plain class because a generator would cost a tenth of a recall."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.OperationalError):
            found = f"journal {self._path}: {error}; "
            if "locked" in str(error) or "busy" in str(error):
                raise StorageError(
                    found, "another process has locked it; wait for it, or ", *_ELSEWHERE
                ) from error
            raise StorageError(
                found,
                "check that it is a file in an existing folder with free disk space; its contents "
                "are unchanged.",
            ) from error
        # SQLite's own messages may quote bytes of a damaged file.
        if isinstance(error, (sqlite3.DatabaseError, zstandard.ZstdError, UnicodeDecodeError)):
            raise StorageError(
                f"journal {self._path}: {error}. It is damaged or not a journal; its contents are "
                "unchanged. Move it "
                "away, or ",
                *_ELSEWHERE,
            ) from error


class JournalFile:
    """The open file of a journal; any thread may use it, one at a time. All methods raise
    `StorageError` with a remedy.
    """

    def __init__(self, path: str, *, read_only: bool) -> None:
        """Open the file, creating it if needed; with `read_only`, change nothing."""
        self.errors = _JournalErrors(path)
        with self.errors:
            self._connection = _connect(path, read_only=read_only)

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        """Return the rows of a query. An unfinished one would keep a read transaction open."""
        with self.errors:
            return self._connection.execute(query, values).fetchall()

    def row(self, query: str, values: Values = ()) -> Any:
        """Return the first row, or None."""
        return next(iter(self.rows(query, values)), None)

    def iter_rows(self, query: str) -> Iterator[Any]:
        """Yield rows one by one."""
        with self.errors:
            yield from self._connection.execute(query)

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Commit everything done inside, or nothing."""
        execute = self._connection.execute
        with self.errors:
            execute("BEGIN IMMEDIATE")
            try:
                yield execute
                execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        with self.errors:
            self._connection.close()


def remove_if_empty(path: str) -> None:
    """Remove a journal without any entry, as a run leaves that fails before its first answer.

    No other process may be writing it. A damaged file, or one that is not a journal, stays."""
    with contextlib.suppress(StorageError):
        with contextlib.closing(JournalFile(path, read_only=True)) as file:
            is_empty = not any(map(file.rows, _ANY_ROW))
        if is_empty:
            Path(path).unlink()


def _connect(path: str, *, read_only: bool) -> sqlite3.Connection:
    """Open an SQLite file; `StorageError` if it is not a journal of this format."""
    if not Path(path).parent.is_dir():
        raise sqlite3.OperationalError("its folder does not exist")
    if not read_only:
        with contextlib.suppress(OSError):  # SQLite then explains why it cannot open the path
            # It contains the judge's replies. SQLite would let others read it, and gives its side
            # files the same mode.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return _open(path, "mode=rwc", _prepare)
    try:
        return _open(path, "mode=rw", _prepare_for_reading)  # SQLite treats it as a request only
    except sqlite3.OperationalError:
        # In a read-only folder, the index of the write-ahead log cannot be created.
        log = Path(path + "-wal")
        if log.exists() and log.stat().st_size:
            raise  # it holds verdicts that the file lacks
        return _open(path, "immutable=1", _prepare_for_reading)


def _open(
    path: str, query: str, prepare: Callable[[sqlite3.Connection, str], None]
) -> sqlite3.Connection:
    uri = f"{Path(path).absolute().as_uri()}?{query}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    # Only a damaged row holds anything but UTF-8; its checksum reveals it.
    connection.text_factory = lambda text: text.decode(errors="replace")
    try:
        prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare_for_reading(connection: sqlite3.Connection, path: str) -> None:
    _check_format(connection, path)
    connection.execute("PRAGMA query_only = ON")


def _check_format(connection: sqlite3.Connection, path: str) -> bool:
    """Return whether a file has tables; raise `StorageError` if they are not a journal's of this
    format.
    """
    names = ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
    tables, application, version = (connection.execute(name).fetchone()[0] for name in names)
    if tables and application != _APPLICATION_ID:
        raise StorageError(f"{path} is an SQLite file, but not a genrm journal; ", *_ELSEWHERE)
    if tables and version != FORMAT:
        raise StorageError(
            f"journal {path} has format {version}, but this version of genrm reads format "
            f"{FORMAT}. Use the version that wrote it, or ",
            *_ELSEWHERE,
        )
    return bool(tables)


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Check the format of the file, or create the tables if it is empty."""
    has_tables = _check_format(connection, path)
    # WAL: readers and the writer do not wait for each other, and a killed process loses no commit.
    # SQLite refuses the switch while another process reads, ignoring the busy timeout, to avoid a
    # deadlock.
    gives_up_at_s = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > gives_up_at_s:
                raise
            time.sleep(_SWITCH_PAUSE_S)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    if not has_tables:
        connection.executescript(
            f"BEGIN IMMEDIATE; {_NEW_TABLES}"
            f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
        )


class KeptSums:
    """Sums of numbers, by name; all methods may raise `StorageError`."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def read(self, name: str) -> list[float] | None:
        """Return the sums of this name; None if there are none."""
        row = self._file.row(_SUMS, (name,))
        return None if row is None else array("d", row[0]).tolist()

    def has(self, name: str, part: bytes) -> bool:
        """Whether a part has been added."""
        query = "SELECT 1 FROM summed WHERE name = ? AND part = ?"
        return bool(self._file.rows(query, (name, part)))

    def add(self, name: str, parts: Mapping[bytes, tuple[float, Sequence[float]]]) -> list[float]:
        """Add the sums of parts that nobody has added yet, and return the sums of all parts.

        Each part comes with the share of the sums before it that remains (`faded`).
        """
        with self._file.transaction() as execute:
            row = execute(_SUMS, (name,)).fetchone()
            total = array("d", row[0]).tolist() if row is not None else []
            for part, (share, numbers) in parts.items():
                # The part may have been added since the caller looked.
                if execute("INSERT OR IGNORE INTO summed VALUES (?, ?)", (name, part)).rowcount:
                    total = faded(total, share, numbers)
            execute(
                "INSERT OR REPLACE INTO sums VALUES (?, ?)", (name, array("d", total).tobytes())
            )
        return total


def faded(total: Sequence[float], share: float, numbers: Sequence[float]) -> list[float]:
    """Return a share of sums and all of the new ones, which replace sums of another number of
    numbers.
    """
    known = total if len(total) == len(numbers) else [0.0] * len(numbers)
    return [share * old + new for old, new in zip(known, numbers, strict=True)]


class KeptRecords:
    """Records by key, each forgotten after a while; all methods may raise `StorageError`."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def read(self, key: bytes) -> bytes | None:
        """Return a record that is still kept; None without one."""
        query = "SELECT record FROM kept WHERE key = ? AND until > ?"
        row = self._file.row(query, (key, time.time()))
        return None if row is None else bytes(row[0])

    def write(self, records: Mapping[bytes, bytes], keep_s: float) -> None:
        """Keep records for this long in place of earlier ones, and forget those that were kept long
        enough.
        """
        now = time.time()
        with self._file.transaction() as execute:
            execute("DELETE FROM kept WHERE until <= ?", (now,))
            for key, record in records.items():
                execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (key, now + keep_s, record))

    def drop(self, key: bytes) -> None:
        """Forget a record."""
        self._file.rows("DELETE FROM kept WHERE key = ?", (key,))
