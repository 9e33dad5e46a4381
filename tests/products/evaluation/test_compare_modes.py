"""A judge of lists is measured on lists: all responses of a labelled line in one call."""

import json

import pytest

from genrm_cli.pairing.lists import ListPlan
from genrm_cli.products.evaluation.pair_job import ListsInBothOrders

WORDS = "word " * 8


@pytest.fixture
def lines(genrm):
    """Write three lines with one long answer and three shorter ones, and one line of a pair."""
    several = [
        {
            "prompt": f"Why {number}?",
            "chosen": [WORDS * 4],
            "rejected": [WORDS, WORDS * 2, WORDS * 3],
        }
        for number in range(3)
    ]
    genrm.write("pairs.jsonl", [*several, {"prompt": "Q?", "chosen": WORDS, "rejected": "no"}])
    return genrm


def test_both_modes_are_compared_on_the_same_lines(lines, call, judge_server):
    """Two orders of a line are two lists or six pairs; a pair costs its share of a list."""
    flags = ("eval", "pairs.jsonl", *judge_server.flags, "--no-probe", "--compare-modes")
    plans = json.loads(call(*flags, "--dry-run", "--json").ended(0).out)
    assert {name: plan["planned"] for name, plan in plans.items()} == {
        "judging pairwise": 20,
        "judging listwise": 8,
    }
    found = json.loads(call(*flags, "--json").ended(0).out)
    assert [(cell["name"], cell["calls"]) for cell in found["cells"]] == [
        ("judging pairwise", 20),
        ("judging listwise", 8),
    ]
    assert [cell["figures"]["accuracy"]["value"] for cell in found["cells"]] == [1, 1]
    assert [cell["figures"]["consistent_accuracy"]["pairs"] for cell in found["cells"]] == [10, 10]
    costs = {(each["cell"], each["orders"]): each["cost"] for each in found["options"]}
    spent = found["cells"][1]["prompt_tokens"] + found["cells"][1]["completion_tokens"]
    assert costs["judging listwise", 1] == pytest.approx(spent / 20)
    assert costs["judging listwise", 1] < costs["judging pairwise", 1]
    assert 0.9 < found["agreement"]["value"] < 1.0  # the scales of both modes differ
    said = call(*flags).ended(0).out.decode()
    assert "The two ways agree by 0.9" in said
    done = call(*flags, "--grid", "x.toml").ended(2)
    assert "--grid has no effect with --compare-modes" in done.err


@pytest.mark.parametrize("n", [2, 3, 6, 8])
def test_lists_show_each_pair_in_both_orders(n):
    """Every second list is the reverse of the one before; a pair has the orders of pairwise."""
    lists = list(ListsInBothOrders(8, 4).iter_lists(n, "key"))
    assert [each.repeat for each in lists] == [0, 1, 2, 3]
    assert [each.shown for each in lists[1::2]] == [each.shown[::-1] for each in lists[::2]]
    assert lists[::2] == [
        each._replace(repeat=2 * each.repeat) for each in ListPlan(8, 2).iter_lists(n, "key")
    ]


def test_a_line_that_is_longer_than_a_list_is_shown_as_pairs(lines, call, judge_server):
    """With lists of three, the four responses of a line are three pairs."""
    flags = ("--judging", "listwise", "--list-size", "3", "--no-probe", "--dry-run", "--json")
    plan = json.loads(call("eval", "pairs.jsonl", *judge_server.flags, *flags).ended(0).out)
    assert plan["planned"] == 20
