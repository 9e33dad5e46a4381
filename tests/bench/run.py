"""Measure speed and memory: `make bench`, or `python tests/bench/run.py PART ...` for some parts.

Each part is kept in `results.json` with its commit, date and load, and the page of the guide is
written from that file; `--page` only writes the page. Figures that are compared are taken in turn
in the same run. Each is the median of several runs, and of CPU time where the machine may be busy.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.calibration import iter_cells, measure
from bench.genrm_cost import cost_of
from bench.make_rollouts import write_rollouts
from bench.page import (
    RANKED_BY,
    RANKED_RINGS,
    RANKED_SIZE,
    RANKING_NOISES,
    RESULTS,
    Figures,
    iter_card,
    iter_ranking,
    iter_speed,
    read_results,
    write_table,
)
from bench.pair import compare
from bench.simulation.plan_metrics import plan_within, simulate
from bench.simulation.world import JudgeModel
from judge_server_fixture import JudgeServer

HERE = Path(__file__).resolve().parent
TURN_LINES = [
    f"I see what you mean about the {word}. We can look at it again."
    for word in "abcdefghijklmnopqrstuvwxyz"
]


class Bench(NamedTuple):
    """What parts measure with: a judge that answers at once, a folder that they share, and how
    often they run.
    """

    judge: JudgeServer
    folder: Path
    runs: int

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of a run with the judge."""
        return ("--base-url", self.judge.base_url, "--model", "bench", "--concurrency", "256", "-q")

    def rollouts(self, count: int, chars: int = 1_250, group_size: int = 8) -> Path:
        """Return a file of so many rollouts."""
        path = self.folder / f"{count}-{chars}-{group_size}.jsonl"
        if not path.exists():
            write_rollouts(path, count, chars, group_size=group_size)
        return path

    def median(self, *command: object) -> Figures:
        """Run a command several times and return the medians of its figures."""
        return medians([run(*command) for _ in range(self.runs)])


def run(*command: object, expected: int = 0) -> Figures:
    """Run `genrm` once and return its CPU and wall seconds and its peak memory."""
    cost = cost_of(*command, expected=expected)
    return {"cpu_s": cost.cpu_s, "wall_s": cost.wall_s, "peak_mb": cost.peak_mb}


def medians(runs: list[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: statistics.median(one[name] for one in runs) for name in runs[0]}


def measure_help(bench: Bench) -> Figures:
    """`genrm --help`, as a whole process."""
    return medians([run("--help") for _ in range(4 * bench.runs + 1)])


def measure_calls(bench: Bench) -> Figures:
    """CPU time of this side a comparison, ours with each HTTP client and AsyncOpenAI's; 6 KB up,
    3 KB down.
    """
    figures: Figures = {}
    counts = {"genrm": 8_000, "genrm-httpx": 8_000, "openai": 2_000}
    for in_flight in (64, 256, 1_024, 4_096):
        spent_ms: dict[str, list[float]] = {stack: [] for stack in counts}
        for _ in range(bench.runs):
            for stack, count in counts.items():
                driven = _drive(stack, bench.judge, in_flight, max(count, in_flight))
                spent_ms[stack].append(driven["cpu_ms_per_comparison"])
        medians_ms = {stack: statistics.median(spent) for stack, spent in spent_ms.items()}
        figures |= {f"{stack}_{in_flight}": each for stack, each in medians_ms.items()}
        figures[f"ratio_{in_flight}"] = medians_ms["openai"] / medians_ms["genrm"]
        figures[f"httpx_ratio_{in_flight}"] = medians_ms["genrm-httpx"] / medians_ms["genrm"]
    return figures


def measure_process(bench: Bench) -> Figures:
    """`genrm score` as a whole process, from its start to its last output, against AsyncOpenAI's
    calls alone: 16,000 rollouts of 2.9 KB, a comparison each. Ratios are medians of turns.
    """
    rollouts = 16_000
    path = bench.rollouts(rollouts, 2_900)
    turns = []
    for _ in range(bench.runs):
        for journal in bench.folder.glob("*.journal.sqlite*"):
            journal.unlink()  # every call is made again
        scored = run("score", path, *bench.flags, "--force")
        driven = _drive("openai", bench.judge, 256, 4_000)
        genrm_ms = scored["cpu_s"] / rollouts * 1e3
        openai_ms = driven["cpu_ms_per_comparison"]
        turns.append(
            {
                "genrm": genrm_ms,
                "openai": openai_ms,
                "ratio": openai_ms / genrm_ms,
                "wall_ratio": rollouts / scored["wall_s"] / driven["comparisons_per_s"],
                "peak_mb": scored["peak_mb"],
            }
        )
    return medians(turns)


def measure_adaptive(bench: Bench) -> Figures:
    """Find the level of a judge that refuses above 128 in flight: 12,000 calls of 0.25 s."""
    bench.judge.reset()
    bench.judge.behave(
        latency_lognormal={"mean_s": 0.25, "sigma": 0.6}, seed=1, reject_above_in_flight=128
    )
    driven = _drive("genrm-auto", bench.judge, 4_096, 12_000)
    statuses = bench.judge.stats()["by_status"]
    refused = statuses.get("429", 0) / sum(statuses.values())
    return {"refused": refused, "throughput": driven["middle_per_s"] / (128 / 0.25)}


def _drive(stack: str, judge: JudgeServer, in_flight: int, count: int) -> Figures:
    command = [
        sys.executable,
        str(HERE / "drive_judge.py"),
        stack,
        judge.base_url,
        str(in_flight),
        str(count),
    ]
    figures: Figures = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    if figures["answered"] != count:
        raise SystemExit(f"{stack}: {figures['answered']} of {count} answered")
    return figures


def measure_planned(bench: Bench) -> Figures:
    """A million planned comparisons of 6 KB: a dry run, and a run that asks 20,000 of them."""
    path = bench.rollouts(31_744, 2_900, 64)
    options = (*bench.flags, "--strategy", "all_pairs", "--no-probe")
    dry = run("score", path, *options, "--dry-run")
    asked = run("score", path, *options, "--max-calls", 20_000, "--force", expected=6)
    return {f"dry_{name}": each for name, each in dry.items()} | asked


def measure_together(bench: Bench) -> Figures:
    """A set of files whose groups span them, with the built-in judge: memory by the number of
    rollouts.
    """
    peaks = []
    cpu_s = 0.0
    for files in (5, 40):
        folder = bench.folder / f"set-{files}"
        folder.mkdir()
        for number in range(files):
            path = folder / f"{number}.jsonl"
            write_rollouts(path, files * 10_000, 200, group_size=16, part=number, parts=files)
        figures = run("score", folder / "*.jsonl", "--together", "--offline", "--min-age", 0, "-q")
        peaks.append(figures["peak_mb"])
        cpu_s = figures["cpu_s"]
        shutil.rmtree(folder)
    return {"bytes": (peaks[1] - peaks[0]) * 1e6 / 350_000, "peak_mb": peaks[1], "cpu_s": cpu_s}


def measure_groups(bench: Bench) -> Figures:
    """One large group, with the built-in judge."""
    ring = bench.median("score", bench.rollouts(2_000, 400, 2_000), "--offline", "--force", "-q")
    command = (
        "score",
        bench.rollouts(400, 400, 400),
        "--offline",
        "--force",
        "-q",
        "--strategy",
        "all_pairs",
    )
    return ring | {f"pairs_{name}": each for name, each in bench.median(*command).items()}


def measure_collect(bench: Bench) -> Figures:
    """`genrm collect`, 500 sessions of 20 turns in flight; CPU time a turn, less that of a run of
    12 sessions.
    """
    bench.judge.behave(chat=TURN_LINES)
    command = ("collect", "samples", "-q", "--json", "--no-probe", "--max-turns", 20)
    command += ("--policy-base-url", bench.judge.base_url, "--policy-model", "p")
    command += ("--concurrency", 500)
    turn_ms = []
    for number in range(bench.runs):
        few, many = (
            cost_of(*command, "--episodes", count, "-o", bench.folder / f"{number}-{count}.jsonl")
            for count in (1, 84)
        )
        few_turns, many_turns = (json.loads(each.out)["policy_turns"] for each in (few, many))
        turn_ms.append((many.cpu_s - few.cpu_s) / (many_turns - few_turns) * 1e3)
    return {"turn_ms": statistics.median(turn_ms), "peak_mb": many.peak_mb}


def measure_sockets(bench: Bench) -> Figures:
    """`genrm serve` and NeMo Gym's own server through sockets, in turn."""
    command = [sys.executable, str(HERE / "serve_load.py")]
    runs: list[Figures] = []
    for _ in range(bench.runs):
        # Its errors are shown, so that a failure can be understood.
        ended = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        runs.append(json.loads(ended.stdout))
    return medians(runs)


def measure_calibration(bench: Bench) -> Figures:
    """How often the intervals of a run hold, in each cell; -1 where the run says `unknown`."""
    del bench
    figures: Figures = {}
    for cell in iter_cells():
        found = measure(cell)
        figures[f"{cell} reliability"] = found.reliability
        for groups, share in found.held.items():
            figures[f"{cell} {groups}"] = -1.0 if share is None else share
        errors, best = found.errors
        figures |= {f"{cell} errors": errors, f"{cell} best": best}
    return figures


def measure_ranking(bench: Bench) -> Figures:
    """Correlation of rewards with the truth, by the noise of the judge's ranking, for groups of 8
    on one, two and three rings.
    """
    del bench
    figures: Figures = {}
    plans = [plan_within("ring", RANKED_SIZE, rings * RANKED_SIZE) for rings in RANKED_RINGS]
    for noise in RANKING_NOISES:
        judge = JudgeModel(ranking_noise=noise)
        rows = simulate(judge, RANKED_SIZE, [*filter(None, plans)], RANKED_BY, groups=4_000, seed=0)
        for row in rows:
            rings = row.calls // RANKED_SIZE
            figures[f"{noise:g} {row.estimator} {rings}"] = row.correlation
    return figures


MEASURES: dict[str, Callable[[Bench], Figures]] = {
    name.removeprefix("measure_"): each
    for name, each in list(globals().items())
    if name.startswith("measure_")
}


def _compare_with_base() -> None:
    """Compare with the commit in the variable BASE; exit 1 for a red figure."""
    commit = os.environ.get("BASE")
    if not commit:
        raise SystemExit("name the commit to compare with: make bench PARTS=pair BASE=<commit>")
    judge = JudgeServer()
    judge.start()
    judge.behave(analysis_chars=1_250)
    try:
        is_fine = compare(commit, judge.base_url)
    finally:
        judge.stop()
    raise SystemExit(0 if is_fine else 1)


def main() -> None:
    """Measure the parts named, or all of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(MEASURES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.parts == ["pair"]:
        _compare_with_base()
        return
    results = read_results()
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], check=True, capture_output=True, text=True
    ).stdout
    judge = JudgeServer()
    for part in () if given.page else given.parts or MEASURES:
        judge.start()
        judge.behave(analysis_chars=1_250)
        load = os.getloadavg()[0]
        started_s = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            figures = MEASURES[part](Bench(judge, Path(folder), given.runs))
        judge.stop()
        results[part] = {
            "commit": commit.strip(),
            "date": datetime.now(UTC).date().isoformat(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load": [round(load, 1), round(os.getloadavg()[0], 1)],
            "figures": {name: float(f"{each:.4g}") for name, each in figures.items()},
        }
        print(
            f"{part}, {time.perf_counter() - started_s:.0f} s: {results[part]['figures']}",
            flush=True,
        )
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    write_table("speed", iter_speed(results))
    write_table("intervals", iter_card(results))
    write_table("ranking", iter_ranking(results))


if __name__ == "__main__":
    main()
