"""How deep a call to a judge lies, and how far its reply travels through the files of the
package.
"""

import json
import subprocess
import sys
from typing import NamedTuple

import pytest
from genrm_process import PACKAGE_ROOT
from judge_server_fixture import JudgeServer

MOST_FRAMES = 20
MOST_CHANGES = 400


class Run(NamedTuple):
    """A run under the profiler."""

    frames: list[str]
    changes: int


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, judge_process: JudgeServer) -> Run:
    """Score two rollouts under the profiler, one call at a time: no count depends on which replies
    share a commit.
    """
    judge_process.restore()
    judge_process.behave(
        verdict="hash"
    )  # scores of every size: labels are fitted in many steps between two files
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "two.jsonl").write_text(
        '{"prompt": "What is 2 + 2?", "responses": ["4", "5, I think"]}\n'
    )
    judge = (
        "--base-url",
        judge_process.base_url,
        "--model",
        "m",
        "--no-probe",
        "--concurrency",
        "1",
    )
    program = PACKAGE_ROOT / "tests/jobs/profiled_genrm.py"
    command = [sys.executable, str(program), "result.json", "score", "two.jsonl", *judge]
    environment = {"PYTHONPATH": str(PACKAGE_ROOT), "PATH": "", "NO_PROXY": "127.0.0.1"}
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert finished.returncode == 0, finished.stderr
    return Run(**json.loads((folder / "result.json").read_text()))


def test_a_reader_walks_few_frames_to_the_call(run):
    """From `main` to the call over HTTP, through all tasks, lie at most twenty frames of ours."""
    assert (run.frames[0], run.frames[-1]) == ("cli/app.py main", "judging/client.py _send")
    assert len(run.frames) <= MOST_FRAMES, "\n".join(run.frames)


def test_a_reply_changes_files_rarely(run):
    """From the last call over HTTP to the end of the run, calls of our functions change files
    rarely.
    """
    assert run.changes <= MOST_CHANGES
