"""Measure what the README claims of speed and memory; `make bench` runs it, never the test suite.

Figures that are compared are taken in turn in the same run and given as medians and ratios: machines are noisy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.make_rollouts import write_rollouts
from judge_server_fixture import JudgeServer

HERE = Path(__file__).resolve().parent


def bench_lexical(rollouts: int, runs: int) -> None:
    """Time and memory of scoring with the embedded judge, by number of rollouts and by length of text."""
    print(f"\nscoring with the embedded judge, groups of 8, median of {runs}")
    print(f"{'rollouts':>9} {'chars':>7} {'file MB':>8} {'wall s':>8} {'peak MB':>8}")
    peaks: dict[tuple[int, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count, chars in ((rollouts // 8, 1_250), (rollouts, 1_250), (rollouts // 8, 10_000)):
            path = Path(folder) / "rollouts.jsonl"
            write_rollouts(path, count, chars)
            figures = [_score_once(path) for _ in range(runs)]
            wall_s, peak_mb = (statistics.median(column) for column in zip(*figures, strict=True))
            peaks[count, chars] = peak_mb
            size_mb = path.stat().st_size / 1e6
            print(f"{count:>9,} {chars:>7,} {size_mb:>8.0f} {wall_s:>8.1f} {peak_mb:>8.0f}", flush=True)
    growth = (peaks[rollouts, 1_250] - peaks[rollouts // 8, 1_250]) * 1e6 / (rollouts - rollouts // 8)
    print(f"growth of the peak: {growth:.0f} bytes a rollout (goal: at most 200)")


def _score_once(path: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "genrm_cli", "score", str(path), "--judge", "lexical", "--overwrite", "-q"]
    started_s = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return time.perf_counter() - started_s, usage.ru_maxrss / 1e3


def bench_judge(runs: int) -> None:
    """CPU time of this side a comparison, ours and AsyncOpenAI's, against a local judge that answers at once."""
    print(f"\nown CPU a comparison, local judge that answers at once, 6 KB up, 3 KB down, median of {runs}")
    print("(genrm: the whole engine; openai: the calls only)")
    print(f"{'in flight':>9} {'genrm ms':>9} {'openai ms':>10} {'ratio':>6}")
    judge = JudgeServer()
    judge.start()
    try:
        judge.behave(analysis_chars=1_250)
        for concurrency in (64, 1_024):
            figures: dict[str, list[float]] = {"genrm": [], "openai": []}
            for _ in range(runs):
                for stack, count in (("genrm", 8_000), ("openai", 2_000)):
                    figures[stack].append(_drive(stack, judge, concurrency, max(count, concurrency)))
            ours, theirs = (statistics.median(figures[stack]) for stack in ("genrm", "openai"))
            print(f"{concurrency:>9,} {ours:>9.3f} {theirs:>10.3f} {theirs / ours:>5.1f}x", flush=True)
    finally:
        judge.stop()


def _drive(stack: str, judge: JudgeServer, concurrency: int, count: int) -> float:
    command = [sys.executable, str(HERE / "drive_judge.py"), stack, judge.base_url, str(concurrency), str(count)]
    figures: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    if figures["answered"] != count:
        raise SystemExit(f"{stack}: {figures['answered']} of {count} answered")
    return float(figures["cpu_ms_per_comparison"])


def bench_help(runs: int) -> None:
    """Time of `genrm --help`, as a whole process."""
    times_ms = []
    for _ in range(2 * runs + 1):
        started_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "genrm_cli", "--help"], check=True, capture_output=True)
        times_ms.append((time.perf_counter() - started_s) * 1e3)
    print(f"\ngenrm --help: {statistics.median(times_ms):.0f} ms (goal: under 300)")


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rollouts", type=int, default=176_000)
    arguments = parser.parse_args()
    bench_help(arguments.runs)
    bench_judge(arguments.runs)
    bench_lexical(arguments.rollouts, arguments.runs)


if __name__ == "__main__":
    main()
