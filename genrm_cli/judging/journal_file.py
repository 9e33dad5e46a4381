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
from typing import Any, NamedTuple

import orjson
import zstandard

from genrm_cli.errors import SettingRef, StorageError
from genrm_cli.json_types import Record
from genrm_cli.verdicts import ChatTurn, Failure, FailureKind, Grades, Judgment, Outcome, Verdict

FORMAT = 3  # increase it when tables or entries change
_APPLICATION_ID = 0x67656E72  # distinguishes our files from other SQLite files
_BUSY_TIMEOUT_S = 30.0  # another run may import a whole copy in one transaction
# Keys are hashes, so reads are random: with SQLite's default of 2 MB they take a third longer.
_CACHE_KIB = 8 << 10
_SWITCH_PAUSE_S = 0.02  # the other process reads for milliseconds
Connection = sqlite3.Connection
Execute = Callable[..., sqlite3.Cursor]

_ELSEWHERE = ("set ", SettingRef("journal"), " to another file.")

# Entries are stored in the order in which they come, and found by an index of their keys: an index
# of random keys that holds the replies, too, takes twice the space and time.
_NEW_TABLES = """
CREATE TABLE IF NOT EXISTS entries (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, judge TEXT NOT NULL, at REAL NOT NULL,
    body TEXT NOT NULL, checksum INTEGER NOT NULL, reply BLOB
);
CREATE INDEX IF NOT EXISTS notes ON entries (at) WHERE kind = 'note';
CREATE TABLE IF NOT EXISTS claims (
    run BLOB PRIMARY KEY, expires_at REAL NOT NULL, keys BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS sums (name TEXT PRIMARY KEY, numbers BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS summed (
    name TEXT NOT NULL, part BLOB NOT NULL, PRIMARY KEY (name, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, until REAL, record BLOB);
CREATE INDEX IF NOT EXISTS kept_until ON kept (until);
"""
VERDICT = "verdict"
FAILURE = "failure"
NOTE = "note"
_COSTS = (
    "attempts",
    "latency_s",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasks",
)


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
            costs = {name: fields[name] for name in _COSTS}
            return Outcome(_result_of(fields), from_journal=True, **costs)
        except (ValueError, TypeError, KeyError):
            return None

    def readable(self, reply: str | None) -> Record:
        """Return it as a JSON-ready object, which `parse_entry` reads."""
        fields = {**self._asdict(), "key": self.key.hex(), "reply": reply}
        return fields | {"body": orjson.loads(self.body)}


def entry_of(key: bytes, judge: str, outcome: Outcome, at: float, reply: bytes | None) -> Entry:
    """Return the entry of an outcome."""
    result = outcome.result
    name = type(result).__name__.lower()
    fields = {name: result} | {cost: getattr(outcome, cost) for cost in _COSTS}
    kind = FAILURE if isinstance(result, Failure) else VERDICT
    return _entry(key, kind, judge, at, fields, reply)


def note_of(key: bytes, judge: str, at: float) -> Entry:
    """Return a note that a judge is asked."""
    return _entry(key, NOTE, judge, at, {}, None)


def parse_entry(copy: object, compress: Callable[[bytes], bytes]) -> Entry:
    """Return the entry of a copy as `Entry.readable` makes it; its content may be damaged.

    Raises:
        ValueError, TypeError, KeyError: it is not an entry. SQLite would store any type in any
            column.
    """
    if not isinstance(copy, dict):
        raise TypeError(f"{copy!r:.40}")
    for name, expected in _TYPES.items():
        if not isinstance(copy[name], expected):
            raise TypeError(f"{name} is {copy[name]!r:.40}")
    reply = copy["reply"]
    if copy["kind"] not in (VERDICT, FAILURE, NOTE) or (copy["kind"] == VERDICT) != bool(
        reply is not None
    ):
        raise ValueError(f"kind is {copy['kind']!r:.40}")
    return Entry(
        bytes.fromhex(copy["key"]),
        copy["kind"],
        copy["judge"],
        float(copy["at"]),
        orjson.dumps(copy["body"]).decode(),
        copy["checksum"],
        None if reply is None else compress(reply.encode()),
    )


_TYPES: Mapping[str, tuple[type, ...]] = {
    "key": (str,),
    "kind": (str,),
    "judge": (str,),
    "at": (int, float),
    "body": (dict,),
    "checksum": (int,),
    "reply": (str, type(None)),
}


def _entry(
    key: bytes,
    kind: str,
    judge: str,
    at: float,
    fields: Mapping[str, object],
    reply: bytes | None,
) -> Entry:
    body = orjson.dumps(fields).decode()
    return Entry(key, kind, judge, at, body, _checksum(key, body), reply)


def _checksum(key: bytes, body: str) -> int:
    return zlib.crc32(body.encode("utf-8", "surrogatepass"), zlib.crc32(key))


def _result_of(fields: Mapping[str, Any]) -> Judgment | Failure:
    if "verdict" in fields:
        return Verdict(**fields["verdict"])
    if "chatturn" in fields:
        return ChatTurn(**fields["chatturn"])
    if "grades" in fields:
        return Grades(**{name: tuple(each) for name, each in fields["grades"].items()})
    failure = fields["failure"]
    kind = FailureKind(failure["kind"])
    return Failure(kind, failure["detail"], tuple(failure["caused_by"]))


class JournalErrors:
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
        if isinstance(error, sqlite3.DatabaseError | zstandard.ZstdError | UnicodeDecodeError):
            raise StorageError(
                f"journal {self._path}: {error}. It is damaged or not a journal; its contents are "
                "unchanged. Move it "
                "away, or ",
                *_ELSEWHERE,
            ) from error


@contextmanager
def transaction(connection: Connection) -> Iterator[Execute]:
    """Commit everything done inside, or nothing."""
    execute = connection.execute
    execute("BEGIN IMMEDIATE")
    try:
        yield execute
        execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            execute("ROLLBACK")
        raise


def connect(path: str, *, read_only: bool = False) -> Connection:
    """Open the file of a journal; any thread may use the connection, one at a time.

    A file that is not SQLite raises `sqlite3.Error`; one that is not a journal of this format,
    `StorageError`.

    `read_only` changes nothing and works on read-only files; otherwise the file is created if
    needed."""
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
    except (
        sqlite3.OperationalError
    ):  # in a read-only folder, the index of the write-ahead log cannot be created
        log = Path(path + "-wal")
        if log.exists() and log.stat().st_size:
            raise  # it holds verdicts that the file lacks
        return _open(path, "immutable=1", _prepare_for_reading)


def _open(path: str, query: str, prepare: Callable[[Connection, str], None]) -> Connection:
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


def _prepare_for_reading(connection: Connection, path: str) -> None:
    _check_format(connection, path)
    connection.execute("PRAGMA query_only = ON")


def _check_format(connection: Connection, path: str) -> bool:
    """Return whether a file has tables; raise `StorageError` if they are not a journal's of this
    format.
    """
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application != _APPLICATION_ID:
        raise StorageError(f"{path} is an SQLite file, but not a genrm journal; ", *_ELSEWHERE)
    if tables and version != FORMAT:
        raise StorageError(
            f"journal {path} has format {version}, but this version of genrm reads format "
            f"{FORMAT}. Use the version "
            "that wrote it, or ",
            *_ELSEWHERE,
        )
    return bool(tables)


def _prepare(connection: Connection, path: str) -> None:
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
    """Sums of numbers, by name, to which any number of processes add; all methods may raise
    `StorageError`.
    """

    def __init__(self, connection: Connection, errors: JournalErrors) -> None:
        self._connection = connection
        self._errors = errors

    def read(self, name: str) -> list[float] | None:
        """Return the sums of this name; None if there are none."""
        with self._errors:
            row = self._connection.execute(
                "SELECT numbers FROM sums WHERE name = ?", (name,)
            ).fetchone()
        return None if row is None else array("d", row[0]).tolist()

    def has(self, name: str, part: bytes) -> bool:
        """Whether a part has been added."""
        with self._errors:
            found = self._connection.execute(
                "SELECT 1 FROM summed WHERE name = ? AND part = ?", (name, part)
            )
            return found.fetchone() is not None

    def add(self, name: str, parts: Mapping[bytes, tuple[float, Sequence[float]]]) -> list[float]:
        """Add the sums of parts that nobody has added yet, and return the sums of all parts.

        Each part comes with the share of the sums before it that remains (`faded`).
        """
        with self._errors, transaction(self._connection) as execute:
            row = execute("SELECT numbers FROM sums WHERE name = ?", (name,)).fetchone()
            total = array("d", row[0]).tolist() if row is not None else []
            for part, (share, numbers) in parts.items():
                # Another process may have added the part since the caller looked.
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

    def __init__(self, connection: Connection, errors: JournalErrors) -> None:
        self._connection = connection
        self._errors = errors

    def read(self, key: bytes) -> bytes | None:
        """Return a record that is still kept; None without one."""
        with self._errors:
            query = "SELECT record FROM kept WHERE key = ? AND until > ?"
            row = self._connection.execute(query, (key, time.time())).fetchone()
        return None if row is None else bytes(row[0])

    def write(self, records: Mapping[bytes, bytes], keep_s: float) -> None:
        """Keep records for this long in place of earlier ones, and forget those that were kept long
        enough.
        """
        now = time.time()
        with self._errors, transaction(self._connection) as execute:
            execute("DELETE FROM kept WHERE until <= ?", (now,))
            for key, record in records.items():
                execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (key, now + keep_s, record))

    def drop(self, key: bytes) -> None:
        """Forget a record."""
        with self._errors:
            self._connection.execute("DELETE FROM kept WHERE key = ?", (key,))
