"""What an export says about the rewards behind its rows."""

import pytest
from genrm_process import make_rollouts


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
    assert "reliability of the rewards of in.scored.jsonl is low" in said
    assert "try another judge or profile" in said


@pytest.mark.parametrize(
    ("goal", "suits"),
    [
        ("best", "trl-sft"),
        ("pair", "trl-dpo"),
    ],
)
def test_rewards_for_a_goal_suit_the_rows_of_that_goal(genrm, call, judge_server, goal, suits):
    """Calls that looked for the best or for a pair say less about the other rollouts."""
    genrm.write("in.jsonl", make_rollouts(groups=3, size=6))
    run = (
        "score",
        "in.jsonl",
        *judge_server.flags,
        "--no-probe",
        "-q",
        "--ring-k",
        "1.5",
    )
    call(*run, "--goal", goal).ended(0)
    warning = f"was scored with goal {goal}: the rewards of the other rollouts are less accurate"
    assert warning in exported(call, "verl")
    assert warning not in exported(call, suits)
