"""The fixtures `genrm`, the command as a process, and `call`, the same without the cost of one."""

from pathlib import Path

import pytest
from genrm_here import call_here
from genrm_process import Call, Finished, Genrm, words_of


@pytest.fixture
def genrm(tmp_path: Path) -> Genrm:
    """Give a test the command, and an empty folder to run it in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Genrm(folder)


@pytest.fixture
def call(genrm: Genrm, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Give a test the command within this process, in the same folder: for many short calls."""
    monkeypatch.setenv("XDG_STATE_HOME", str(genrm.state_folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(genrm.config_folder))
    monkeypatch.chdir(genrm.folder)

    def run(*arguments: object, stdin: bytes = b"", **environment: str) -> Finished:
        return call_here(words_of(arguments), environment, stdin)

    return run
