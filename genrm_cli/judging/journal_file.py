"""The SQLite file of a journal: schema, rows, opening, running sums and kept records."""

import contextlib
import json
import math
import os
import sqlite3
import struct
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

from genrm_cli.errors import SettingRef, StorageError
from genrm_cli.verdicts import ChatTurn, Grades, Judgment, Verdict

FORMAT = 2  # increase it when tables or columns change
_APPLICATION_ID = 0x67656E72  # distinguishes our files from other SQLite files
_BUSY_TIMEOUT_S = 30.0  # another run may import a whole copy in one transaction
# Keys are hashes, so reads are random: with SQLite's default of 2 MB they take a third longer.
_CACHE_KIB = 8 << 10
_SWITCH_PAUSE_S = 0.02  # the other process reads for milliseconds
Connection = sqlite3.Connection
Execute = Callable[..., sqlite3.Cursor]
Row = dict[str, Any]
"""Values by column: a row of the file, or its JSON-ready copy."""

_ELSEWHERE = ("set ", SettingRef("journal"), " to another file.")

# Verdicts are stored in the order in which they come, and found by an index of their keys: an index
# of random keys that holds the replies, too, takes twice the space and time.
_SCHEMA = """
CREATE TABLE verdicts (
    key BLOB PRIMARY KEY, judge TEXT NOT NULL,
    score_1 REAL, score_2 REAL, ranking REAL, defaulted INTEGER NOT NULL,
    attempts INTEGER NOT NULL, latency_s REAL NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, reasks INTEGER NOT NULL,
    answered_at REAL NOT NULL, reply BLOB NOT NULL, grades TEXT, checksum INTEGER NOT NULL,
    CHECK (grades IS NOT NULL OR (score_1 + score_2 + ranking) IS NOT NULL)
);
CREATE TABLE failures (
    key BLOB PRIMARY KEY, judge TEXT NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL,
    attempts INTEGER NOT NULL, failed_at REAL NOT NULL, caused_by TEXT NOT NULL,
    reasks INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE notes (
    key BLOB PRIMARY KEY, subject TEXT NOT NULL, text TEXT NOT NULL, noted_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE claims (run BLOB PRIMARY KEY, expires_at REAL NOT NULL, keys BLOB NOT NULL);
CREATE TABLE sums (name TEXT PRIMARY KEY, numbers BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE summed (
    name TEXT NOT NULL, part BLOB NOT NULL, PRIMARY KEY (name, part)
) WITHOUT ROWID;
"""
_NEW_TABLES = _SCHEMA.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
VERDICT_COLUMNS = (
    "key",
    "judge",
    "score_1",
    "score_2",
    "ranking",
    "defaulted",
    "attempts",
    "latency_s",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasks",
    "answered_at",
    "reply",
    "grades",
    "checksum",
)
# The columns of a recalled outcome, which the checksum covers.
OUTCOME_COLUMNS = (
    "score_1",
    "score_2",
    "ranking",
    "defaulted",
    "grades",
    "attempts",
    "latency_s",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasks",
)
FAILURE_COLUMNS = (
    "key",
    "judge",
    "kind",
    "detail",
    "attempts",
    "failed_at",
    "caused_by",
    "reasks",
)
NOTE_COLUMNS = ("key", "subject", "text", "noted_at")
_TEXT_COLUMNS = (
    "key",
    "judge",
    "reply",
    "kind",
    "detail",
    "grades",
    "caused_by",
    "subject",
    "text",
)
_VERDICT_ONLY = ("score_1", "score_2", "ranking")
_GRADES_ONLY = ("grades",)
# In the column of grades, for a chat model's turn and one that the token limit cut off.
_TURN = "turn"
_CUT_TURN = "cut turn"
_NUMBERS = struct.Struct("<10d")
_TOO_LARGE = 2**63  # for an integer of SQLite


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


def parse_row(entry: Row) -> Row:
    """Return the checked row of an entry, with the reply as text. SQLite would store any type in
    any column.
    """
    if not isinstance(entry, dict):
        raise TypeError(f"{entry!r:.40}")
    columns: tuple[str, ...] = FAILURE_COLUMNS
    if "reply" in entry:
        columns = VERDICT_COLUMNS
    elif "subject" in entry:
        columns = NOTE_COLUMNS
    row: Row = {name: entry.get(name) for name in columns}
    absent = _VERDICT_ONLY if row.get("score_1") is None else _GRADES_ONLY
    for name, value in row.items():
        if name in absent and value is None:
            continue
        wanted = str if name in _TEXT_COLUMNS else (int, float)
        if not isinstance(value, wanted) or (
            not isinstance(value, str) and abs(value) >= _TOO_LARGE
        ):
            raise TypeError(f"{name} is {value!r:.40}")
    if "reply" in entry:
        opinion_of(row["score_1"], row["score_2"], row["ranking"], 0, row["grades"])
    return row | {"key": bytes.fromhex(row["key"])}


def readable_row(row: Row, reply: str | None = None) -> Row:
    """Return a row as a JSON-ready entry."""
    shown = row | {"key": row["key"].hex()}
    return shown if reply is None else shown | {"reply": reply}


def columns_of(
    opinion: Judgment,
) -> tuple[float | None, float | None, float | None, bool, str | None]:
    """Return the columns of a judgment: three numbers, whether they are defaults, and grades."""
    if isinstance(opinion, Verdict):
        return opinion.score_1, opinion.score_2, opinion.ranking, opinion.defaulted, None
    if isinstance(opinion, ChatTurn):
        return None, None, None, False, _CUT_TURN if opinion.is_truncated else _TURN
    grades = {"values": opinion.values, "notes": opinion.notes}
    if opinion.places:
        grades["places"] = opinion.places
    return None, None, None, False, json.dumps(grades)


def opinion_of(
    score_1: float | None,
    score_2: float | None,
    ranking: float | None,
    defaulted: int,
    grades: str | None,
) -> Judgment:
    """Return the judgment stored in these columns; invalid ones raise ValueError, KeyError or
    TypeError.
    """
    if score_1 is not None and score_2 is not None and ranking is not None:
        return Verdict(score_1, score_2, ranking, bool(defaulted))
    if (score_1, score_2, ranking) != (None, None, None):  # to the checksum, an absent number is 0
        raise ValueError("some numbers of a verdict are absent")
    if grades is None:
        raise ValueError("neither scores nor grades")
    if grades in (_TURN, _CUT_TURN):
        return ChatTurn(grades == _CUT_TURN)
    stored = json.loads(grades)
    values = tuple(map(float, stored["values"]))
    if not all(map(math.isfinite, values)):
        raise ValueError("a grade is not finite")
    places = tuple(map(int, stored.get("places", ())))
    if places and len(places) != len(values):
        raise ValueError("not every grade has a place")
    return Grades(values, tuple(map(str, stored["notes"])), places)


def checksum_of(key: bytes, outcome: Sequence[Any]) -> int:
    """Return the checksum of a key and its `OUTCOME_COLUMNS`; other types raise TypeError."""
    score_1, score_2, ranking, defaulted, grades, *costs = outcome
    try:
        numbers = _NUMBERS.pack(score_1 or 0.0, score_2 or 0.0, ranking or 0.0, defaulted, *costs)
    except struct.error as error:
        raise TypeError(str(error)) from error
    return zlib.crc32(
        b"" if grades is None else grades.encode(), zlib.crc32(numbers, zlib.crc32(key))
    )


def sound_opinion(key: bytes, outcome: Sequence[Any], checksum: int) -> Judgment | None:
    """Return the judgment in a row's `OUTCOME_COLUMNS`; None if the row is damaged."""
    try:
        return opinion_of(*outcome[:5]) if checksum_of(key, outcome) == checksum else None
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def insert_row(
    execute: Execute, table: str, values: Sequence[object], *, otherwise: str = "IGNORE"
) -> int:
    """Insert a row; where its key exists, IGNORE it or REPLACE the old one. Return the number of
    rows written.
    """
    return execute(_insertion(table, len(values), otherwise), values).rowcount


@cache
def _insertion(table: str, columns: int, otherwise: str) -> str:
    values = ", ".join("?" * columns)
    return f"INSERT OR {otherwise} INTO {table} VALUES ({values})"  # noqa: S608  (our own names)


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
    connection.row_factory = sqlite3.Row
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
        """Create the table, which only servers need."""
        self._connection = connection
        self._errors = errors
        with errors:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, until REAL, record BLOB)"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS kept_until ON kept (until)")

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
                insert_row(execute, "kept", (key, now + keep_s, record), otherwise="REPLACE")

    def drop(self, key: bytes) -> None:
        """Forget a record."""
        with self._errors:
            self._connection.execute("DELETE FROM kept WHERE key = ?", (key,))
