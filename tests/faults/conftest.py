"""The fixture `scoring`: an input, a judge that misbehaves when told to, and what an undisturbed
run makes of them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from disturbed_scoring import MakeScoring, Scoring
from genrm_process import Genrm, Json, make_rollouts
from judge_server_fixture import JudgeServer

# One test an exit code stays in the fast suite: 0 after bad replies, 4, 5 and 130.
FAST = {
    "test_a_bad_reply_is_a_failure_and_asked_again_next_time[HTML with 200]",
    "test_a_complete_journal_answers_everything",
    "test_a_judge_that_dies_for_good_is_given_up",
    "test_a_file_that_may_not_grow_ends_the_run_with_5",
    "test_sigterm_ends_soon_with_everything_journaled",
}


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow, but for those of `FAST`."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.name not in FAST:
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
    for name in list(os.environ):
        if name.startswith(("GENRM_", "OPENAI_")):
            monkeypatch.delenv(name)
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
