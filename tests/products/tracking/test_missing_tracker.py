"""Trackers that are not installed, fail, or hang."""

import sys
import threading
from types import SimpleNamespace

import pytest
from genrm_process import PACKAGE_ROOT, make_rollouts
from served import serving

from genrm_cli.products.tracking.log_run import RunLog, TrackedRun, TrackerFailedEvent


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_library_ends_the_run_before_any_call(
    genrm, call, judge_server, name, monkeypatch
):
    """The exit code is 2, the error names the extra to install, and the judge is not asked."""
    monkeypatch.setitem(sys.modules, name, None)
    genrm.write("in.jsonl", make_rollouts())
    finished = call("score", "in.jsonl", *judge_server.flags, f"--{name}", "x")
    assert finished.code == 2
    assert "in.scored.jsonl" not in genrm.names()
    assert f"pip install '.[{name}]'" in finished.err
    assert judge_server.stats()["requests"] == 0


def test_a_tracker_that_fails_is_a_warning(genrm, call, monkeypatch):
    """The rewards are written and the exit code stays 0, for any error of a client."""

    def init(**_):
        raise OSError("disk full")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Settings=dict, init=init))
    genrm.write("in.jsonl", make_rollouts())
    finished = call("score", "in.jsonl", "--offline", "--wandb", "x")
    assert finished.code == 0
    assert "in.scored.jsonl" in genrm.names()
    assert "genrm: warning: --wandb: not logged: OSError: disk full\n" in finished.err


def test_a_tracker_that_hangs_delays_nobody():
    """Steps are taken while it hangs; the end says that it did not end."""
    events = []
    hangs = threading.Event()
    steps = RunLog({"wandb": lambda run: (lambda each: hangs.wait(), list)}, events.append)
    for step in range(2_000):
        steps.log(TrackedRun("serve", {}, {}, step))
    steps.close(within_s=0.01)
    hangs.set()
    steps.close()  # its thread ends with the test
    assert [type(event) for event in events] == [TrackerFailedEvent]


def test_what_others_print_while_a_tracker_logs_stays_on_stdout(capsys):
    """A tracker works in a thread of its own, and the standard output belongs to all threads."""
    logs, printed = threading.Event(), threading.Event()

    def log(_):
        logs.set()
        printed.wait()

    steps = RunLog({"mlflow": lambda run: (log, list)}, [].append)
    steps.log(TrackedRun("serve", {}, {}))
    logs.wait()
    print("a result")
    printed.set()
    steps.close()
    assert capsys.readouterr().out == "a result\n"


def test_what_a_tracker_prints_is_not_among_the_results(genrm, call, monkeypatch):
    """Standard output holds the scored lines, and stderr the link that the tracker prints."""

    class Run:
        """A run that tells its user about each step of it."""

        def log(self, *_, **__):
            print("logged")

        def finish(self):
            print("see http://tracker/run/1")

    fake = SimpleNamespace(Settings=dict, init=lambda **_: Run())
    monkeypatch.setitem(sys.modules, "wandb", fake)
    genrm.write("in.jsonl", make_rollouts())
    plain = call("score", "in.jsonl", "-o", "-", "--offline")
    finished = call("score", "in.jsonl", "-o", "-", "--offline", "--wandb", "x")
    assert finished.code == 0
    assert finished.out == plain.out != b""
    assert finished.err.count("logged\n") == 1
    assert "see http://tracker/run/1\n" in finished.err


@pytest.mark.slow
def test_a_server_goes_on_without_its_tracker(genrm):
    """Every group is answered; one warning says why nothing is logged."""
    broken = "Settings = dict\ndef init(**_): raise OSError('no route')\n"
    (genrm.folder / "wandb.py").write_text(broken)
    path = f"{PACKAGE_ROOT}:{genrm.folder}"
    flags = ("--offline", "--wandb", "x", "--groups-per-step", 1)
    with serving(genrm, *flags, PYTHONPATH=path) as served:
        group = {"messages": "Why?", "responses": [{"text": "a"}, {"text": "b c"}]}
        replies = [served.group(**group, id=str(number)) for number in range(3)]
        assert served.terminate() == 0
    assert [reply["status"] for reply in replies] == ["scored"] * 3
    said = [line for line in served.messages if "wandb" in line]
    assert said == ["genrm: warning: --wandb: not logged: OSError: no route\n"]
