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
    genrm.rollouts(GROUPS, SIZE)
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
    report = genrm.run("report --json", name).ended(0)
    [run] = json.loads(report.out)["runs"]
    said = f"{JUDGED} of {PLANNED} comparisons are judged (56.2 %)"
    assert said in run["so_far"]
    assert said in report.err
    assert said in genrm.text("in.report.html")
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
    [run] = json.loads(genrm.run("report", name, "--json", "--force").ended(0).out)["runs"]
    assert run["so_far"] is None
    assert run["account"]["answered"] == PLANNED


@pytest.mark.slow
def test_another_machine_sees_what_was_copied_to_s3(genrm, judge_server, s3_bucket, aws):
    """A journal on S3 is enough, on a machine that has never seen the run."""
    judge_server.behave(script=[{}] * JUDGED, fault={"hang": True})
    uri = f"s3://{s3_bucket.name}/rl/in.jsonl"
    lines = "".join(json.dumps(each) + "\n" for each in make_rollouts(groups=GROUPS, size=SIZE))
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="rl/in.jsonl", Body=lines.encode())
    journal = ("--journal", f"s3://{s3_bucket.name}/rl/journal", "--segment-calls", 1)
    flags = ("--concurrency", 4, "--no-probe", *journal, *judge_server.flags)
    process = genrm.start("score", uri, *flags, **aws)
    try:
        judge_server.wait_until(lambda stats: stats["hangs"] >= 1)
        elsewhere = aws | {"XDG_STATE_HOME": str(genrm.folder / "elsewhere")}
        output = f"s3://{s3_bucket.name}/rl/in.scored.jsonl"
        page = ("report", output, "-o", "page.html", "--json", "--force", *journal[:2])
        report = genrm.run(*page, **elsewhere).ended(0)
        [run] = json.loads(report.out)["runs"]
        # With one verdict a segment, calls wait for the copies of those before.
        assert JUDGED - 4 <= run["account"]["answered"] <= JUDGED
        assert run["account"]["comparisons"] == PLANNED
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.slow
def test_a_killed_shard_has_a_page_too(genrm, judge_server):
    """What every shard recorded is on it, whether the name is that of the output or of one journal;
    no output may be written over the input.
    """
    judge_server.behave()
    genrm.rollouts(GROUPS, SIZE)
    genrm.run("score in.jsonl --no-probe --shard 0/2", *judge_server.flags).ended(0)
    for name in ("in.scored.jsonl", "in.shard-0-of-2.journal.sqlite"):
        report = genrm.run("report --json --force", name).ended(0)
        [run] = json.loads(report.out)["runs"]
        assert 0 < run["account"]["answered"] < PLANNED
        assert run["account"]["comparisons"] == PLANNED
    refused = genrm.run("report in.scored.jsonl --force -o in.jsonl").ended(2)
    assert "is an input" in refused.err
