"""Trackers that are not installed, or fail."""

import pytest
from genrm_process import Genrm, make_rollouts
from judge_server_fixture import JudgeServer


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_library_ends_the_run_before_any_call(genrm: Genrm, judge_server: JudgeServer, name: str) -> None:
    """The exit code is 2, the error names the extra to install, and the judge is not asked."""
    (genrm.folder / f"{name}.py").write_text("raise ImportError('not here')\n")
    genrm.write("in.jsonl", make_rollouts())
    judge = ("--base-url", judge_server.base_url, "--model", "m")
    finished = genrm.run("score", "in.jsonl", *judge, f"--{name}", "x", PYTHONPATH=_before_others(genrm))
    assert (finished.code, "in.scored.jsonl" in genrm.names()) == (2, False)
    assert f"pip install 'genrm-cli[{name}]'" in finished.err
    assert judge_server.stats()["requests"] == 0


def test_a_tracker_that_fails_is_a_warning(genrm: Genrm) -> None:
    """The rewards are written and the exit code stays 0, for any error of a client."""
    (genrm.folder / "wandb.py").write_text("Settings = dict\ndef init(**more):\n    raise OSError('disk full')\n")
    genrm.write("in.jsonl", make_rollouts())
    finished = genrm.run("score", "in.jsonl", "--offline", "--wandb", "x", PYTHONPATH=_before_others(genrm))
    assert (finished.code, "in.scored.jsonl" in genrm.names()) == (0, True)
    assert "genrm: warning: --wandb: the run was not logged: OSError: disk full\n" in finished.err


def _before_others(genrm: Genrm) -> str:
    """Return a module path on which the test's folder comes first."""
    return f"{genrm.folder}:{genrm.environment()['PYTHONPATH']}"
