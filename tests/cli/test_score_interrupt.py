import signal
import subprocess

import pytest
from genrm_process import COMMAND
from processes import start_process
from stored_outcomes import count_verdicts

from genrm_cli.judging.journal import Journal


@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGINT,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_ctrl_c_sigterm_and_sighup_stop_with_130_and_leave_the_journal(genrm, judge_server, sent):
    """In mid-run each ends the process soon: verdicts are kept; no outputs, temporary files or
    calls are left.
    """
    judge_server.behave(
        script=[{}] * 4, fault={"hang": True}
    )  # the probe and two verdicts, then silence
    genrm.rollouts(4, 4)
    process = genrm.start("score in.jsonl --concurrency 4", *judge_server.flags)
    judge_server.wait_until(lambda stats: stats["hangs"] == 4)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    judge, plan, probing, error, done = err.decode().splitlines()
    assert probing.startswith("probing ")
    assert judge.startswith("judge: m, profile nemotron-plain (")
    assert plan.startswith("16 comparisons")
    assert done.startswith("genrm: interrupted: 1 file: 1 skipped")
    assert done.endswith("; exit 130")
    assert error.startswith("genrm: error: interrupted; incomplete outputs were not written.")
    assert genrm.names() == {"in.jsonl", "in.journal.sqlite"}
    with Journal(str(genrm.folder / "in.journal.sqlite")) as journal:
        assert count_verdicts(journal) == 2
    judge_server.wait_until(lambda stats: stats["in_flight"] == 0)


@pytest.mark.slow
def test_nohup_outlives_its_terminal(genrm, judge_server):
    """A SIGHUP that is ignored at the start stays ignored: the run ends as if none had come."""
    judge_server.behave(script=[{"latency_s": 1.0}])
    genrm.rollouts(1, 2)
    process = start_process(
        [
            *COMMAND,
            "score",
            "in.jsonl",
            *judge_server.flags,
            "--no-probe",
            "--quiet",
        ],
        ignored=[signal.SIGHUP],
        stderr=subprocess.PIPE,
        cwd=genrm.folder,
        env=genrm.environment(),
    )
    judge_server.wait_until(lambda stats: stats["requests"] >= 1)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
