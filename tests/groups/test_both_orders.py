"""Both orders of a pair, and repeats: what they tell of a judge, and what rewards rest on."""

import json

import pytest
from genrm_process import make_rollouts
from scored_components import score_with

from genrm_cli.settings import settings_from


def score(folder, judge, **given):
    """Score one group of four; return metrics, scored lines and comparisons."""
    once = {
        "probe": False,
        "retries": 0,
        "use_journal": False,
        "concurrency": "1",
    }
    settings = settings_from(base_url=(judge.base_url,), model="m", force=True, **once, **given)
    return score_with(folder, make_rollouts(groups=1, size=4), settings)[:3]


@pytest.mark.parametrize("strategy", ["circular", "all_pairs"])
def test_a_judge_without_bias_never_flips(tmp_path, judge_server, strategy):
    """The verdict by length follows the swap; every pair is asked twice, once in each order."""
    metrics, _, comparisons = score(tmp_path, judge_server, strategy=strategy, both_orders=True)
    orders = {(record["i"], record["j"]) for record in comparisons}
    assert orders == {(j, i) for i, j in orders}
    assert (
        len(comparisons)
        == len(orders)
        == metrics["comparisons_planned"]
        == 2 * metrics["pairs_in_both_orders"]
    )
    assert metrics["flip_rate"] == 0.0


def test_a_judge_that_likes_the_first_place_always_flips(tmp_path, judge_server):
    """Its preference shows in the metrics, and both orders together keep it out of the rewards."""
    judge_server.behave(
        verdict={
            "score_1": 5,
            "score_2": 1,
            "ranking": 1,
        }
    )
    metrics, lines, _ = score(tmp_path, judge_server, both_orders=True)
    assert metrics["flip_rate"] == 1.0
    assert metrics["first_place_win_rate"] == 1.0
    assert {line["reward"] for line in lines} == {3.0}


def test_a_verdict_counts_without_the_other_order(tmp_path, judge_server):
    """Three of four verdicts are enough for a reward."""
    judge_server.behave(script=[{"status": 500}])
    metrics, lines, comparisons = score(tmp_path, judge_server, both_orders=True, max_extra=0)
    assert metrics["failures"] == 1
    assert metrics["verdicts"] == 7
    assert metrics["pairs_in_both_orders"] == 3
    failed = next(record for record in comparisons if record["failure"])
    touched = {failed["i"], failed["j"]}
    made = [line["genrm"]["comparisons"] for line in lines]
    assert made == [3 if line["genrm"]["index"] in touched else 4 for line in lines]


def test_repeats_tell_how_often_they_agree(tmp_path, judge_server):
    """A judge that changes its mind on one of four comparisons agrees in three of four pairs of
    repeats.
    """
    first = {
        "score_1": 4,
        "score_2": 2,
        "ranking": 2,
    }
    second = {
        "score_1": 2,
        "score_2": 4,
        "ranking": 5,
    }
    judge_server.behave(verdict=first, script=[{}] * 7 + [{"content": json.dumps(second)}])
    metrics, _, _ = score(tmp_path, judge_server, repeats=2)
    assert metrics["repeat_agreement"] == 0.75
    assert metrics["flip_rate"] is None
