import json
import os
import pty
import subprocess
from collections import Counter
from typing import NamedTuple

import pytest
from genrm_process import COMMAND
from processes import start_process

from genrm_cli.cli.console import ProgressEvent, progress_text
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.running_stats import Latencies


class Pace(NamedTuple):
    """How hard a judge is being asked."""

    in_flight: int
    limit: int
    latencies: Latencies


def busy():
    """Return the progress of a run with a real judge, a quarter of which is done."""
    latencies = Latencies()
    for tenths in range(1, 101):
        latencies.add(tenths / 10)
    counts = {
        "comparisons_planned": 400,
        "verdicts": 90,
        "groups": 50,
        "groups_done": 12,
        "calls": 120,
        "retries": 20,
    }
    failures = Counter(timeout=8, empty=2)
    return RunMetrics(**counts, prompt_tokens=9_000, failures_by_kind=failures), Pace(
        30, 64, latencies
    )


def test_progress_tells_calls_latency_retries_failures_and_time_left():
    """A quarter done in a minute leaves three; rates are of calls and tokens, failures go by
    kind.
    """
    text = progress_text(*busy(), 60.0)
    for part in (
        "comparisons 100/400",
        "groups 12/50",
        "30/64 in flight",
        "2.0 calls/s",
        "150 tokens/s",
        "20 retries",
        "10 failures (8 timeout, 2 empty)",
        "3:00 left",
    ):
        assert part in text
    assert "reused" not in text


def test_progress_for_a_log_is_plain_json():
    """A log gets the same numbers by name, also before there is a judge."""
    progress = RunProgress()
    assert ProgressEvent(progress.now(), 1.0, 0).as_dict()["calls"] == 0
    metrics, _ = busy()
    fields = ProgressEvent(metrics, 61.2, 30).as_dict()
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    assert fields["in_flight"] == 30
    assert fields["retries"] == 20
    assert fields["elapsed_s"] == 61.2
    assert fields["failures"] == 10


@pytest.mark.slow
def test_a_terminal_gets_a_live_line_and_stdout_stays_clean(genrm, judge_server):
    """With stderr on a terminal progress moves there; stdout holds the scored lines and nothing
    else.
    """
    judge_server.behave(latency_s=0.4)
    genrm.rollouts(1, 4)
    arguments = (
        "score",
        "in.jsonl",
        *judge_server.flags,
        "--no-probe",
    )
    ours, theirs = pty.openpty()
    environment = genrm.environment(TERM="xterm-256color", COLUMNS="150")
    command = [
        *COMMAND,
        *arguments,
        "--concurrency",
        "2",
        "-o",
        "-",
    ]
    process = start_process(
        command,
        stdout=subprocess.PIPE,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        cwd=genrm.folder,
        env=environment,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the terminal's other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"comparisons 0/4" in shown
    assert b"Traceback" not in shown
    assert b"\x1b" not in out
    assert len(out.splitlines()) == 4
