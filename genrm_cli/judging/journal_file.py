"""The SQLite file of a journal: schema, rows, opening and migration."""

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import zstandard

from genrm_cli.errors import StorageError
from genrm_cli.verdicts import Grades, Judgment, Verdict

FORMAT = 2
_APPLICATION_ID = 0x67656E72  # tells our files from other SQLite files
_BUSY_TIMEOUT_S = 30.0
_CACHE_KIB = 8 << 10  # keys are hashes, so recalls jump about: SQLite's default of 2 MB costs a third more time
_SWITCH_PAUSE_S = 0.02
Execute = Callable[..., sqlite3.Cursor]

_SCHEMA = """
CREATE TABLE verdicts (
    key BLOB PRIMARY KEY, judge TEXT NOT NULL, score_1 REAL, score_2 REAL, ranking REAL, defaulted INTEGER NOT NULL,
    attempts INTEGER NOT NULL, latency_s REAL NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, answered_at REAL NOT NULL, reply BLOB NOT NULL,
    grades TEXT, CHECK (grades IS NOT NULL OR (score_1 + score_2 + ranking) IS NOT NULL)
) WITHOUT ROWID;
CREATE TABLE failures (
    key BLOB PRIMARY KEY, judge TEXT NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL, attempts INTEGER NOT NULL,
    failed_at REAL NOT NULL
) WITHOUT ROWID;
"""
# Format 1 had no grades.
_FROM_FORMAT_1 = f"""
ALTER TABLE verdicts RENAME TO verdicts_of_format_1;
{_SCHEMA.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")}
INSERT INTO verdicts SELECT *, NULL FROM verdicts_of_format_1;
DROP TABLE verdicts_of_format_1;
"""  # noqa: S608  (our own names)
VERDICT_COLUMNS = (
    "key", "judge", "score_1", "score_2", "ranking", "defaulted", "attempts", "latency_s", "prompt_tokens",
    "completion_tokens", "cached_tokens", "answered_at", "reply", "grades",
)  # fmt: skip
FAILURE_COLUMNS = ("key", "judge", "kind", "detail", "attempts", "failed_at")
_TEXT_COLUMNS = ("key", "judge", "reply", "kind", "detail", "grades")
_VERDICT_ONLY, _GRADES_ONLY = ("score_1", "score_2", "ranking"), ("grades",)
_TOO_LARGE = 2**63  # for an integer of SQLite


class JournalErrors:
    """Context that turns errors of SQLite and zstandard into a `StorageError` with a remedy."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Do nothing: a plain class, as a generator would cost a tenth of a recall."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.OperationalError):
            remedy = "check that it is a file in an existing folder with free disk space; its contents are unchanged"
            if "locked" in str(error) or "busy" in str(error):
                remedy = "another process holds it; wait for it, or give this run its own with --journal"
            raise StorageError(f"journal {self._path}: {error}; {remedy}.") from error
        if isinstance(error, sqlite3.DatabaseError | zstandard.ZstdError):
            raise StorageError(
                f"journal {self._path}: {error}. It is damaged or not a journal; nothing in it was changed. "
                "Move it away, or name another one with --journal."
            ) from error


def parse_row(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the checked row of an entry, its reply still text; SQLite itself would store any type in any column."""
    if not isinstance(entry, dict):
        raise TypeError(f"{entry!r:.40}")
    columns = VERDICT_COLUMNS if "reply" in entry else FAILURE_COLUMNS
    row: dict[str, Any] = {name: entry.get(name) for name in columns}
    absent = _GRADES_ONLY if row.get("grades") is None else _VERDICT_ONLY
    for name, value in row.items():
        if name in absent and value is None:
            continue
        wanted = str if name in _TEXT_COLUMNS else (int, float)
        if not isinstance(value, wanted) or (not isinstance(value, str) and abs(value) >= _TOO_LARGE):
            raise TypeError(f"{name} is {value!r:.40}")
    if row.get("grades") is not None:
        opinion_of(0, 0, 0, 0, row["grades"])
    return row | {"key": bytes.fromhex(row["key"])}


def columns_of(opinion: Judgment) -> tuple[float | None, float | None, float | None, bool, str | None]:
    """Return the columns of a judgment: three numbers, whether they are defaults, and grades as JSON."""
    if isinstance(opinion, Verdict):
        return opinion.score_1, opinion.score_2, opinion.ranking, opinion.defaulted, None
    return None, None, None, False, json.dumps({"values": opinion.values, "notes": opinion.notes})


def opinion_of(score_1: float, score_2: float, ranking: float, defaulted: int, grades: str | None) -> Judgment:
    """Return the judgment stored in these columns; invalid grades raise ValueError, KeyError or TypeError."""
    if grades is None:
        return Verdict(score_1, score_2, ranking, bool(defaulted))
    stored = json.loads(grades, parse_constant=_refuse_constant)
    return Grades(tuple(map(float, stored["values"])), tuple(map(str, stored["notes"])))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a grade")


def insert_row(execute: Execute, table: str, values: Sequence[object]) -> int:
    """Insert a row unless its key exists; return the number of rows inserted."""
    places = ", ".join("?" * len(values))
    return execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", values).rowcount  # noqa: S608  (our own names)


def connect(path: str) -> sqlite3.Connection:
    """Open the file of a journal, creating it if needed; threads may use the connection in turns.

    A file that is not SQLite raises `sqlite3.Error`; one that is not a journal of this format, `StorageError`.
    """
    if not Path(path).parent.is_dir():
        raise sqlite3.OperationalError("its folder does not exist")
    with contextlib.suppress(OSError):  # SQLite explains what it cannot open
        # It holds the judge's replies. SQLite would let others read it, and gives its side files the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Check the format of the file, or create the tables if it is empty."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application != _APPLICATION_ID:
        raise StorageError(f"{path} is an SQLite file but not a genrm journal; name another one with --journal.")
    if tables and version not in (1, FORMAT):
        raise StorageError(
            f"journal {path} has format {version}, this genrm reads format {FORMAT}. Use the genrm that wrote it, "
            "or name another journal with --journal."
        )
    if version == 1:
        _migrate(connection)
    # WAL: readers and the writer do not wait for each other, and a killed process loses no commit.
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    if not tables:
        connection.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA.replace('CREATE TABLE', 'CREATE TABLE IF NOT EXISTS')}"
            f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
        )


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log, and wait for processes that open it at the same time.

    SQLite refuses the switch while another process reads, ignoring the busy timeout, to avoid a deadlock.
    """
    gives_up_at_s = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > gives_up_at_s:
                raise
            time.sleep(_SWITCH_PAUSE_S)
        else:
            return


def _migrate(connection: sqlite3.Connection) -> None:
    """Migrate a file from format 1; another process may do so at the same time."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] == 1:
            for statement in filter(str.strip, _FROM_FORMAT_1.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
