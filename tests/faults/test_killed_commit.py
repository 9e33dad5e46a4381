"""A run that is killed at any step of its commit, on disk and over S3."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from genrm_process import PACKAGE_ROOT

_TESTS = Path(__file__).parents[1]
_OUTPUTS = {"in.comparisons.jsonl", "in.metrics.json", "in.scored.jsonl"}


def steps_of(root, folder, *, earlier, **environment):
    """Kill a run at each of its steps; return what each left, and how the next run ended."""
    command = [
        sys.executable,
        Path(__file__).with_name("kill_steps.py"),
        root,
    ]
    done = subprocess.run(
        [*command, "yes" if earlier else "no"],
        env={
            **os.environ,
            "PYTHONPATH": f"{_TESTS}:{PACKAGE_ROOT}",
            "TMPDIR": str(folder),
            **environment,
        },
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def without_times(outputs):
    """Return outputs with what differs from run to run left out of the metrics."""
    metrics = json.loads(outputs["in.metrics.json"])
    return {
        **outputs,
        "in.metrics.json": (metrics["settings_digest"], metrics["output_mark"]["sha256"]),
    }


def check_steps(steps):
    """Hold every step to the promise: the next run ends like a calm one, and only a mixture has a
    mark beside it; scored lines without one have all outputs of their run beside them.
    """
    *killed, calm = steps
    expected = without_times({name: calm["after"][name] for name in _OUTPUTS})
    assert calm["codes"] == [0, 0, 0]
    for step in killed:
        left = step["left"]
        after = step["after"]
        assert step["codes"] == [0, -9, 0]
        # A run that was killed after its scored lines appeared leaves nothing to do.
        beside = after.keys() - _OUTPUTS
        assert beside <= left.keys()
        assert all(
            name in ("in.commit", "in.lease-1") or name.startswith(".genrm-") for name in beside
        )
        assert without_times({name: after[name] for name in _OUTPUTS}) == expected
        if "in.scored.jsonl" in left and "in.commit" not in left:
            assert left.keys() >= _OUTPUTS
            recorded = json.loads(left["in.metrics.json"])["output_mark"]["sha256"]
            assert recorded == hashlib.sha256(left["in.scored.jsonl"].encode()).hexdigest()


@pytest.mark.parametrize(
    "earlier",
    [False, True],
)
def test_a_run_killed_at_any_step_on_disk_is_finished_by_the_next(tmp_path, earlier):
    """For new outputs and for replaced ones."""
    root = tmp_path / "root"
    root.mkdir()
    steps = steps_of(str(root), tmp_path, earlier=earlier)
    check_steps(steps)
    # New outputs need no mark: whoever waits for the scored lines finds the others.
    assert any("in.commit" in step["left"] for step in steps) == earlier


@pytest.mark.parametrize("earlier", [False, True])
def test_a_run_killed_at_any_request_to_s3_is_redone_by_the_next(
    tmp_path, s3, s3_inspector, earlier
):
    """For new objects and for replaced ones."""
    bucket = f"killed-{tmp_path.name.replace('_', '-')}"[:60].lower()
    s3_inspector.create_bucket(Bucket=bucket)
    steps = steps_of(f"s3://{bucket}/rl", tmp_path, earlier=earlier)
    check_steps(steps)
    assert any("in.commit" in step["left"] for step in steps) == earlier
