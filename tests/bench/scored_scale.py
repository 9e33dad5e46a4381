"""Measure `genrm report` or `export`: `python tests/bench/scored_scale.py report 176000 FOLDER TEXT`.

Writes FOLDER/scale-N.scored.jsonl with comparisons (groups of 8, a ring of comparisons, responses of about 1,500
characters that are passages of TEXT), then the page or the pairs for TRL's DPO, and prints seconds, peak memory and
bytes. With Playwright and Debian's Chromium it opens the page as well, and prints how long loading and opening groups
take. Further arguments are those of the command.
"""

import json
import random
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

CHROMIUM = "/usr/bin/chromium"
SIZE = 8
RESPONSE_CHARS = 1_500
OPENED = 20
ADJUSTMENTS = dict.fromkeys(("reasoning_bonus", "answer_bonus", "reasoning_length", "answer_length", "style"), 0.0)


def write_run(scored: Path, rollouts: int, text: str) -> None:
    """Write scored lines and comparisons as `genrm score` would."""
    source = random.Random(0)
    sentences = [found for found in re.split(r"(?<=[.!?])\s+", text) if 20 < len(found) < 400]
    comparisons = scored.with_name(scored.name.replace(".scored.", ".comparisons."))
    with scored.open("w") as lines, comparisons.open("w") as asked:
        for group in range(rollouts // SIZE):
            prompt = source.choice(sentences)
            for index in range(SIZE):
                lines.write(_scored_line(source, sentences, prompt, group, index))
                asked.write(_comparison_line(source, group, index, (index + 1) % SIZE))


def _scored_line(source: random.Random, sentences: list[str], prompt: str, group: int, index: int) -> str:
    answer, place = "", source.randrange(len(sentences))
    while len(answer) < RESPONSE_CHARS * source.uniform(0.8, 1.1):
        answer += sentences[place % len(sentences)] + " "
        place += 1
    reward = round(source.uniform(1, 5), 4)
    detail = {
        "format": 1, "status": "scored", "reason": None, "reason_text": None, "base_score": reward,
        "standard_error": 0.4,
        "reliability": round(source.random(), 3), "adjustments": ADJUSTMENTS, "rank": index + 1,
        "advantage": 0.1,
        "group": f"prompt_id:{group}", "group_size": SIZE, "index": index, "comparisons": 2, "failed": 0,
        "defaulted": 0, "judge": "j", "is_baseline": False,
    }  # fmt: skip
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return json.dumps({"prompt_id": str(group), "messages": messages, "reward": reward, "genrm": detail}) + "\n"


def _comparison_line(source: random.Random, group: int, i: int, j: int) -> str:
    numbers = {"score_1": source.randint(1, 5), "score_2": source.randint(1, 5), "ranking": source.randint(1, 6)}
    line = {"format": 1, "group": f"prompt_id:{group}", "i": i, "j": j, "judge_idx": 0, **numbers, "failure": None}
    return (
        json.dumps({**line, "attempts": 1, "latency_s": 0.5, "prompt_tokens": 9, "completion_tokens": 9, "judge": "j"})
        + "\n"
    )


def measure_page(page: Path, groups: int) -> None:
    """Open the page offline; print the time to load it, and the slowest of some groups."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("no Playwright: the page is not opened")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_context(offline=True).new_page()
        started_s = time.monotonic()
        opened.goto(page.as_uri())
        opened.wait_for_selector("html[data-ready]", state="attached")
        load_s = time.monotonic() - started_s
        took_ms = []
        for number in range(0, groups, max(1, groups // OPENED)):
            key = f"prompt_id:{number}"
            took_ms.append(
                opened.evaluate(
                    """async (key) => {
                      const started = performance.now();
                      location.hash = new URLSearchParams({ group: key });
                      while (document.querySelector("#group h2")?.textContent !== key) {
                        await new Promise((resolve) => requestAnimationFrame(resolve));
                      }
                      return performance.now() - started;
                    }""",
                    key,
                )
            )
        browser.close()
    took_ms.sort()
    median = took_ms[len(took_ms) // 2]
    print(f"load {load_s:.2f} s; a group {median:.0f} ms (median of {len(took_ms)}), at most {took_ms[-1]:.0f} ms")


def main() -> None:
    """Generate the input where it is missing, run the command, print the figures."""
    command, rollouts, folder, text = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    scored = folder / f"scale-{rollouts}.scored.jsonl"
    output = folder / ("scale.html" if command == "report" else "scale.pairs.jsonl")
    if not scored.exists():
        write_run(scored, rollouts, text.read_text(encoding="utf-8"))
    more = ["--to", "trl-dpo"] if command == "export" else []
    started_s = time.monotonic()
    started = [sys.executable, "-m", "genrm_cli", command, str(scored), "--force", "-q", "-o", str(output), *more]
    subprocess.run([*started, *sys.argv[5:]], check=True)
    wall_s, used = time.monotonic() - started_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{rollouts:,} rollouts, {scored.stat().st_size / 1e6:,.0f} MB: {wall_s:.1f} s ({used.ru_utime:.1f} s CPU), "
        f"peak {used.ru_maxrss / 1024:.0f} MB, output {output.stat().st_size:,} bytes"
    )
    if command == "report":
        measure_page(output, rollouts // SIZE)


if __name__ == "__main__":
    main()
