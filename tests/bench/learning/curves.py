"""Measure and draw the learning curves of the guide: `make learning`, on two cores in a quarter of
an hour.

The same tiny policy learns the same task (`task.py`) with GRPO from rewards of several kinds, all
by one noisy judge (`noisy_judge.py`) and with as many planned calls: one a response. The
numbers are kept in `curves.json`, the page and its picture in the guide. `--draw` only writes
these.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import matplotlib as mpl
from bench.learning.noisy_judge import NoisyJudge
from bench.learning.page import ARMS, CURVES, Arm, iter_arms, read_curves
from bench.page import write_table
from genrm_process import PACKAGE_ROOT, Genrm
from matplotlib import pyplot
from served import serving
from small_server import answering_each

TESTS = Path(__file__).resolve().parents[2]
PICTURE = TESTS.parent / "genrm_cli" / "guide" / "learning-curve.svg"
SCRIPT = Path(__file__).with_name("train.py")
MODEL = "nvidia/Qwen3-Nemotron-235B-A22B-GenRM"
STEPS = 100
SEEDS = (1, 2, 3)
LAST = 10  # steps whose mean quality is called the end of a run


def train(arm: Arm, seed: int) -> dict[str, Any]:
    """Train once; return the quality of each step and the number of replies."""
    with tempfile.TemporaryDirectory() as folder:
        if arm.source != "serve":
            trained = _run_script(arm.source, arm, seed, folder)
            return {"quality": trained["quality"], "replies": trained["grades"]}
        judge = NoisyJudge(seed, arm.failures)
        (Path(folder) / "serve").mkdir()
        genrm = Genrm(Path(folder) / "serve")
        with answering_each(judge.answer) as (url, _):
            flags = ("--base-url", f"{url}/v1", "--model", MODEL, "--no-probe", *arm.flags)
            with serving(genrm, *flags) as server:
                trained = _run_script(server.url, arm, seed, folder)
    return {"quality": trained["quality"], "replies": judge.replies}


def _run_script(source: str, arm: Arm, seed: int, folder: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PACKAGE_ROOT}{os.pathsep}{TESTS}",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(SCRIPT), str(STEPS), str(seed), source, arm.scale, folder]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if ended.returncode != 0:
        raise SystemExit(ended.stderr)
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


def summarise(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the figures of one arm: means of its runs."""
    ends = [statistics.fmean(run["quality"][-LAST:]) for run in runs]
    return {
        "end": round(statistics.fmean(ends), 3),
        "lowest": round(min(ends), 3),
        "highest": round(max(ends), 3),
        "replies": round(statistics.fmean(run["replies"] for run in runs)),
    }


def measure() -> dict[str, Any]:
    """Train all arms, and return their curves and figures."""
    measured: dict[str, Any] = {}
    for name, arm in ARMS.items():
        runs = [train(arm, seed) for seed in SEEDS]
        curves = [[round(each, 3) for each in run["quality"]] for run in runs]
        measured[name] = {**summarise(runs), "curves": curves}
        sys.stdout.write(f"{name}: {summarise(runs)}\n")
        sys.stdout.flush()
    return measured


def draw(measured: dict[str, Any]) -> None:
    """Draw the mean curve of each arm, with the runs' range around it."""
    # The same bytes each time: text as text, ids from a fixed salt, no date.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "genrm"})
    figure, axes = pyplot.subplots(figsize=(10, 4))
    for name, arm in ARMS.items():
        steps = list(zip(*measured[name]["curves"], strict=True))
        places = range(1, len(steps) + 1)
        means = [statistics.fmean(step) for step in steps]
        axes.plot(places, means, arm.colour, label=arm.title.replace("`", ""))
        lowest = [min(step) for step in steps]
        highest = [max(step) for step in steps]
        axes.fill_between(places, lowest, highest, color=arm.colour, alpha=0.1, linewidth=0)
    axes.set_xlabel("GRPO step (8 prompts, 8 responses each)")
    axes.set_ylabel("mean true quality of the responses")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    """Measure, unless only to draw, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true", help="only write page and picture")
    if not parser.parse_args().draw:
        CURVES.write_text(json.dumps(measure(), indent=1) + "\n")
    measured = read_curves()
    draw(measured)
    write_table("learning", iter_arms(measured))


if __name__ == "__main__":
    main()
