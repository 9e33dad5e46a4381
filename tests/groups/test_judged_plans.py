"""Rings, orders, repeats, panels and judges that grade: what is asked under each plan, what counts,
and what is said of rollouts without a reward.
"""

import json
from functools import partial

import pytest
from genrm_process import make_rollouts
from scored_here import LEXICAL, run, settings_of

import genrm_cli as genrm
from genrm_cli.errors import InputError
from genrm_cli.verdicts import Reason

GRADING = {
    # The estimator whose rewards can be read off the verdicts.
    "estimator": "simple_tiebreaker",
    "profile": "nemotron-principle",
    "concurrency": "1",
}
FOUR = make_rollouts(groups=1)


@pytest.fixture
def judged(judged):
    """Score a group of four in order."""
    return partial(judged, FOUR, concurrency="1")


def verdict(score_1, score_2, ranking):
    """Write what a judge always says."""
    return {"score_1": score_1, "score_2": score_2, "ranking": ranking}


def test_noisy_groups_stay_unscored_when_asked(score):
    """No group is certain beyond doubt, and the reason names the setting."""
    scored = score(make_rollouts(24, 6), LEXICAL, ring_k=2.0, min_reliability=1.0)
    assert scored.metrics["unscored_reasons"] == {Reason.TOO_NOISY: 24 * 6}
    assert {*scored.rewards} == {None}


def test_a_small_input_says_nothing_of_its_noise(score):
    """Errors of one group of four would be made up: they are null, and nothing is left out for
    them.
    """
    scored = score(FOUR, LEXICAL, min_reliability=0.9)
    assert scored.metrics["reliability"]["count"] == 0
    assert {line["genrm"]["standard_error"] for line in scored.lines} == {None}
    assert scored.metrics["unscored"] == 0


def test_a_complete_journal_needs_no_judge(score, start_judge):
    """A blank response is never asked about: when all is known nobody is tried, and the judge may
    be gone.
    """
    server = start_judge()
    lines = [*FOUR[:3], FOUR[3] | {"completion": ""}]
    toml = f"model = 'm'\nbase_url = '{server.base_url}'\n[components.care]\nkind = 'rubric'\n"
    toml += "set = 'therapeutic'\n"
    first = score(lines, toml).metrics
    server.kill()
    again = score(lines, toml, give_up_after=1.0).metrics
    assert again["calls"] == 0
    assert again["comparisons_planned"] == first["comparisons_planned"] == 3 + 3


def test_a_group_that_is_too_large_is_refused_before_anything_is_asked(tmp_path):
    """The message names the group, its size, the limit and the setting that splits it."""
    texts = [str(number) for number in range(2_049)]
    says = r"group 'prompt:.*' has 2,049 rollouts; at most 2,048 .* group_by"
    with pytest.raises(InputError, match=says):
        genrm.score("q", texts, judge="lexical")
    lines = "".join(f'{{"prompt": "q", "completion": "{text}"}}\n' for text in texts)
    (tmp_path / "in.jsonl").write_text(lines)
    assert isinstance(run(tmp_path, settings_of(LEXICAL)).error, InputError)


@pytest.mark.parametrize("strategy", ["circular", "all_pairs"])
def test_a_judge_without_bias_never_flips(judged, strategy):
    """The verdict by length follows the swap; every pair is asked twice, once in each order."""
    scored = judged(strategy=strategy, both_orders=True)
    orders = {(record["i"], record["j"]) for record in scored.comparisons}
    assert orders == {(j, i) for i, j in orders}
    assert len(scored.comparisons) == len(orders) == scored.metrics["comparisons_planned"]
    assert len(orders) == 2 * scored.metrics["pairs_in_both_orders"]
    assert scored.metrics["flip_rate"] == 0.0


def test_a_judge_that_likes_the_first_place_always_flips(judged, judge_server):
    """Its preference shows in the metrics, and both orders together keep it out of the rewards."""
    judge_server.behave(verdict=verdict(5, 1, 1))
    scored = judged(both_orders=True)
    assert scored.metrics["flip_rate"] == 1.0
    assert scored.metrics["first_place_win_rate"] == 1.0
    assert {*scored.rewards} == {3.0}


def test_a_verdict_counts_without_the_other_order(judged, judge_server):
    """Three of four verdicts are enough for a reward."""
    judge_server.behave(script=[{"status": 500}])
    scored = judged(both_orders=True, max_extra=0.0)
    assert scored.metrics["failures"] == 1
    assert scored.metrics["verdicts"] == 7
    assert scored.metrics["pairs_in_both_orders"] == 3
    failed = next(record for record in scored.comparisons if record["failure"])
    made = [line["genrm"]["comparisons"] for line in scored.lines]
    assert made == [3 if index in (failed["i"], failed["j"]) else 4 for index in range(4)]


def test_repeats_tell_how_often_they_agree(judged, judge_server):
    """A judge that changes its mind on one of four comparisons agrees in three of four pairs of
    repeats.
    """
    changed = {"content": json.dumps(verdict(2, 4, 5))}
    judge_server.behave(verdict=verdict(4, 2, 2), script=[{}] * 7 + [changed])
    metrics = judged(repeats=2).metrics
    assert metrics["repeat_agreement"] == 0.75
    assert metrics["flip_rate"] is None


@pytest.fixture
def with_panel(score):
    """Score with two judges at once; further lines are settings of the second one."""

    def with_panel(*servers, lines=FOUR, own="", **flags):
        toml = "".join(
            f"[[judge]]\nmodel = '{model}'\nbase_url = '{server.base_url}'\n"
            for model, server in zip("ab", servers, strict=True)
        )
        return score(lines, toml + own, concurrency="1", **flags)

    return with_panel


def test_each_judge_of_a_panel_is_asked_about_every_comparison(judged, with_panel, judge_server):
    """Judges that agree have alpha and tau 1; each has its own records, and a second run asks none
    of them again.
    """
    own = "profile = 'nemotron'\n"
    metrics, lines, comparisons, _ = with_panel(judge_server, judge_server, own=own)
    alone = judged()
    assert [line["reward"] for line in lines] == alone.rewards
    assert sorted(record["judge"] for record in comparisons) == ["a"] * 4 + ["b"] * 4
    assert metrics["calls"] == metrics["comparisons_planned"] == 8
    assert alone.metrics["comparisons_planned"] == 4
    figures = metrics["panel"]
    assert [(one["judge"], one["verdicts"]) for one in figures["judges"]] == [("a", 4), ("b", 4)]
    assert figures["krippendorff_alpha"] == 1.0
    assert figures["correlation"] == pytest.approx(1.0)
    assert metrics["judge"]["name"] == "a + b"
    assert with_panel(judge_server, judge_server, own=own).metrics["calls"] == 0


def test_the_verdict_of_a_panel_is_the_mean(with_panel, judge_server, start_judge):
    """One judge says 5, 1 always, the other one 2, 4: together 3.5 and 2.5."""
    judge_server.behave(verdict=verdict(5, 1, 1))
    second = start_judge()
    second.behave(verdict=verdict(2, 4, 5))
    scored = with_panel(judge_server, second, lines=FOUR[:2])
    assert scored.rewards == [3.0, 3.0]
    assert scored.metrics["mean_individual_score"] == pytest.approx(3.0)
    assert scored.metrics["std_individual_score"] == pytest.approx(0.5)
    assert scored.metrics["panel"]["krippendorff_alpha"] < 0


def test_a_comparison_counts_with_the_verdicts_that_came(
    judged, with_panel, judge_server, start_judge
):
    """One judge of two that fails leaves the other's verdicts, which are half of those planned."""
    second = start_judge()
    second.behave(fault={"content": "no idea"})
    scored = with_panel(judge_server, second, max_extra=0.0)
    assert scored.metrics["unscored_reasons"] == {Reason.INCOMPLETE: 4}
    scored = with_panel(judge_server, second, max_extra=0.0, min_verdicts=0.5)
    assert scored.metrics["unscored_reasons"] == {}
    assert scored.rewards == judged().rewards
    assert [one["failures"] for one in scored.metrics["panel"]["judges"]] == [0, 4]


def test_a_judge_of_single_responses_is_asked_once_about_each(judged):
    """Its grade is the reward, whatever the strategy; a comparison costs no further call."""
    scored = judged(**GRADING)
    assert scored.metrics["calls"] == scored.metrics["comparisons_planned"] == 4
    assert [(record["i"], record["j"]) for record in scored.comparisons] == [
        (place, None) for place in range(4)
    ]
    assert scored.rewards == pytest.approx([each["grades"][0] for each in scored.comparisons])
    assert judged(**GRADING, strategy="all_pairs").metrics["calls"] == 0
    assert len({*scored.rewards}) > 1


def test_a_judge_of_whole_groups_is_asked_once_a_group(judged):
    """Each repeat shows the group in another order, and the grades find their rollouts again."""
    scored = judged(**GRADING | {"profile": "rewardanything"}, repeats=3)
    assert scored.metrics["calls"] == 3
    assert len({tuple(record["shown"]) for record in scored.comparisons}) > 1
    for record in scored.comparisons:
        grades = [record["grades"][record["shown"].index(place)] for place in range(4)]
        assert scored.rewards == pytest.approx(grades)


@pytest.mark.parametrize(
    ("size", "limit", "reasons"),
    [
        # The other rollout was there, and its grade failed: that is no lack of opponents.
        (2, {"max_extra": 0.0}, [Reason.INCOMPLETE] * 2),
        # Its neighbours have each another neighbour.
        (4, {"max_extra": 0.0}, [None, Reason.INCOMPLETE, None, None]),
        # A budget that ends in the middle of a group.
        (2, {"max_calls": 1}, [Reason.NOT_ASKED] * 2),
    ],
)
def test_a_grade_that_is_missing_costs_no_more_than_it_must(
    score, judge_server, size, limit, reasons
):
    """What has no grade to compare it with names the failure, or that nobody was asked."""
    judge_server.behave(script=[{}, {"content": "Hm."}])
    toml = f"model = 'm'\nbase_url = '{judge_server.base_url}'\n"
    scored = score(FOUR[:size], toml, **GRADING, **limit)
    assert scored.reasons == reasons
    assert scored.metrics["panel"] is None
    kind = "no_verdict" if "max_extra" in limit else "not_asked"
    assert scored.metrics["failures_by_kind"] == {kind: 1}


def test_a_rollout_that_no_comparison_was_planned_for_says_so():
    """A fraction of a ring leaves rollouts out: that is no lack of opponents."""
    result = genrm.score("q", ["a", "b b", "c c c", "d", "e", "f"], judge="lexical", ring_k=0.1)
    assert result.rewards == [None] * 6
    assert result.reasons == [Reason.NOT_PLANNED] * 6


def test_the_name_of_a_group_has_no_meaning():
    """Whatever prefix a user's key has, the group has all its components."""
    tables = {"component": ["win_rate"], "total": {"weights": {"win_rate": 1.0}}}
    for key in ("batch-7", "ungrouped:batch-7", "line:3"):
        result = genrm.score("q", ["a", "b b"], judge="lexical", key=key, **tables)
        assert result.rewards == [0.0, 1.0]
