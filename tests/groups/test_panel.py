"""Several judges at once, and judges that grade instead of comparing: what they are asked, and what
counts.
"""

import pytest
from genrm_process import make_rollouts
from scored_components import score_with

from genrm_cli.settings import settings_from
from genrm_cli.settings.judge_settings import PanelJudge
from genrm_cli.verdicts import Reason

QUICK = {
    "probe": False,
    "retries": 0,
    "concurrency": "1",
    "force": True,
}
MEAN = "simple_tiebreaker"  # the estimator whose rewards can be read off the verdicts


def score(folder, size=4, **given):
    """Score one group; return metrics, scored lines and comparisons."""
    return score_with(folder, make_rollouts(groups=1, size=size), settings_from(**QUICK | given))[
        :3
    ]


def judge(server, model, **own):
    """Return one judge of a panel."""
    return PanelJudge(
        tuple(
            sorted(
                {
                    "model": model,
                    "base_url": (server.base_url,),
                    **own,
                }.items()
            )
        ),
    )


def test_each_judge_of_a_panel_is_asked_about_every_comparison(tmp_path, judge_server):
    """Judges that agree have alpha and tau 1; each has its own records, and a second run asks none
    of them again.
    """
    panel = (judge(judge_server, "a"), judge(judge_server, "b", profile="nemotron-plain"))
    metrics, lines, comparisons = score(tmp_path, panel=panel)
    alone, alone_lines, _ = score(tmp_path, base_url=(judge_server.base_url,), model="a")
    assert [line["reward"] for line in lines] == [line["reward"] for line in alone_lines]
    assert sorted(record["judge"] for record in comparisons) == ["a"] * 4 + ["b"] * 4
    assert metrics["calls"] == 8
    assert metrics["comparisons_planned"] == 8
    assert alone["comparisons_planned"] == 4
    figures = metrics["panel"]
    assert [(one["judge"], one["verdicts"]) for one in figures["judges"]] == [("a", 4), ("b", 4)]
    assert figures["krippendorff_alpha"] == 1.0
    assert figures["correlation"] == pytest.approx(1.0)
    assert metrics["judge"]["name"] == "a + b"
    assert score(tmp_path, panel=panel)[0]["calls"] == 0


def test_a_judge_that_adds_nothing_does_not_raise_the_reliability_of_a_run(
    tmp_path, judge_server, start_judge
):
    """Beside a judge of length, one of random verdicts lowers the reliability to what both have in
    common.
    """
    other = start_judge()
    other.behave(verdict="random")
    lines = make_rollouts(groups=24, size=6)
    alone = settings_from(**QUICK, base_url=(judge_server.base_url,), model="a")
    panel = settings_from(**QUICK, panel=(judge(judge_server, "a"), judge(other, "b")))
    found = [score_with(tmp_path, lines, settings)[0] for settings in (alone, panel)]
    correlation = max(0.0, found[1]["panel"]["correlation"])
    least, most = found[1]["reliability_interval"]
    in_common = 2 * correlation / (1 + correlation)  # the most that two judges can have
    assert found[1]["reliability"]["mean"] <= in_common + 1e-9
    assert in_common < found[0]["reliability"]["mean"] - 0.3
    assert least <= found[1]["reliability"]["mean"] <= most


def test_the_verdict_of_a_panel_is_the_mean(tmp_path, judge_server, start_judge):
    """One judge says 5, 1 always, the other one 2, 4: together 3.5 and 2.5."""
    judge_server.behave(
        verdict={
            "score_1": 5,
            "score_2": 1,
            "ranking": 1,
        }
    )
    second = start_judge()
    second.behave(
        verdict={
            "score_1": 2,
            "score_2": 4,
            "ranking": 5,
        }
    )
    panel = (judge(judge_server, "a"), judge(second, "b"))
    metrics, lines, _ = score(tmp_path, 2, panel=panel)
    assert [line["reward"] for line in lines] == [3.0, 3.0]
    assert metrics["mean_individual_score"] == pytest.approx(3.0)
    assert metrics["std_individual_score"] == pytest.approx(0.5)
    assert metrics["panel"]["krippendorff_alpha"] < 0


def test_a_comparison_counts_with_the_verdicts_that_came(tmp_path, judge_server, start_judge):
    """One judge of two that fails leaves the other's verdicts, which are half of those planned."""
    second = start_judge()
    second.behave(fault={"content": "no idea"})
    panel = (judge(judge_server, "a"), judge(second, "b"))
    metrics, lines, _ = score(tmp_path, panel=panel, max_extra=0)
    assert metrics["unscored_reasons"] == {Reason.INCOMPLETE: 4}
    metrics, lines, _ = score(tmp_path, panel=panel, max_extra=0, min_verdicts=0.5)
    _, alone, _ = score(tmp_path, base_url=(judge_server.base_url,), model="a")
    assert metrics["unscored_reasons"] == {}
    assert [line["reward"] for line in lines] == [line["reward"] for line in alone]
    assert [one["failures"] for one in metrics["panel"]["judges"]] == [0, 4]


def test_a_judge_of_single_responses_is_asked_once_about_each(tmp_path, judge_server):
    """Its grade is the reward, whatever the strategy; a comparison costs no further call."""
    given = {
        "base_url": (judge_server.base_url,),
        "model": "m",
        "profile": "nemotron-principle",
        "estimator": MEAN,
    }
    metrics, lines, comparisons = score(tmp_path, **given)
    assert metrics["calls"] == 4
    assert metrics["comparisons_planned"] == 4
    assert [(record["i"], record["j"]) for record in comparisons] == [
        (place, None) for place in range(4)
    ]
    assert [line["reward"] for line in lines] == pytest.approx(
        [record["grades"][0] for record in comparisons]
    )
    assert score(tmp_path, **given, strategy="all_pairs")[0]["calls"] == 0
    assert len({line["reward"] for line in lines}) > 1


def test_a_judge_of_whole_groups_is_asked_once_a_group(tmp_path, judge_server):
    """Each repeat shows the group in another order, and the grades find their rollouts again."""
    given = {
        "base_url": (judge_server.base_url,),
        "model": "m",
        "profile": "rewardanything",
        "estimator": MEAN,
    }
    metrics, lines, comparisons = score(tmp_path, repeats=3, **given)
    assert metrics["calls"] == 3
    assert len({tuple(record["shown"]) for record in comparisons}) > 1
    answers = [
        record["grades"][record["shown"].index(place)]
        for place in range(4)
        for record in comparisons
    ]
    assert [line["reward"] for line in lines] == pytest.approx(answers[::3])
