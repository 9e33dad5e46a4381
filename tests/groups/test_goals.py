"""Runs that look for the best rollout, or for the best and the worst."""

from functools import partial

import pytest
from genrm_process import make_rollouts
from scored_here import dry_run, judge, refusals

from genrm_cli.groups.compile import compile_plan

GOALS = pytest.mark.parametrize("goal", ["best", "pair"])
SILENT = {"content": "no verdict"}
COSTS = [
    "latency_s",
    "from_journal",
    "attempts",
    "prompt_tokens",
    "completion_tokens",
    "journal_key",
]


@pytest.fixture
def judged(judged):
    """Score by a ring and a half."""
    return partial(judged, ring_k=1.5, max_unscored="1")


def verdicts_of(scored):
    """Return scored lines and comparisons without what they cost."""
    kept = [
        {name: value for name, value in record.items() if name not in COSTS}
        for record in scored.comparisons
    ]
    return scored.lines, kept


@GOALS
def test_the_dry_run_tells_the_calls(tmp_path, judged, judge_server, goal):
    """Verdicts decide which pairs are asked, not how many; each is asked once, failed or not, and
    copies nothing.
    """
    judge_server.behave(verdict="hash", fault=SILENT, fault_share=0.2)
    lines = [*make_rollouts(groups=3, size=6), *make_rollouts(groups=5, size=3)[9:]]
    given = {"goal": goal, "max_extra": 0.0}
    scored = judged([*lines, lines[0] | {"id": "copy"}], **given)
    told = dry_run(tmp_path, judge(judge_server), ring_k=1.5, **given).plan.planned
    assert judge_server.stats()["requests"] == told == scored.metrics["calls"]
    pairs = {(each["group"], each["i"], each["j"]) for each in scored.comparisons}
    assert len(pairs) == len(scored.comparisons) == told


@GOALS
def test_a_stopped_run_is_resumed_without_paying_twice(judged, judge_server, goal):
    """The resumed run follows the verdicts of the first one to the same pairs, and writes the same
    rewards.
    """
    lines = make_rollouts(groups=4, size=6)
    judge_server.behave(verdict="hash")
    whole = judged(lines, goal=goal, use_journal=False)
    planned = judge_server.stats()["requests"]
    judged(lines, goal=goal, max_calls=17, concurrency="4")
    assert verdicts_of(judged(lines, goal=goal)) == verdicts_of(whole)
    assert judge_server.stats()["requests"] == 2 * planned


def test_errors_and_reliability_are_unknown(judged, judge_server):
    """The plan chose verdicts by their noise: nothing is said about it."""
    judge_server.behave(verdict="hash")
    scored = judged(make_rollouts(groups=12, size=4), goal="best")
    details = [line["genrm"] for line in scored.lines]
    assert {(each["standard_error"], each["reliability"]) for each in details} == {(None, None)}
    assert scored.metrics["reliability"]["count"] == 0


def test_what_a_goal_excludes_is_refused():
    """The message names the setting to leave out."""
    toml = "base_url = 'http://localhost/v1'\nmodel = 'm'\ngoal = 'best'\n"
    cases = [
        (f"{toml}strategy = 'all_pairs'", "strategy has no effect"),
        (f"{toml}both_orders = true", "both_orders"),
        (f"{toml}min_reliability = 0.5", "min_reliability has no effect"),
        (f"{toml}profile = 'rewardanything'", "judges that grade responses"),
    ]
    refusals(cases, compile_plan)


@GOALS
def test_a_rollout_whose_comparisons_failed_is_compared_again(judged, judge_server, goal):
    """With a tenth of the requests always without a verdict, 3 % of the rollouts at most have no
    reward.
    """
    judge_server.behave(verdict="hash", fault=SILENT, fault_share=0.1)
    lines = make_rollouts(groups=8, size=8)
    metrics = judged(lines, goal=goal, max_extra=0.0, min_verdicts=0.0).metrics
    assert metrics["calls"] == metrics["comparisons_planned"] == 8 * 12
    assert metrics["failures"] > 2
    assert metrics["unscored"] <= 2
