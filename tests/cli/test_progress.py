import json
import os
import pty
import subprocess
from collections import Counter
from types import SimpleNamespace

import pytest
from genrm_process import COMMAND
from processes import start_process
from terminals import iter_received

from genrm_cli.cli.console import ProgressEvent, progress_text
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.running_stats import Latencies

# A run with a real judge, a quarter of which is done.
BUSY = RunMetrics(
    comparisons_planned=400,
    verdicts=90,
    groups=50,
    groups_done=12,
    calls=120,
    retries=20,
    prompt_tokens=9_000,
    failures_by_kind=Counter(timeout=8, empty=2),
)


def test_progress_tells_calls_latency_retries_failures_and_time_left():
    """A quarter done in a minute leaves three; rates are of calls and tokens, failures go by
    kind.
    """
    pace = SimpleNamespace(in_flight=30, limit=64, latencies=Latencies())
    for tenths in range(1, 101):
        pace.latencies.add(tenths / 10)
    text = progress_text(BUSY, pace, 60.0)
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
    assert ProgressEvent(RunProgress().now(), 1.0, 0).as_dict()["calls"] == 0
    fields = ProgressEvent(BUSY, 61.2, 30).as_dict()
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    numbers = {"in_flight": 30, "retries": 20, "elapsed_s": 61.2, "failures": 10}
    assert fields | numbers == fields


@pytest.mark.slow
def test_a_terminal_gets_a_live_line_and_stdout_stays_clean(genrm, judge_server):
    """With stderr on a terminal progress moves there; stdout holds the scored lines and nothing
    else.
    """
    judge_server.behave(latency_s=0.4)
    genrm.rollouts(1, 4)
    words = ["score", "in.jsonl", "--no-probe", "--concurrency", "2", "-o", "-"]
    ours, theirs = pty.openpty()
    process = start_process(
        [*COMMAND, *words, *judge_server.flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=genrm.folder,
        env=genrm.environment(TERM="xterm-256color", COLUMNS="150"),
    )
    os.close(theirs)
    shown = b"".join(iter_received(ours))
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"comparisons 0/4" in shown
    assert b"Traceback" not in shown
    assert b"\x1b" not in out
    assert len(out.splitlines()) == 4
