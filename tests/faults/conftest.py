"""The fixture `scoring`: an input, a judge that misbehaves when told to, and what an undisturbed
run makes of them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from disturbed_scoring import MakeScoring, Scoring
from genrm_process import Genrm, Json, make_rollouts
from judge_server_fixture import JudgeServer


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow: the fast ones of each exit code are in `cli`."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def undisturbed_outputs() -> dict[int, bytes]:
    """Keep the output of an undisturbed run by the number of groups, to find each out only once."""
    return {}


@pytest.fixture
def make_scoring(
    tmp_path: Path,
    judge_server: JudgeServer,
    undisturbed_outputs: dict[int, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeScoring]:
    """Give a test an input of so many groups of four, four comparisons each, and a healthy
    judge.
    """
    monkeypatch.chdir(tmp_path)

    def make(groups: int) -> Scoring:
        lines: list[Json] = make_rollouts(groups)
        if groups not in undisturbed_outputs:
            (tmp_path / "calm").mkdir()
            calm = Scoring(Genrm(tmp_path / "calm"), judge_server, lines)
            finished = calm.run("--no-journal")
            assert finished.code == 0, finished.err
            undisturbed_outputs[groups] = calm.scored
            judge_server.reset()
        (tmp_path / "work").mkdir()
        return Scoring(Genrm(tmp_path / "work"), judge_server, lines, undisturbed_outputs[groups])

    yield make
    if not judge_server.running:  # a test that failed half-way must not fail the next one
        judge_server.restart()


@pytest.fixture
def scoring(make_scoring: MakeScoring) -> Scoring:
    """Give a test a small input: 16 comparisons."""
    return make_scoring(4)
