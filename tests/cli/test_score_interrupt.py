"""Signals in the middle of a run, and while a command starts or ends."""

import random
import signal
import subprocess
import sys

import pytest
from genrm_process import COMMAND
from processes import start_process
from stored_outcomes import count_verdicts
from tried_commands import TRIED

from genrm_cli.judging.journal import Journal


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_sigterm_and_sighup_stop_with_130_and_leave_the_journal(genrm, judge_server, sent):
    """In mid-run each ends the process soon: verdicts are kept; no outputs, temporary files or
    calls are left.
    """
    # The probe and two verdicts, then silence.
    judge_server.behave(script=[{}] * 4, fault={"hang": True})
    genrm.rollouts(4, 4)
    process = genrm.start("score in.jsonl --concurrency 4", *judge_server.flags)
    judge_server.wait_until(lambda stats: stats["hangs"] == 4)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    judge, plan, probing, error, done = err.decode().splitlines()
    assert judge.startswith("judge: m, profile nemotron-plain (")
    assert plan.startswith("16 comparisons")
    assert probing.startswith("probing ")
    assert error.startswith("genrm: error: interrupted; incomplete outputs were not written.")
    assert done.startswith("genrm: interrupted: 1 file: 1 skipped")
    assert done.endswith("; exit 130")
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
        [*COMMAND, "score", "in.jsonl", *judge_server.flags, "--no-probe", "--quiet"],
        ignored=[signal.SIGHUP],
        stderr=subprocess.PIPE,
        cwd=genrm.folder,
        env=genrm.environment(),
    )
    judge_server.wait_until(lambda stats: stats["requests"] >= 1)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()


_STARTED = b"genrm_cli.cli"  # from its first import on, the program decides what a signal does


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "--version", *TRIED])
def test_ctrl_c_during_the_imports_prints_no_traceback(genrm, command):
    """Whichever import it meets, the process ends at once, as interrupted, and says nothing of its
    inside. Each command imports other modules, and none gets far: there is nothing to read.
    """
    rng = random.Random(command)
    words = [command, *TRIED.get(command, [""])[0].split()]
    for _ in range(4):
        process = start_process(
            # Python tells each import on stderr, so that moments are counted and not timed.
            [sys.executable, "-X", "importtime", "-m", "genrm_cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=genrm.folder,
            env=genrm.environment(),
        )
        left = rng.randrange(600)
        is_ours = False
        for line in process.stderr:
            is_ours = is_ours or _STARTED in line
            left -= is_ours
            if left < 0:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        told = [line for line in err.splitlines() if not line.startswith(b"import time:")]
        assert b"Traceback" not in err, told
        assert b"a bug" not in err, told
        if left < 0:
            assert process.returncode in (-signal.SIGINT, 130, 0, 2, 3), told


# When this module is looked for, the signal comes in the callback of a weak reference.
_SIGNALS_IN_A_CALLBACK = """
import signal, sys, weakref

class Looked:
    def find_spec(self, name, path=None, target=None):
        if name == "genrm_cli.cli.scoring.score":
            self.gone = Looked()
            seen = weakref.ref(self.gone, lambda _: signal.raise_signal(signal.SIGINT))
            del self.gone

sys.meta_path.insert(0, Looked())
"""


def test_ctrl_c_that_python_drops_is_raised_again(genrm, tmp_path):
    """What raises in the callback of a weak reference is ignored, and the interruption with it."""
    (tmp_path / "sitecustomize.py").write_text(_SIGNALS_IN_A_CALLBACK)
    genrm.rollouts(1, 2)
    process = genrm.start("score in.jsonl --offline", PYTHONPATH=f"{tmp_path}")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.count(b"ignored")) == (130, 0), err


# The signal comes when the program has ended its work and leaves signals to the system again.
_SIGNALS_AT_THE_END = """
import signal, sys

set_handler = signal.signal

def interrupted(number, handler):
    if handler is signal.SIG_DFL and "genrm_cli.cli.app" in sys.modules:
        signal.signal = set_handler
        signal.raise_signal(signal.SIGINT)
    return set_handler(number, handler)

signal.signal = interrupted
"""


@pytest.mark.slow
def test_ctrl_c_after_the_last_line_prints_no_traceback(genrm, tmp_path):
    """The process ends as interrupted, and what it printed stands."""
    (tmp_path / "sitecustomize.py").write_text(_SIGNALS_AT_THE_END)
    process = genrm.start("formats", PYTHONPATH=f"{tmp_path}")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert b"nemo_gym" in out
