"""Measure `--concurrency auto` against a real local judge: random refusals, a capacity, few file descriptors.

python tests/bench/pacing.py [refusals] [capacity] [descriptors]
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.make_rollouts import write_rollouts
from judge_server_fixture import JudgeServer

LATENCY = {"latency_lognormal": {"mean_s": 0.4, "sigma": 0.3}}


def measure(judge: JudgeServer, name: str, rollouts: int, behaviour: dict[str, Any], files: int | None = None) -> None:
    """Score once and print time, calls and what the judge counted."""

    def limit_files() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    judge.reset()
    judge.behave(**behaviour)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        write_rollouts(path, rollouts, 400)
        command = [sys.executable, "-m", "genrm_cli", "score", str(path), "--base-url", judge.base_url]
        environment = {**os.environ, "HOME": folder, "XDG_CACHE_HOME": folder, "XDG_STATE_HOME": folder}
        began_s = time.perf_counter()
        ended = subprocess.run(
            [*command, "--model", "m", "--no-probe", "--json"],
            capture_output=True,
            text=True,
            env=environment,
            preexec_fn=limit_files,
            check=False,
        )
        took_s = time.perf_counter() - began_s
    stats = judge.stats()
    if ended.returncode:
        raise SystemExit(f"{name} ended with {ended.returncode}: {ended.stderr[-500:]}")
    print(
        f"{name:<28} {took_s:6.1f} s, {stats['requests']} requests, {stats['by_status']}, "
        f"at most {stats['max_in_flight']} in flight",
        flush=True,
    )


def main() -> None:
    """Measure what is named on the command line, or everything."""
    wanted = set(sys.argv[1:]) or {"refusals", "capacity", "descriptors"}
    judge = JudgeServer()
    judge.start()
    try:
        if "refusals" in wanted:
            for share in (0.0, 0.01, 0.05, 0.1):
                fault = {"fault": {"status": 429}, "fault_share": share, "fault_times": 1} if share else {}
                measure(judge, f"{share:.0%} refused at random", 672, {**LATENCY, **fault})
        if "capacity" in wanted:
            measure(judge, "refuses above 128", 4_000, {**LATENCY, "reject_above_in_flight": 128})
        if "descriptors" in wanted:
            measure(judge, "ulimit -n 256", 4_000, {"latency_s": 0.2}, files=256)
    finally:
        judge.stop()


if __name__ == "__main__":
    main()
