"""Runs on one journal: one at a time, and a killed one holds up nobody."""

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


def test_a_second_run_is_refused_and_a_killed_one_holds_up_nobody(genrm, judge_server):
    """While a run records in a journal, another ends with code 5 and names it; once the first is
    killed, the next asks only what was not recorded.
    """
    judge_server.behave(latency_s=0.1)
    first = start(genrm, judge_server, 0)
    judge_server.wait_until(lambda stats: stats["requests"] >= PLANNED // 2, limit_s=60)
    judge_server.behave(latency_s=5.0)  # so the first has not ended when the second begins
    second = start(genrm, judge_server, 1)
    _, said = second.communicate(timeout=100)
    assert second.returncode == 5
    assert f"process {first.pid} on " in said.decode()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    judge_server.behave()
    third = start(genrm, judge_server, 1)
    third.communicate(timeout=100)
    assert third.returncode == 0
    stats = judge_server.stats()
    assert stats["distinct_answered"] == PLANNED
    assert stats["requests"] <= PLANNED + IN_FLIGHT
    assert None not in [line["reward"] for line in read_lines(genrm.folder / "1.jsonl")]
