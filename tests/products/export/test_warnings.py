"""What an export says about the rewards behind its rows."""

import pytest
from genrm_process import make_rollouts, read_lines


def exported(call, to):
    """Return what the export of `in.scored.jsonl` says, in one line."""
    done = call("export", "in.scored.jsonl", "--to", to, "-o", f"{to}.jsonl").ended(0)
    return " ".join(done.err.split())


def test_rows_of_noise_are_named_with_a_remedy(genrm, call, judge_server):
    """A judge that answers at random gives rows, and a warning that no plan makes them better."""
    judge_server.behave(verdict="hash")
    genrm.write("in.jsonl", make_rollouts(groups=60, size=6))
    call("score", "in.jsonl", *judge_server.flags, "--no-probe", "-q").ended(0)
    said = exported(call, "trl-dpo")
    assert "in.scored.jsonl: train on it: no. Mean reliability" in said
    assert "try another judge or profile" in said


def test_lines_without_an_account_name_the_baseline(genrm, call):
    """Without a metrics file the lines still say who judged them."""
    genrm.write("in.jsonl", make_rollouts(groups=4, size=6))
    call("score", "in.jsonl", "--offline", "-q").ended(0)
    (genrm.folder / "in.metrics.json").unlink()
    assert "not by a reward model: do not train on this" in exported(call, "trl-dpo")


def test_all_groups_of_the_input_are_counted(genrm, call):
    """Whatever was exported of them."""
    genrm.write("in.jsonl", make_rollouts(groups=4, size=6))
    call("score", "in.jsonl", "--offline", "-q").ended(0)
    lines = read_lines(genrm.folder / "in.scored.jsonl")
    genrm.write("in.review.jsonl", [{**line["genrm"], "status": "held"} for line in lines[6:]])
    assert "rows: 1 train; from 24 rollouts in 4 groups" in exported(call, "trl-dpo")


@pytest.mark.parametrize(("goal", "suits"), [("best", "trl-sft"), ("pair", "trl-dpo")])
def test_rewards_for_a_goal_suit_the_rows_of_that_goal(genrm, call, judge_server, goal, suits):
    """Calls that looked for the best or for a pair say less about the other rollouts."""
    genrm.write("in.jsonl", make_rollouts(groups=3, size=6))
    flags = ("--no-probe", "-q", "--ring-k", "1.5")
    call("score", "in.jsonl", *judge_server.flags, *flags, "--goal", goal).ended(0)
    warning = f"was scored with goal {goal}: the rewards of the other rollouts are less accurate"
    assert warning in exported(call, "verl")
    assert warning not in exported(call, suits)
