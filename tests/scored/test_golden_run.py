"""Whole runs give the same outputs on every processor, to the last byte of every number.

`make test-numeric` runs this with the arithmetic of other processors. After a change that is meant
to change numbers: `GOLDEN=write .venv/bin/python -m pytest tests/scored/test_golden_run.py`.
"""

import json
import os
from pathlib import Path
from random import Random

import pytest
from genrm_process import read_lines

GOLDEN = Path(__file__).with_name("golden_runs.json")
WORDS = ("calm", "river", "stone", "window", "garden", "paper", "copper", "winter", "engine")
# What a run says about when and where it ran, and how long it took.
ELSEWHERE = {
    *("input", "output", "output_mark", "time", "versions", "journal", "settings_digest"),
    *("wall_time_s", "latency", "judge", "reading_version"),
}
PANEL = """
[[judge]]
model = "one"
profile = "nemotron-plain"
base_url = "{url}"
[[judge]]
model = "two"
profile = "json"
base_url = "{url}"
"""
RUNS = {
    "adaptive": ("--ring-k", "1.5"),
    "advantages": ("--ring-k", "2.5", "--advantage", "reliability"),
    "orders": ("--strategy", "all_pairs", "--both-orders"),
    "terms": ("--ring-k", "2", "--preset", "nemotron-3-super", "--component", "rank:genrm"),
    "best": ("--ring-k", "2", "--goal", "best"),
    "gym": ("--compat", "nemo-gym", "--strategy", "all_pairs"),
    "panel": ("--ring-k", "2", "--config", "panel.toml"),
    "decimals": ("--ring-k", "3", "--judge", "lexical"),
}


def make_lines():
    """Make groups of 2 to 8 rollouts, some of them equal or empty."""
    random = Random(7)
    lines = []
    for group, size in enumerate((6, 6, 8, 3, 6, 2, 8, 6, 6, 4, 6, 6)):
        for place in range(size):
            text = " ".join(random.choices(WORDS, k=random.randint(0 if place == 1 else 3, 40)))
            text = lines[-1]["completion"] if place == 4 else text
            lines.append({"prompt": f"Describe {group}.", "completion": text, "id": len(lines)})
    return lines


def numbers_of(genrm, name):
    """Return what a run wrote: its lines without texts, its comparisons, and its figures."""
    folder = genrm.folder
    lines = [
        {"reward": line["reward"], **line["genrm"]}
        for line in read_lines(folder / f"{name}.scored.jsonl")
    ]
    kept = ("reward", "base_score", "standard_error", "rank", "advantage", "reliability", "reason")
    comparisons = read_lines(folder / f"{name}.comparisons.jsonl")
    metrics = json.loads((folder / f"{name}.metrics.json").read_bytes())
    return {
        "lines": [[line[field] for field in kept] for line in lines],
        "comparisons": [
            f"{each['judge']} {each['i']} {each['j']} {each['score_1']} {each['score_2']}"
            for each in comparisons
        ],
        "figures": {field: value for field, value in metrics.items() if field not in ELSEWHERE},
    }


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_equal_on_every_processor(genrm, call, judge_server, name):
    """Rewards, ranks, errors, the pairs that a goal chooses, and all figures."""
    judge_server.behave(verdict="hash")
    genrm.write("in.jsonl", make_lines())
    (genrm.folder / "panel.toml").write_text(PANEL.format(url=judge_server.base_url))
    flags = RUNS[name]
    flags += () if {"--judge", "--config"} & {*flags} else judge_server.flags
    output = ("-o", f"{name}.scored.jsonl", "--max-unscored", "1", "--no-probe")
    call("score", "in.jsonl", *flags, *output).ended(0)
    made = numbers_of(genrm, name)
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("GOLDEN") == "write":
        known[name] = made
        rows = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(known.items()))
        GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    of_figures = known[name]["figures"]
    made["figures"] = {field: made["figures"].get(field) for field in of_figures}
    assert made == known[name]
