"""Measure what the README claims of speed and memory; `make bench` runs it, never the test suite.

Figures that are compared are taken in turn in the same run and given as medians and ratios: machines are noisy.
"""

import argparse
import heapq
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.make_rollouts import write_rollouts
from judge_behaviour import iter_lognormal_s
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
            figures = [_score_once(path, ["--judge", "lexical"]) for _ in range(runs)]
            wall_s, peak_mb = (statistics.median(column) for column in zip(*figures, strict=True))
            peaks[count, chars] = peak_mb
            size_mb = path.stat().st_size / 1e6
            print(f"{count:>9,} {chars:>7,} {size_mb:>8.0f} {wall_s:>8.1f} {peak_mb:>8.0f}", flush=True)
    growth = (peaks[rollouts, 1_250] - peaks[rollouts // 8, 1_250]) * 1e6 / (rollouts - rollouts // 8)
    print(f"growth of the peak: {growth:.0f} bytes a rollout (goal: at most 200)")


def _score_once(path: Path, options: list[str], expected: int = 0) -> tuple[float, float]:
    command = [sys.executable, "-m", "genrm_cli", "score", str(path), *options, "--force", "-q"]
    started_s = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != expected:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return time.perf_counter() - started_s, usage.ru_maxrss / 1e3


def bench_judge(judge: JudgeServer, runs: int) -> None:
    """CPU time of this side a comparison, ours and AsyncOpenAI's, against a local judge that answers at once."""
    print(f"\nown CPU a comparison, local judge that answers at once, 6 KB up, 3 KB down, median of {runs}")
    print("(genrm: the whole engine with its journal; openai: the calls only)")
    print(f"{'in flight':>9} {'genrm ms':>9} {'openai ms':>10} {'ratio':>6}")
    judge.behave(analysis_chars=1_250)
    medians = {}
    for concurrency in (64, 256, 1_024, 4_096):
        figures: dict[str, list[float]] = {"genrm": [], "openai": []}
        for _ in range(runs):
            for stack, count in (("genrm", 8_000), ("openai", 2_000)):
                driven = _drive(stack, judge, concurrency, max(count, concurrency))
                figures[stack].append(driven["cpu_ms_per_comparison"])
        ours, theirs = (statistics.median(figures[stack]) for stack in ("genrm", "openai"))
        medians[concurrency] = ours
        print(f"{concurrency:>9,} {ours:>9.3f} {theirs:>10.3f} {theirs / ours:>5.1f}x", flush=True)
    print(f"4,096 against 256 in flight: {medians[4_096] / medians[256]:.2f} times (goal: at most 1.5)")


def bench_schedule(judge: JudgeServer, runs: int) -> None:
    """Time taken against the ideal for calls of very different lengths."""
    count, concurrency = 20_000, 1_024
    latencies_s = list(islice(iter_lognormal_s(0.5, 0.6, 1), count))
    bound_s = _list_schedule_s(latencies_s, concurrency)
    ratios = []
    for _ in range(runs):
        judge.reset()
        judge.behave(latency_lognormal={"mean_s": 0.5, "sigma": 0.6}, seed=1, analysis_chars=1_250)
        rate = _drive("genrm", judge, concurrency, count)["comparisons_per_s"]
        ratios.append(count / rate / bound_s)
    print(f"\n{count:,} calls, log-normal latency of mean 0.5 s, {concurrency:,} in flight, median of {runs}")
    print(
        f"time over the list-scheduling bound of {bound_s:.2f} s: {statistics.median(ratios):.3f} (goal: at most 1.03)"
    )


def _list_schedule_s(latencies_s: list[float], slots: int) -> float:
    """Return when the last call ends if each begins as soon as a slot is free."""
    free_at_s = [0.0] * slots
    for latency_s in latencies_s:
        heapq.heappush(free_at_s, heapq.heappop(free_at_s) + latency_s)
    return max(free_at_s)


def bench_adaptive(judge: JudgeServer) -> None:
    """Find the level of a judge that refuses above 128 in flight."""
    mean_s, capacity, count = 0.25, 128, 12_000
    judge.reset()
    judge.behave(latency_lognormal={"mean_s": mean_s, "sigma": 0.6}, seed=1, reject_above_in_flight=capacity)
    driven = _drive("genrm-auto", judge, 4_096, count)
    statuses = judge.stats()["by_status"]
    refused = statuses.get("429", 0) / sum(statuses.values())
    best = capacity / mean_s
    print(f"\njudge that refuses above {capacity} in flight, --concurrency auto, {count:,} calls of {mean_s} s")
    print(f"calls refused: {refused:.2%} (goal: at most 2 %)")
    print(f"throughput in the middle half: {driven['middle_per_s'] / best:.1%} of the best possible (goal: 95 %)")


def bench_memory(judge: JudgeServer) -> None:
    """Peak memory of a run with a million planned comparisons."""
    judge.reset()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        write_rollouts(path, 31_744, 2_900, group_size=64)
        options = ["--strategy", "all_pairs", "--max-calls", "20000", "--no-probe", "--model", "bench"]
        wall_s, peak_mb = _score_once(path, ["--base-url", judge.base_url, *options], expected=6)
    print("\n1,000,000 planned comparisons of 6 KB (groups of 64, all_pairs), 20,000 of them asked")
    print(f"peak memory {peak_mb:.0f} MB (goal: under 500), {wall_s:.0f} s")


def bench_recompute(judge: JudgeServer, rollouts: int, runs: int) -> None:
    """CPU time of recomputing the rewards from a complete journal."""
    judge.reset()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        write_rollouts(path, rollouts, 1_250)
        options = ["--base-url", judge.base_url, "--model", "bench", "--concurrency", "256"]
        _score_once(path, options)
        asked = judge.stats()["requests"]
        cpu_s, peaks_mb = [], []
        for _ in range(runs):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            peaks_mb.append(_score_once(path, options)[1])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if judge.stats()["requests"] != asked:
            raise SystemExit("a complete journal was not enough")
    each_us = statistics.median(cpu_s) / rollouts * 1e6
    print(f"\nrewards of {rollouts:,} rollouts from a complete journal, median of {runs}")
    print(f"CPU {each_us:.0f} µs a rollout (goal: at most 150), peak {statistics.median(peaks_mb):.0f} MB")


def bench_large_groups(runs: int) -> None:
    """Time and memory of one large group, with the built-in judge."""
    print(f"\none large group, built-in judge, median of {runs} (goals: 10 s, 300 MB for the ring)")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        for size, options in ((10_000, []), (400, ["--strategy", "all_pairs"])):
            write_rollouts(path, size, 400, group_size=size)
            measured = [_score_once(path, ["--judge", "lexical", *options]) for _ in range(runs)]
            wall_s, peak_mb = (statistics.median(column) for column in zip(*measured, strict=True))
            print(f"{size:>7,} rollouts, {options[-1] if options else 'ring'}: {wall_s:.1f} s, {peak_mb:.0f} MB")


def _drive(stack: str, judge: JudgeServer, concurrency: int, count: int) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "drive_judge.py"), stack, judge.base_url, str(concurrency), str(count)]
    figures: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    if figures["answered"] != count:
        raise SystemExit(f"{stack}: {figures['answered']} of {count} answered")
    return figures


def bench_help(runs: int) -> None:
    """Time of `genrm --help`, as a whole process."""
    times_ms = []
    for _ in range(2 * runs + 1):
        started_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "genrm_cli", "--help"], check=True, capture_output=True)
        times_ms.append((time.perf_counter() - started_s) * 1e3)
    print(f"\ngenrm --help: {statistics.median(times_ms):.0f} ms (goal: under 300)")


def bench_simulate() -> None:
    """Time of `genrm simulate` with its defaults, as a whole process."""
    started_s = time.perf_counter()
    subprocess.run([sys.executable, "-m", "genrm_cli", "simulate", "--json"], check=True, capture_output=True)
    print(f"\ngenrm simulate, 4,000 groups of 16: {time.perf_counter() - started_s:.0f} s (goal: under 60)")


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rollouts", type=int, default=176_000)
    parser.add_argument("--s3-mb", type=int, default=2_000)
    arguments = parser.parse_args()
    bench_help(arguments.runs)
    judge = JudgeServer()
    judge.start()
    try:
        bench_judge(judge, arguments.runs)
        bench_schedule(judge, arguments.runs)
        bench_adaptive(judge)
        bench_memory(judge)
        bench_recompute(judge, arguments.rollouts, arguments.runs)
    finally:
        judge.stop()
    bench_lexical(arguments.rollouts, arguments.runs)
    bench_large_groups(arguments.runs)
    print("\nclustering responses by n-grams (goal: 176,000 rollouts of 2 KB within 120 s)", flush=True)
    subprocess.run([sys.executable, str(HERE / "diversity_speed.py")], check=True)
    bench_simulate()
    print(f"\nreading an S3 object of {arguments.s3_mb:,} MB (goal: at least 0.8 of `aws s3 cp`)", flush=True)
    subprocess.run([sys.executable, str(HERE / "s3_read.py"), "--size-mb", str(arguments.s3_mb)], check=True)


if __name__ == "__main__":
    main()
