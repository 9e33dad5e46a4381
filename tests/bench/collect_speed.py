"""Measure `genrm collect` against a policy that answers at once: `python tests/bench/collect_speed.py [SESSIONS]`.

Plays sessions of 20 turns, 500 in flight, once with the scripted client and once with a model-backed one, and prints
own CPU time a turn (less that of a run of 4 sessions) and peak memory.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from judge_server_fixture import JudgeServer

TURNS = 20
WORDS = ("river", "garden", "window", "letter", "morning", "street", "kitchen", "winter", "doctor", "brother", "market")
LINES = [
    f"I see what you mean about the {one}. We can look at the {other} first, and then at the {one} again. "
    f"There is also the {third} that you mentioned before."
    for one in WORDS
    for other in WORDS
    for third in WORDS
    if len({one, other, third}) == 3
]


def run(folder: Path, server: JudgeServer, sessions: int, *, with_models: bool) -> tuple[float, float, float, dict]:
    """Collect so many sessions; return CPU seconds, wall seconds, peak MB and the summary."""
    name = f"{'models' if with_models else 'scripted'}-{sessions}.jsonl"
    command = [sys.executable, "-m", "genrm_cli", "collect", "samples", "-q", "--json", "-o", str(folder / name)]
    command += ["--policy-base-url", server.base_url, "--policy-model", "p", "--concurrency", "500"]
    command += ["--episodes", str(max(1, sessions // 24)), "--max-turns", str(TURNS), "--sessions", "500"]
    command += ["--keep-client-faults", "--no-probe"]
    if with_models:
        command += ["--client-base-url", server.base_url, "--client-model", "c"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    summary = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, status
    return usage.ru_utime + usage.ru_stime, summary["wall_time_s"], usage.ru_maxrss / 1024, summary


def main() -> None:
    """Print the figures."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 1_008
    server = JudgeServer()
    server.start()
    server.behave(chat=LINES)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            for with_models in (False, True):
                base_s, *_ = run(Path(temporary), server, 4, with_models=with_models)
                _, _, small_mb, _ = run(Path(temporary), server, sessions // 2, with_models=with_models)
                cpu_s, wall_s, peak_mb, summary = run(Path(temporary), server, sessions, with_models=with_models)
                calls = sum(role["calls"] for role in summary["roles"].values())
                turns = summary["policy_turns"]
                print(
                    f"{'model' if with_models else 'scripted'} client: {summary['episodes_planned']:,} sessions, "
                    f"{turns:,} turns, {calls:,} calls: {(cpu_s - base_s) / turns * 1e3:.2f} ms own CPU a turn, "
                    f"{(cpu_s - base_s) / calls * 1e3:.2f} ms a call; {wall_s:.0f} s; peak {peak_mb:.0f} MB "
                    f"({small_mb:.0f} MB with half the sessions); "
                    f"ends {summary['ends']}",
                    flush=True,
                )
            server.behave(chat=LINES, latency_s=1.0)
            run(Path(temporary), server, 500, with_models=False)
            print(f"with a policy that takes 1 s: {server.stats()['max_in_flight']} calls in flight at most")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
