"""Trackers that are not installed, or fail."""

import sys
from types import SimpleNamespace

import pytest
from genrm_process import Call, Genrm, make_rollouts
from judge_server_fixture import JudgeServer


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_library_ends_the_run_before_any_call(
    genrm: Genrm, call: Call, judge_server: JudgeServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2, the error names the extra to install, and the judge is not asked."""
    monkeypatch.setitem(sys.modules, name, None)
    genrm.write("in.jsonl", make_rollouts())
    finished = call("score", "in.jsonl", *judge_server.flags, f"--{name}", "x")
    assert (finished.code, "in.scored.jsonl" in genrm.names()) == (2, False)
    assert f"pip install 'genrm-cli[{name}]'" in finished.err
    assert judge_server.stats()["requests"] == 0


def test_a_tracker_that_fails_is_a_warning(genrm: Genrm, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewards are written and the exit code stays 0, for any error of a client."""

    def init(**_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Settings=dict, init=init))
    genrm.write("in.jsonl", make_rollouts())
    finished = call("score", "in.jsonl", "--offline", "--wandb", "x")
    assert (finished.code, "in.scored.jsonl" in genrm.names()) == (0, True)
    assert "genrm: warning: --wandb: the run was not logged: OSError: disk full\n" in finished.err
