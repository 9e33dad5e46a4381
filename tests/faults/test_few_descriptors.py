"""File descriptors that run out cost no comparison."""

import subprocess

import pytest
from disturbed_scoring import MakeScoring
from genrm_process import COMMAND


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["ulimit -n 256", "ulimit -Sn 256"])
def test_few_file_descriptors_lose_no_comparison(make_scoring: MakeScoring, limit: str) -> None:
    """With a quarter of the descriptors that are wanted, all calls are answered, and none is made up."""
    scoring = make_scoring(500)
    scoring.server.behave(latency_s=0.05)
    command = map(str, (*COMMAND, *scoring.arguments("--concurrency", 1_000)))
    finished = subprocess.run(
        ["bash", "-c", f'{limit}; exec "$0" "$@"', *command],
        cwd=scoring.folder,
        env=scoring.genrm.environment(),
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    metrics = scoring.check_honest()
    assert metrics["failures"] == 0
    assert metrics["verdicts"] == metrics["calls"] == scoring.server.stats()["distinct_answered"]
    assert scoring.server.stats()["repeat_answers"] == 0
