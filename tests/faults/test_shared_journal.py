"""Runs on one journal: they share the work, and a killed one holds up nobody."""

import signal

import pytest
from genrm_process import Genrm, make_rollouts, read_lines

GROUPS = 40
PLANNED = 240
IN_FLIGHT = 8


def start(genrm, server, number):
    """Start a run on the common input and journal with an output of its own."""
    where = (
        "in.jsonl",
        "-o",
        f"{number}.jsonl",
        "--journal",
        "j.sqlite",
        "--no-probe",
        "--strategy",
        "all_pairs",
    )
    return genrm.start("score", *where, *server.flags, "--concurrency", IN_FLIGHT)


@pytest.fixture
def genrm(tmp_path):
    """Give a test the command and a folder with an input."""
    (tmp_path / "work").mkdir()
    genrm = Genrm(tmp_path / "work")
    genrm.write("in.jsonl", make_rollouts(groups=GROUPS))
    return genrm


def rewards(path):
    """Read the rewards of an output."""
    return [line["reward"] for line in read_lines(path)]


@pytest.mark.parametrize("runs", [2, 4])
def test_runs_at_the_same_time_ask_nothing_twice(genrm, judge_server, runs):
    """Of all questions at most 5 % are asked twice, whatever the number of runs, and all rewards
    are alike.
    """
    judge_server.behave(latency_s=0.1)
    processes = [start(genrm, judge_server, number) for number in range(runs)]
    assert [process.communicate(timeout=100) and process.returncode for process in processes] == [
        0
    ] * runs
    stats = judge_server.stats()
    assert stats["distinct_answered"] == PLANNED
    assert stats["requests"] <= 1.05 * PLANNED
    first, *others = (rewards(genrm.folder / f"{number}.jsonl") for number in range(runs))
    assert others == [first] * (runs - 1)


def test_a_killed_run_holds_up_nobody(genrm, judge_server):
    """When one of two runs is killed, the other asks what that one was asking, once, and
    finishes.
    """
    judge_server.behave(latency_s=0.1)
    killed = start(genrm, judge_server, 0)
    other = start(genrm, judge_server, 1)
    judge_server.wait_until(lambda stats: stats["requests"] >= PLANNED // 2, limit_s=60)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert other.communicate(timeout=100)
    assert other.returncode == 0
    stats = judge_server.stats()
    assert stats["distinct_answered"] == PLANNED
    assert stats["requests"] <= PLANNED + IN_FLIGHT
    assert None not in rewards(genrm.folder / "1.jsonl")
