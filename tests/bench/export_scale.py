"""Measure `genrm export` on generated scored rollouts: `python tests/bench/export_scale.py 1000000 FOLDER`.

Writes FOLDER/scale.scored.jsonl (2 KB a rollout, groups of 8, shuffled within a window), then exports best-worst pairs
and prints seconds and peak memory.
"""

import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

WORDS = [f"word{number}" for number in range(2_000)]
ADJUSTMENTS = dict.fromkeys(("reasoning_bonus", "answer_bonus", "reasoning_length", "answer_length", "style"), 0.0)


def write_scored(path: Path, rollouts: int, size: int = 8) -> None:
    """Write scored lines as `genrm score` would."""
    source = random.Random(0)
    with path.open("w") as file:
        window: list[str] = []
        for group in range(rollouts // size):
            prompt = " ".join(source.choices(WORDS, k=30))
            for index in range(size):
                answer = " ".join(source.choices(WORDS, k=source.randint(140, 220)))
                reward = round(source.uniform(1, 5), 4)
                detail = {
                    "format": 1, "status": "scored", "reason": None, "reason_text": None, "base_score": reward,
                    "standard_error": 0.4,
                    "reliability": 0.7, "adjustments": ADJUSTMENTS, "rank": 1, "advantage": 0.1,
                    "group": f"prompt_id:{group}",
                    "group_size": size, "index": index, "comparisons": 2, "failed": 0, "defaulted": 0, "judge": "j",
                    "is_baseline": False, "previous_reward": None,
                }  # fmt: skip
                line = {
                    "prompt_id": str(group), "messages": [
                        {"role": "user", "content": prompt}, {"role": "assistant", "content": answer},
                    ], "reward": reward, "genrm": detail,
                }  # fmt: skip
                window.append(json.dumps(line) + "\n")
            if len(window) >= 4_096:
                source.shuffle(window)
                file.writelines(window)
                window.clear()
        file.writelines(window)


def main() -> None:
    """Generate the input where it is missing, export it, print the figures."""
    rollouts, folder = int(sys.argv[1]), Path(sys.argv[2])
    scored = folder / f"scale-{rollouts}.scored.jsonl"
    if not scored.exists():
        write_scored(scored, rollouts)
    started_s = time.monotonic()
    command = [sys.executable, "-m", "genrm_cli", "export", str(scored), "--to", "trl-dpo", "--force", "-q"]
    subprocess.run([*command, "-o", str(folder / "scale.pairs.jsonl"), *sys.argv[3:]], check=True)
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    cpu_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    wall_s = time.monotonic() - started_s
    size_mb = scored.stat().st_size / 1e6
    print(f"{rollouts:,} rollouts, {size_mb:,.0f} MB: {wall_s:.1f} s, {cpu_s:.1f} s CPU, peak {peak_mb:.0f} MB")


if __name__ == "__main__":
    main()
