"""`genrm report` on a run that has not ended."""

import json
import signal

import pytest
from genrm_process import make_rollouts
from judge_server_fixture import JudgeServer

GROUPS = 4
SIZE = 4
PLANNED = GROUPS * SIZE  # one ring
JUDGED = 9


@pytest.fixture
def running(genrm, judge_server: JudgeServer):
    """Start a run whose judge answers nine comparisons and is then silent."""
    judge_server.behave(script=[{}] * JUDGED, fault={"hang": True})
    genrm.write("in.jsonl", make_rollouts(groups=GROUPS, size=SIZE))
    process = genrm.start("score in.jsonl --concurrency 4 --no-probe", *judge_server.flags)
    judge_server.wait_until(lambda stats: stats["hangs"] == 4)
    yield process
    process.kill()
    process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in.journal.sqlite", "in.scored.jsonl"])
def test_a_running_job_has_a_page(genrm, judge_server, running, name):
    """Its journal, or the output that it will write, makes the page; no call is made, and the run
    goes on.
    """
    asked = judge_server.stats()["requests"]
    report = genrm.run("report", name, "--json").ended(0)
    [run] = json.loads(report.out)["runs"]
    said = f"{JUDGED} of {PLANNED} comparisons are judged (56.2 %)"
    assert said in run["so_far"]
    assert said in report.err
    assert said in (genrm.folder / "in.report.html").read_text(encoding="utf-8")
    account = run["account"]
    assert (account["answered"], account["not_asked"]) == (JUDGED, PLANNED - JUDGED)
    assert (run["groups"], run["rollouts"], run["weight"]) == (GROUPS, GROUPS * SIZE, "no")
    assert judge_server.stats()["requests"] == asked
    assert running.poll() is None
    assert "in.scored.jsonl" not in genrm.names()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    judge_server.behave()
    done = genrm.run("score in.jsonl --no-probe", *judge_server.flags).ended(0)
    assert f"{JUDGED} reused" in done.err
