import json
import random
import subprocess
import sys

import pytest
from genrm_process import PACKAGE_ROOT

CHILD = """
import resource, sys
from genrm_cli.cli.options import run_to_end
from genrm_cli.jobs.input_batch import score_inputs
from genrm_cli.jobs.context import new_run
from genrm_cli.settings import settings_from

small, large, strategy = sys.argv[1:]
peaks_kb = []
for path in (small, large):
    settings = settings_from(judge="lexical", strategy=strategy, together=True, min_age=0.0)
    run_to_end(score_inputs([path], new_run(settings)))
    peaks_kb.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(*peaks_kb)
"""


def write_rollouts(paths, rollouts):
    """Write rollouts of 4 KB in groups of 8, the groups interleaved as a rollout server writes
    them, over files.
    """
    rng = random.Random(rollouts)
    words = [f"word{number}" for number in range(400)]
    answers = [" ".join(rng.choices(words, k=550)) for _ in range(100)]
    groups = rollouts // 8
    for part, path in enumerate(paths):
        with path.open("w") as file:
            for number in range(part, rollouts, len(paths)):
                answer = f"{number} {rng.choice(answers)}"
                line = {"_ng_task_index": number % groups, "_ng_rollout_index": number // groups}
                line |= {"prompt": f"Question {number % groups}?", "completion": answer}
                file.write(json.dumps(line) + "\n")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path):
    """10,000 rollouts of 4 KB in 16 files (40 MB) raise the peak by at most 100 bytes each over 800
    in 16 files.
    """
    for name, rollouts in (("small", 800), ("large", 10_000)):
        (tmp_path / name).mkdir()
        write_rollouts([tmp_path / name / f"{part}.jsonl" for part in range(16)], rollouts)
    assert sum(path.stat().st_size for path in (tmp_path / "large").iterdir()) > 10_000 * 4_000
    growth = growth_bytes(tmp_path / "small", tmp_path / "large", "ring")
    assert growth < 100 * 10_000 + 10_000_000  # buffers of their full size


@pytest.mark.slow
def test_memory_grows_little_with_the_comparisons_of_a_group(tmp_path):
    """A group of 250 in all pairs takes at most 2 KB for each of its 31,125 comparisons."""
    small, large = (write_group(tmp_path, size) for size in (10, 250))
    assert growth_bytes(small, large, "all_pairs") < 2_000 * 31_125


@pytest.mark.slow
def test_a_large_group_on_a_ring_holds_few_dense_matrices(tmp_path):
    """A group of 1,024 on one ring takes at most 100 MB more than one of 10: a dozen of the
    matrices of 8 MB that its pairs would fill.
    """
    small, large = (write_group(tmp_path, size) for size in (10, 1_024))
    assert growth_bytes(small, large, "ring") < 100_000_000


def write_group(folder, size):
    """Write a group of responses of several lengths; return its path."""
    path = folder / f"of-{size}.jsonl"
    lines = ({"prompt": "Why?", "completion": f"It is {n}. " * (1 + n % 7)} for n in range(size))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def growth_bytes(small, large, strategy):
    """Score two inputs in a process of its own; return by how much the second one raises the
    peak.
    """
    command = [
        sys.executable,
        "-c",
        CHILD,
        str(small),
        str(large),
        strategy,
    ]
    child = subprocess.run(command, capture_output=True, check=True, cwd=PACKAGE_ROOT)
    small_kb, large_kb = map(int, child.stdout.split())
    return (large_kb - small_kb) * 1024
