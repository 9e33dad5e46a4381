"""The fixture `genrm`: the command as a process, in an empty folder."""

from pathlib import Path

import pytest
from genrm_process import Genrm


@pytest.fixture
def genrm(tmp_path: Path) -> Genrm:
    """Give a test the command, and an empty folder to run it in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Genrm(folder)
