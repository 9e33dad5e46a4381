"""Lines are scored in the folder of a test, by the judge of the tests where one is asked."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import scored_components
from genrm_process import Json
from judge_server_fixture import JudgeServer
from scored_components import Scored, judge


@pytest.fixture
def score(tmp_path: Path) -> Callable[..., Scored]:
    """Give a test what scores lines under the text of a settings file, and flags."""
    return partial(scored_components.score, tmp_path)


@pytest.fixture
def judged(score: Callable[..., Scored], judge_server: JudgeServer) -> Callable[..., Scored]:
    """Give a test the same with the judge of the tests."""

    def judged(lines: list[Json], toml: str = "", **flags: Any) -> Scored:
        return score(lines, judge(judge_server) + toml, **flags)

    return judged
