"""`genrm journal`: what is in a journal."""

import asyncio
import json

import pytest

from genrm_cli.judging.journal import Journal
from genrm_cli.verdicts import Failure, FailureKind, Outcome, Verdict


@pytest.fixture
def path(genrm):
    """Make a journal with two verdicts of a, one of b, and one failure."""
    path = genrm.folder / "run.journal.sqlite"
    entries = [
        (b"1", "a", Outcome(Verdict(4, 2, 2), 1, 0.5, 900, 100, "The first is better.")),
        (b"2", "a", Outcome(Verdict(2, 4, 5), 3, 0.5, 900, 100, "The second is better.")),
        (b"3", "b", Outcome(Verdict(3, 3, 3), 1, 0.5, 900, 100, "Both are fine.")),
        (b"4", "a", Outcome(Failure(FailureKind.TIMEOUT, "no reply within 600 s"), 2)),
    ]

    async def record():
        with Journal(str(path)) as journal:
            await asyncio.gather(*(journal.record(*entry) for entry in entries))

    asyncio.run(record())
    return path


def test_export_prints_one_entry_a_line(call, path):
    """Every verdict with its reply and every failure is a JSON line; nothing else is on stdout."""
    finished = call("journal", path)
    entries = [json.loads(line) for line in finished.out.splitlines()]
    assert finished.code == 0
    assert [entry.get("reply") for entry in entries] == [
        "The first is better.",
        "The second is better.",
        "Both are fine.",
        None,
    ]
    assert entries[3]["body"]["failure"]["detail"] == "no reply within 600 s"


def test_what_is_no_journal_is_refused(call, genrm):
    """A missing file ends with 3 and is not made; a file of another kind ends with 5 and stays as
    it is.
    """
    missing = call("journal nowhere.sqlite").ended(3)
    assert missing.out == b""
    assert "nowhere.sqlite" in missing.err
    rollouts = genrm.rollouts()
    before = rollouts.read_bytes()
    other = call("journal", rollouts).ended(5)
    assert other.out == b""
    assert "in.jsonl" in other.err
    assert rollouts.read_bytes() == before
    assert genrm.names() == {"in.jsonl"}
