"""Grades in a journal, and journals of format 1, which knew none."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from genrm_process import PACKAGE_ROOT

from genrm_cli.errors import StorageError
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.journal_file import FORMAT, connect
from genrm_cli.verdicts import Failure, FailureKind, Grades, Outcome, Verdict

GRADED = Outcome(Grades((4.25, 1.0, 5.0), ("good", "Ünïcode 🎲", "")), 2, 1.5, 900, 120, 64, '{"scores": {}}')
FAILED = Outcome(Failure(FailureKind.AMBIGUOUS, "two"), attempts=4)

# The file as genrm wrote it before judges could grade.
FORMAT_1 = """
CREATE TABLE verdicts (
    key BLOB PRIMARY KEY, judge TEXT NOT NULL, score_1 REAL NOT NULL, score_2 REAL NOT NULL, ranking REAL NOT NULL,
    defaulted INTEGER NOT NULL,
    attempts INTEGER NOT NULL, latency_s REAL NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, answered_at REAL NOT NULL, reply BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE failures (
    key BLOB PRIMARY KEY, judge TEXT NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL, attempts INTEGER NOT NULL,
    failed_at REAL NOT NULL
) WITHOUT ROWID;
PRAGMA application_id = 0x67656E72;
PRAGMA user_version = 1;
"""
VERDICTS = 300


def key(number: int) -> bytes:
    """Make up the key of a question."""
    return number.to_bytes(32, "big")


def write_format_1(path: Path) -> None:
    """Write a journal of format 1 with verdicts and a failure."""
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode = WAL;" + FORMAT_1)
    pack = zstandard.ZstdCompressor().compress
    rows = [
        (key(n), "m · nemotron-1", 4.5, 1.0, 2.0, n % 2, 3, 0.25, 900, 120, 64, 1e9 + n, pack(f"reply {n}".encode()))
        for n in range(VERDICTS)
    ]
    connection.executemany(f"INSERT INTO verdicts VALUES ({', '.join('?' * 13)})", rows)
    connection.execute("INSERT INTO failures VALUES (?, 'm · nemotron-1', 'http', 'HTTP 500', 6, 1e9)", (key(10**6),))
    connection.commit()
    connection.close()


def record(journal: Journal, entries: dict[bytes, Outcome]) -> list[Outcome]:
    """Record outcomes; return those that count."""

    async def record_all() -> list[Outcome]:
        return await asyncio.gather(*(journal.record(key, "m", replace(each)) for key, each in entries.items()))

    return asyncio.run(record_all())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name a journal that does not exist yet."""
    return tmp_path / "run.journal.sqlite"


def test_grades_come_back_as_they_were(path: Path) -> None:
    """Values, notes, cost and reply survive closing; the first grades on a question count for all."""
    with Journal(str(path)) as journal:
        record(journal, {key(1): GRADED, key(2): FAILED})
        (counted,) = record(journal, {key(1): replace(GRADED, result=Grades((1.0, 1.0, 1.0)))})
        assert counted.result == GRADED.result
    with Journal(str(path)) as journal:
        known = journal.recall(key(1), with_reply=True)
        assert known == replace(GRADED, from_journal=True)
        assert isinstance(known.result, Grades)
        assert known.result.notes == ("good", "Ünïcode 🎲", "")
        assert (len(journal), journal.has_failed(key(2))) == (1, True)
        record(journal, {key(2): GRADED})
        assert not journal.has_failed(key(2))


def test_grades_travel_between_journals(path: Path, tmp_path: Path) -> None:
    """Entries exported as JSON can be imported into another journal without change."""
    with Journal(str(path)) as journal, Journal(str(tmp_path / "other.sqlite")) as other:
        record(journal, {key(1): GRADED, key(2): Outcome(Verdict(4, 2, 2)), key(3): FAILED})
        entries = [json.loads(json.dumps(entry)) for entry in journal.iter_entries()]
        other.take_in(entries)
        assert other.recall(key(1), with_reply=True) == replace(GRADED, from_journal=True)
        assert (len(other), list(other.iter_uncopied())) == (2, [])
        assert [dict(entry) for entry in other.iter_entries()] == entries


@pytest.mark.parametrize(
    "grades",
    [
        "",
        "[]",
        "7",
        '{"values": [4]}',
        '{"values": 4, "notes": []}',
        '{"values": ["high"], "notes": []}',
        '{"values": [null], "notes": []}',
        '{"values": [NaN], "notes": []}',
        '{"values": [Infinity], "notes": []}',
        "[" * 100_000,
        7,
        ["4"],
    ],
)
def test_grades_that_are_none_are_refused(path: Path, tmp_path: Path, grades: Any) -> None:
    """Invalid grades in a copy are an error that names the copy, and nothing of it is stored."""
    with Journal(str(path)) as journal, Journal(str(tmp_path / "other.sqlite")) as other:
        record(journal, {key(1): GRADED, key(2): GRADED})
        entries = list(journal.iter_entries())
        entries[1]["grades"] = grades
        with pytest.raises(StorageError, match="contains an invalid journal entry"):
            other.take_in(entries, "s3://b/rl/j/0001")
        assert len(other) == 0


def test_a_verdict_without_numbers_is_refused(path: Path, tmp_path: Path) -> None:
    """Where there are no grades there must be scores."""
    with Journal(str(path)) as journal, Journal(str(tmp_path / "other.sqlite")) as other:
        record(journal, {key(1): GRADED})
        (entry,) = journal.iter_entries()
        with pytest.raises(StorageError, match="contains an invalid journal entry"):
            other.take_in([entry | {"grades": None}])


def test_a_journal_of_format_1_is_brought_to_ours_with_all_it_holds(path: Path) -> None:
    """Verdicts, replies, costs and failures are what they were; grades can be added; the file is of our format then."""
    write_format_1(path)
    with Journal(str(path)) as journal:
        assert len(journal) == VERDICTS
        for n in (0, 1, VERDICTS - 1):
            known = journal.recall(key(n), with_reply=True)
            assert known == Outcome(Verdict(4.5, 1, 2), 3, 0.25, 900, 120, 64, f"reply {n}", from_journal=True)
            assert isinstance(known.result, Verdict)
            assert known.result.defaulted == bool(n % 2)
        assert journal.has_failed(key(10**6))
        assert journal.statistics()["judges"][0]["first_at"] == 1e9
        record(journal, {key(VERDICTS): GRADED, key(10**6): GRADED})
        assert not journal.has_failed(key(10**6))
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert names == {"verdicts", "failures", "claims"}
    with Journal(str(path)) as journal:
        assert len(journal) == VERDICTS + 2


def test_a_journal_of_format_1_is_read_without_being_changed(path: Path) -> None:
    """Opened for reading, it tells what it holds and keeps its format."""
    write_format_1(path)
    before = path.read_bytes()
    with Journal(str(path), read_only=True) as journal:
        assert journal.recall(key(1), with_reply=True) is not None
        assert len(list(journal.iter_entries())) == VERDICTS + 1
        assert journal.statistics()["damaged_verdicts"] == 0
    assert path.read_bytes() == before


def test_a_journal_of_format_2_gets_checksums_for_what_is_new(path: Path) -> None:
    """Its verdicts and grades stay as they are, and changed numbers are noticed in new rows."""
    with Journal(str(path)) as journal:
        record(journal, {key(1): GRADED, key(2): Outcome(Verdict(4, 2, 2))})
        before = list(journal.iter_entries())
    connection = sqlite3.connect(path)
    connection.executescript("ALTER TABLE verdicts DROP COLUMN checksum; DROP TABLE claims; PRAGMA user_version = 2")
    connection.close()
    with Journal(str(path)) as journal:
        assert list(journal.iter_entries()) == [entry | {"checksum": None} for entry in before]
        record(journal, {key(3): GRADED})
        assert [entry["checksum"] is None for entry in journal.iter_entries()] == [True, True, False]


def test_a_copy_of_format_1_is_taken_in(path: Path, tmp_path: Path) -> None:
    """Its entries have no field for grades."""
    write_format_1(path)
    with Journal(str(path)) as journal, Journal(str(tmp_path / "other.sqlite")) as other:
        other.take_in(
            {name: value for name, value in one.items() if name != "grades"} for one in journal.iter_entries()
        )
        assert (len(other), other.recall(key(7))) == (VERDICTS, journal.recall(key(7)))


OPEN = """
import sys
from genrm_cli.judging.journal import Journal
print("ready", flush=True)
sys.stdin.readline()
with Journal(sys.argv[1]) as journal:
    print(len(journal))
"""


def test_processes_that_open_a_journal_of_format_1_at_once_all_get_it(path: Path) -> None:
    """One process converts the file and the others wait; no entry is lost or duplicated."""
    write_format_1(path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(PACKAGE_ROOT)},
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outs = [process.communicate(timeout=30)[0] for process in processes]
    assert outs == [f"{VERDICTS}\n"] * 4
    assert [process.returncode for process in processes] == [0] * 4


def test_a_conversion_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    """A file whose entries violate the new schema keeps format 1 and all entries."""
    write_format_1(path)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE verdicts_of_format_1 (x)")
    connection.commit()
    before = list(connection.iterdump())
    connection.close()
    with pytest.raises(StorageError, match="its contents are unchanged"):
        Journal(str(path))
    connection = sqlite3.connect(path)
    assert list(connection.iterdump()) == before
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


def test_runs_that_make_a_journal_at_the_same_moment_wait_for_each_other(tmp_path: Path) -> None:
    """SQLite ignores its busy timeout when two connections switch to the write-ahead log together."""

    def open_and_close(path: Path) -> None:
        connect(str(path)).close()

    with ThreadPoolExecutor(4) as pool:
        for number in range(40):
            opened = [pool.submit(open_and_close, tmp_path / f"{number}.sqlite") for _ in range(4)]
            for each in opened:
                each.result()
