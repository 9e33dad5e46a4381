"""What an export says about the rewards behind its rows."""

import pytest


@pytest.fixture
def exported(call):
    """Return what the export of `in.scored.jsonl` says, in one line."""

    def run(to="trl-dpo"):
        done = call(f"export in.scored.jsonl --to {to} -o {to}.jsonl").ended(0)
        return " ".join(done.err.split())

    return run


def test_rows_of_noise_are_named_with_a_remedy(genrm, call_judged, judge_server, exported):
    """A judge that answers at random gives rows, and a warning that no plan makes them better."""
    judge_server.behave(verdict="hash")
    genrm.rollouts(60, 6)
    call_judged("score in.jsonl --no-probe -q").ended(0)
    said = exported()
    assert "in.scored.jsonl: train on it: no. Mean reliability" in said
    assert "try another judge or profile" in said


def test_lines_without_an_account_name_the_baseline(genrm, call, exported):
    """Without a metrics file the lines still say who judged them."""
    genrm.rollouts(4, 6)
    call("score in.jsonl --offline -q").ended(0)
    (genrm.folder / "in.metrics.json").unlink()
    assert "not by a reward model: do not train on this" in exported()


def test_all_groups_of_the_input_are_counted(genrm, call, exported):
    """Whatever was exported of them."""
    genrm.rollouts(4, 6)
    call("score in.jsonl --offline -q").ended(0)
    held = [{**line["genrm"], "status": "held"} for line in genrm.lines()[6:]]
    genrm.write("in.review.jsonl", held)
    assert "rows: 1 train; from 24 rollouts in 4 groups" in exported()


@pytest.mark.parametrize(("goal", "suits"), [("best", "trl-sft"), ("pair", "trl-dpo")])
def test_rewards_for_a_goal_suit_the_rows_of_that_goal(genrm, call_judged, exported, goal, suits):
    """Calls that looked for the best or for a pair say less about the other rollouts."""
    genrm.rollouts(3, 6)
    call_judged(f"score in.jsonl --no-probe -q --ring-k 1.5 --goal {goal}").ended(0)
    warning = f"was scored with goal {goal}: the rewards of the other rollouts are less accurate"
    assert warning in exported("verl")
    assert warning not in exported(suits)
