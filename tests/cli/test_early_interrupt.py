"""Ctrl-C while a command starts: the real process, interrupted after any of its imports."""

import random
import signal
import subprocess
import sys

import pytest
from processes import start_process

# Each imports other modules, and none gets far: there is nothing to read.
COMMANDS = (
    "--help",
    "--version",
    "score in.jsonl --offline",
    "validate in.jsonl",
    "show in.jsonl",
    "compare -p q a b --offline",
    "batch in.jsonl",
    "report in.scored.jsonl",
    "export in.scored.jsonl --to trl-dpo -o out.jsonl",
    "serve --offline --port 0",
    "rank in.jsonl",
    "eval pairs.jsonl --offline",
    "collect --seed-file in.jsonl",
    "review in.scored.jsonl",
    "demo",
    "init",
    "config",
    "trust .",
    "formats",
    "profiles",
    "guide",
    "journal in.journal.sqlite",
)
_STARTED = b"genrm_cli.cli"  # from its first import on, the program decides what a signal does
MOMENTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_during_the_imports_prints_no_traceback(genrm, command):
    """Whichever import it meets, the process ends at once, as interrupted, and says nothing of its
    inside.
    """
    rng = random.Random(command)
    for _ in range(MOMENTS):
        process = start_process(
            # Python tells each import on stderr, so that moments are counted and not timed.
            [sys.executable, "-X", "importtime", "-m", "genrm_cli", *command.split()],
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
    finished = genrm.run("score in.jsonl --offline", PYTHONPATH=f"{tmp_path}")
    assert (finished.code, finished.err.count("ignored")) == (130, 0), finished.err


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


def test_ctrl_c_after_the_last_line_prints_no_traceback(genrm, tmp_path):
    """The process ends as interrupted, and what it printed stands."""
    (tmp_path / "sitecustomize.py").write_text(_SIGNALS_AT_THE_END)
    finished = genrm.run("formats", PYTHONPATH=f"{tmp_path}")
    assert (finished.code, finished.err) == (130, "")
    assert b"nemo_gym" in finished.out
