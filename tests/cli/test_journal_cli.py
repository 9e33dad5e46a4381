"""`genrm journal`: what is in a journal, and how to get rid of it."""

import asyncio
import json
import sqlite3
import time
from pathlib import Path

import pytest
from genrm_process import Call, Genrm, make_rollouts
from judge_server_fixture import JudgeServer

from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Verdict

DAY_S = 86_400


@pytest.fixture
def path(genrm: Genrm) -> Path:
    """Make a journal with two verdicts of a, an old one and a new one, one of b, and one failure."""
    path = genrm.folder / "run.journal.sqlite"
    entries = [
        (b"1", "a", Outcome(Verdict(4, 2, 2), 1, 0.5, 900, 100, 0, "The first is better.")),
        (b"2", "a", Outcome(Verdict(2, 4, 5), 3, 0.5, 900, 100, 0, "The second is better.")),
        (b"3", "b", Outcome(Verdict(3, 3, 3), 1, 0.5, 900, 100, 0, "Both are fine.")),
        (b"4", "a", Outcome(Failure(FailureKind.TIMEOUT, "no reply within 600 s"), 2)),
    ]

    async def record() -> None:
        with Journal(str(path)) as journal:
            await asyncio.gather(*(journal.record(*entry) for entry in entries))

    asyncio.run(record())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE verdicts SET answered_at = ? WHERE key = ?", (time.time() - 10 * DAY_S, b"1"))
    connection.close()
    return path


def test_stats_are_said_to_a_person(call: Call, path: Path) -> None:
    """The file's size, then a line for each judge with verdicts, calls, tokens and dates, then one for each failure."""
    finished = call("journal", "stats", path)
    assert finished.code == 0
    size, a, b, failures = finished.out.decode().splitlines()
    assert size == f"{path}: {path.stat().st_size:,} bytes"
    assert a.startswith("a: 2 answers in 4 calls, 1,800 tokens in, 200 out, 20")
    assert b.startswith("b: 1 answer in 1 call")
    assert failures == "a: 1 failure (timeout)"


def test_stats_are_told_to_programs(call: Call, path: Path) -> None:
    """With --json the same numbers are one object on stdout."""
    statistics = json.loads(call("journal", "stats", path, "--json").out)
    assert [(judge["judge"], judge["verdicts"]) for judge in statistics["judges"]] == [("a", 2), ("b", 1)]
    assert statistics["failures"] == [{"judge": "a", "kind": "timeout", "count": 1}]


def test_export_prints_one_entry_a_line(call: Call, path: Path) -> None:
    """Every verdict with its reply and every failure is a JSON line; nothing else is on stdout."""
    finished = call("journal", "export", path)
    entries = [json.loads(line) for line in finished.out.splitlines()]
    assert finished.code == 0
    assert [entry.get("reply") for entry in entries] == [
        "The first is better.",
        "The second is better.",
        "Both are fine.",
        None,
    ]
    assert entries[3]["detail"] == "no reply within 600 s"


@pytest.mark.parametrize("command", ["stats", "export"])
def test_what_is_no_journal_is_refused(call: Call, genrm: Genrm, command: str) -> None:
    """A missing file ends with 3 and is not made; a file of another kind ends with 5 and stays as it is."""
    missing = call("journal", command, "nowhere.sqlite")
    assert (missing.code, missing.out) == (3, b"")
    assert "nowhere.sqlite" in missing.err
    rollouts = genrm.write("in.jsonl", make_rollouts())
    before = rollouts.read_bytes()
    other = call("journal", command, rollouts)
    assert (other.code, other.out) == (5, b"")
    assert "in.jsonl" in other.err
    assert rollouts.read_bytes() == before
    assert genrm.names() == {"in.jsonl"}


def test_the_journal_of_a_run_can_be_looked_into(call: Call, genrm: Genrm, judge_server: JudgeServer) -> None:
    """`score` names its journal, and `stats` finds the run's judge and verdicts in it."""
    genrm.write("in.jsonl", make_rollouts(groups=2, size=3))
    scored = call("score", "in.jsonl", "--base-url", judge_server.base_url, "--model", "org/genrm", "--no-probe")
    assert scored.code == 0
    assert "in.journal.sqlite" in scored.err.replace("\n", "")
    finished = call("journal", "stats", "in.journal.sqlite")
    label = f"org/genrm · nemotron-plain-{PROFILES['nemotron-plain'].version}"
    assert f"{label}: 6 answers in 6 calls" in finished.out.decode()
