"""What happens in a run, told in sentences and, with --log-json, in lines of JSON."""

import time
from pathlib import Path

import pytest
from genrm_process import read_lines

from genrm_cli.cli.events import Events
from genrm_cli.errors import JudgeError


def logged(path):
    """Read a log; every line must have a time and the name of an event."""
    lines = read_lines(path)
    times = [line["time"] for line in lines]
    assert times == sorted(times)
    assert abs(times[0] - time.time()) < 600
    return {line["event"]: line for line in lines}


def test_a_run_is_logged_from_plan_to_end(genrm, call_judged):
    """The log holds what was planned, what the probe found, and how the run ended; the plan is also
    said aloud.
    """
    genrm.rollouts(2, 3)
    finished = call_judged("score in.jsonl --log-json events.jsonl").ended(0)
    events = logged(genrm.folder / "events.jsonl")
    assert [*events][:4] == ["judge", "plan", "probing", "probe"]
    assert [*events][-1] == "end"
    judge = {"model": "m", "profile": "nemotron-plain", "profile_from": "default"}
    assert events["judge"] | judge == events["judge"]
    assert events["plan"] | {"planned": 6, "known": 0, "calls": 6} == events["plan"]
    assert (events["probe"]["warning"], events["end"]["error"]) == (None, None)
    assert "6 comparisons: 6 calls to make, at most 12 if comparisons fail, about " in finished.err


def test_an_outage_is_told_as_it_happens(genrm, call_judged, judge_server):
    """When the judge dies the log and the terminal tell which endpoint, why, how long it is waited
    for, and the end.
    """
    genrm.rollouts(2, 3)
    judge_server.behave(fault={"status": 500})
    score = "score in.jsonl --no-probe --give-up-after 0.2 --retries 20 --log-json events.jsonl"
    finished = call_judged(score).ended(4)
    events = logged(genrm.folder / "events.jsonl")
    assert [*events] == ["judge", "plan", "endpoint_down", "paused", "file", "end"]
    assert events["endpoint_down"]["endpoint"] == judge_server.base_url
    assert "500" in events["endpoint_down"]["detail"]
    assert events["paused"]["give_up_after_s"] == 0.2
    assert events["end"]["error"].startswith("JudgeError: no answer for 0.2 s")
    assert f"{judge_server.base_url} is marked unhealthy: HTTP 500" in finished.err
    assert "giving up unless it recovers within 0.2 s" in finished.err


def test_a_run_without_a_journal_promises_none(genrm, call_judged):
    """What continues a stopped run is said only where there is a journal."""
    genrm.rollouts(2, 3)
    limited = "score in.jsonl --no-probe --max-calls 1 --force"
    assert "verdicts in the journal are not asked again" in call_judged(limited).ended(6).err
    without = call_judged(f"{limited} --no-journal").ended(6).err
    assert "verdicts in the journal" not in without
    assert "the next run asks all again: omit --no-journal" in without


@pytest.mark.parametrize("option", ["--max-calls 0", "--max-total-tokens 0", "--deadline 0.001"])
def test_a_run_that_may_spend_nothing_asks_nothing(genrm, call_judged, judge_server, option):
    """A budget of nothing, or a deadline that is over when the input has been read, costs no call,
    not even a probe.
    """
    genrm.rollouts(2, 3)
    call_judged(f"score in.jsonl {option}").ended(6)
    assert judge_server.stats()["requests"] == 0
    metrics = genrm.metrics()
    assert (metrics["partial"], metrics["calls"]) == (True, 0)
    assert metrics["failures_by_kind"] == {"not_asked": 6}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_under_the_log_does_not_end_the_run(genrm, call):
    """When no line can be written any more, that is said once, and the verdicts are worth more than
    the log.
    """
    genrm.rollouts(1, 3)
    finished = call("score in.jsonl --offline --log-json /dev/full").ended(0)
    assert finished.err.count("--log-json /dev/full: No space left on device; no more events") == 1


@pytest.mark.parametrize("error", [JudgeError("it is gone"), KeyboardInterrupt()])
def test_the_end_names_what_ended_the_run(tmp_path, error):
    """The last line of a log is the error that ended the run, of any kind."""
    log = tmp_path / "events.jsonl"
    with pytest.raises(type(error)), Events(str(log)):
        raise error
    assert logged(log)["end"]["error"] == f"{type(error).__name__}: {error}"
