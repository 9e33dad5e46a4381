"""A whole run gives the same numbers with the arithmetic of every processor, which CI tries."""

import json
from pathlib import Path

from genrm_process import make_rollouts, read_lines

GOLDEN = Path(__file__).with_name("whole_run.json")
ESTIMATORS = ("adaptive", "combined", "bradley_terry")
NUMBERS = ("base_score", "standard_error", "rank", "advantage", "reliability")


def test_a_whole_run_is_equal_on_every_processor(genrm, call, judge_server, tmp_path):
    """To the last digit; the failure says how to renew the file after a change of rewards."""
    judge_server.behave(verdict="hash", fault={"content": "no verdict"}, fault_share=0.1)
    genrm.write("in.jsonl", make_rollouts(groups=12, size=5))
    flags = ("--no-probe", "--no-journal", "--force", "--reask", 0, "--both-orders", "--ring-k", 2)
    lines = []
    for estimator in ESTIMATORS:
        call("score", "in.jsonl", *judge_server.flags, *flags, "--estimator", estimator).ended(0)
        for line in read_lines(genrm.folder / "in.scored.jsonl"):
            numbers = [line["reward"], *(line["genrm"][name] for name in NUMBERS)]
            lines.append(json.dumps([estimator, line["id"], *numbers]))
    found = "[\n" + ",\n".join(lines) + "\n]\n"
    renewed = tmp_path / GOLDEN.name
    renewed.write_text(found)
    assert found == GOLDEN.read_text(), f"if this is meant: cp {renewed} {GOLDEN}"
