"""Lines with several pairs by the rules of their benchmarks."""

import pytest
from judged_pairs import judged_pair

from genrm_cli.products.evaluation.accuracy import accuracy_of
from genrm_cli.products.evaluation.benchmarks import benchmark_scores
from genrm_cli.verdicts import FailureKind

RIGHT = "right"
WRONG = "wrong"
TIE = "tie"
LOST = FailureKind.TIMEOUT
CHOICE = "RewardBench 2"


def prompt_of(*results, item="a", category="x"):
    """Return the pairs of a prompt with one right response and several wrong ones."""
    return [
        judged_pair(*result, item, category=category, places=(0, number))
        for number, result in enumerate(results)
    ]


@pytest.mark.parametrize(
    ("results", "credit"),
    [
        ([(RIGHT, RIGHT)] * 3, 1),
        ([(RIGHT, RIGHT), (RIGHT, RIGHT), (WRONG, WRONG)], 0),
        ([(RIGHT, RIGHT), (RIGHT, WRONG), (RIGHT, RIGHT)], 1 / 2),
        ([(TIE, TIE)] * 3, 1 / 4),
    ],
)
def test_a_prompt_counts_once_whatever_its_pairs(results, credit):
    """One lost pair loses the prompt, whose pairs may look two thirds right; a top that k responses
    share is 1 / k, as in RewardBench 2's own code.
    """
    records = prompt_of(*results)
    assert benchmark_scores(records)[CHOICE].share.value == pytest.approx(credit)
    if results[2] == (WRONG, WRONG):
        assert accuracy_of(records).value == pytest.approx(2 / 3)


def test_categories_count_alike():
    """RewardBench 2 averages its subsets, however many prompts they have."""
    good = [(RIGHT, RIGHT)] * 3
    bad = [(WRONG, WRONG)] * 3
    records = [
        *prompt_of(*good, item="1", category="maths"),
        *prompt_of(*bad, item="2", category="maths"),
        *prompt_of(*good, item="3", category="maths"),
        *prompt_of(*bad, item="4", category="safety"),
    ]
    found = benchmark_scores(records)[CHOICE]
    assert found.share.value == 0.5
    assert found.of_categories == pytest.approx((2 / 3 + 0) / 2)


def test_lists_of_equal_length_are_styles_and_others_have_no_rule():
    """Hard is above the diagonal, easy below; a tie is wrong, as in RM-Bench's own code."""
    beaten = {(1, 0), (2, 0), (2, 1), (1, 1)}
    results = {True: (RIGHT, RIGHT), False: (TIE, TIE)}
    equal = [
        judged_pair(*results[place in beaten], "a", places=place)
        for place in ((i, j) for i in range(3) for j in range(3))
    ]
    found = benchmark_scores(equal)
    assert {name: score.share.value for name, score in found.items()} == {
        "RM-Bench, hard": 0,
        "RM-Bench, normal": pytest.approx(1 / 3),
        "RM-Bench, easy": 1,
    }
    assert benchmark_scores([pair for pair in equal if pair.rejected_index < 2]) == {}
    assert benchmark_scores(equal[:1]) == {}


def test_a_line_that_lacks_a_verdict_counts_in_no_score():
    """It is neither lost nor chance."""
    good = prompt_of(*[(RIGHT, RIGHT)] * 3, item="a")
    failed = prompt_of((RIGHT, RIGHT), (LOST, LOST), (WRONG, WRONG), item="b")
    found = benchmark_scores([*good, *failed])[CHOICE]
    assert (found.share.value, found.share.pairs) == (1, 1)
    assert benchmark_scores(failed) == {}
