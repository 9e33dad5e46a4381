"""What is said of rollouts that a panel, or a judge of single responses, left without a reward."""

from test_panel import score

import genrm_cli as genrm
from genrm_cli.verdicts import Reason


def reasons(lines):
    """Return why each rollout has no reward."""
    return [line["genrm"]["reason"] for line in lines]


def test_a_grade_without_one_to_compare_it_with_names_the_failure(tmp_path, judge_server):
    """The other rollout was there, and its grade failed: that is no lack of opponents."""
    judge_server.behave(script=[{}, {"content": "Hm."}])
    given = {
        "base_url": (judge_server.base_url,),
        "model": "m",
        "profile": "nemotron-principle",
        "max_extra": 0.0,
    }
    metrics, lines, _ = score(tmp_path, 2, **given)
    assert reasons(lines) == [Reason.INCOMPLETE, Reason.INCOMPLETE]
    assert metrics["failures_by_kind"] == {"no_verdict": 1}


def test_a_grade_whose_mate_was_not_asked_was_not_asked(tmp_path, judge_server):
    """A budget that ends in the middle of a group."""
    given = {
        "base_url": (judge_server.base_url,),
        "model": "m",
        "profile": "nemotron-principle",
        "max_calls": 1,
    }
    _, lines, _ = score(tmp_path, 2, **given)
    assert reasons(lines) == [Reason.NOT_ASKED, Reason.NOT_ASKED]


def test_one_failed_grade_of_many_costs_one_reward(tmp_path, judge_server):
    """Its neighbours have each another neighbour."""
    judge_server.behave(script=[{}, {"content": "Hm."}])
    given = {
        "base_url": (judge_server.base_url,),
        "model": "m",
        "profile": "nemotron-principle",
        "max_extra": 0.0,
    }
    metrics, lines, _ = score(tmp_path, 4, **given)
    assert reasons(lines) == [None, Reason.INCOMPLETE, None, None]
    assert metrics["panel"] is None


def test_a_rollout_that_no_comparison_was_planned_for_says_so():
    """A fraction of a ring leaves rollouts out: that is no lack of opponents."""
    result = genrm.score("q", ["a", "b b", "c c c", "d", "e", "f"], judge="lexical", ring_k=0.1)
    assert result.rewards == [None] * 6
    assert result.reasons == [Reason.NOT_PLANNED] * 6


def test_the_name_of_a_group_has_no_meaning():
    """Whatever prefix a user's key has, the group has all its components."""
    tables = {
        "component": ["win_rate"],
        "total": {"weights": {"win_rate": 1.0}},
    }
    for key in ("batch-7", "ungrouped:batch-7", "line:3"):
        assert genrm.score("q", ["a", "b b"], judge="lexical", key=key, **tables).rewards == [
            0.0,
            1.0,
        ]
