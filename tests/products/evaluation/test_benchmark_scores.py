"""Lines with several pairs by the rules of their benchmarks."""

from dataclasses import replace

import pytest
from judged_pairs import judged_pair

from genrm_cli.products.evaluation.accuracy import PairRecord, Preference, accuracy_of
from genrm_cli.products.evaluation.benchmarks import BenchmarkScores, benchmark_scores
from genrm_cli.verdicts import FailureKind

RIGHT = Preference.RIGHT
WRONG = Preference.WRONG
TIE = Preference.TIE
LOST = FailureKind.TIMEOUT


def prompt_of(*results, item="a", category="x"):
    """Return the pairs of a prompt with one right response and several wrong ones."""
    return [
        judged_pair(*result, item, category=category, places=(0, number))
        for number, result in enumerate(results)
    ]


def graded(right, wrong, item, name="", category=None) -> list[PairRecord]:
    """Return the pairs of a line whose responses have grades of their own."""
    pairs = []
    for i, better in enumerate(right):
        for j, worse in enumerate(wrong):
            pair = judged_pair(RIGHT, RIGHT, item, name=name, category=category, places=(i, j))
            first = replace(pair.chosen_first, score_1=float(better), score_2=float(worse))
            pairs.append(replace(pair, chosen_first=first))
    return pairs


def scores_of(records, *, is_graded=False) -> BenchmarkScores:
    """Return the scores, of which there are some."""
    found = benchmark_scores(records, is_graded=is_graded)
    assert found is not None
    return found


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
    """One lost pair loses the prompt, whose pairs may look two thirds right."""
    records = prompt_of(*results)
    found = scores_of(records)
    assert found.best_of.value == pytest.approx(credit)
    assert found.best_of_chance == 0.25
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
    found = scores_of(records)
    assert found.best_of.value == 0.5
    assert found.best_of_mean == pytest.approx((2 / 3 + 0) / 2)
    assert {name: share.pairs for name, share in found.best_of_by_category.items()} == {
        "maths": 3,
        "safety": 1,
    }


def test_lists_of_equal_length_are_styles_and_others_are_not():
    """Hard is above the diagonal, easy below; a tie is wrong."""
    beaten = {(1, 0), (2, 0), (2, 1), (1, 1)}
    results = {True: (RIGHT, RIGHT), False: (TIE, TIE)}
    equal = [
        judged_pair(*results[place in beaten], "a", places=place)
        for place in ((i, j) for i in range(3) for j in range(3))
    ]
    styles = scores_of(equal).styles
    assert styles is not None
    assert (styles.hard, styles.normal, styles.easy) == (0, pytest.approx(1 / 3), 1)
    unequal = [pair for pair in equal if pair.rejected_index < 2]
    assert scores_of(unequal).styles is None
    assert scores_of(unequal).best_of.pairs == 0


def test_a_line_that_lacks_a_verdict_counts_in_no_score():
    """It is neither lost nor chance, in a choice and among styles, and the result counts it."""
    good = prompt_of(*[(RIGHT, RIGHT)] * 3, item="a")
    failed = prompt_of((RIGHT, RIGHT), (LOST, LOST), (WRONG, WRONG), item="b")
    found = scores_of([*good, *failed])
    assert (found.best_of.value, found.best_of.pairs, found.left_out) == (1, 1, 1)
    alone = scores_of(failed)
    assert (alone.best_of.value, alone.best_of_chance, alone.best_of_mean) == (None, None, None)
    squares = [
        judged_pair(*(lost if (i, j) == (0, 1) else (RIGHT, RIGHT)), item, places=(i, j))
        for item, lost in (("a", (RIGHT, RIGHT)), ("b", (LOST, LOST)))
        for i in range(2)
        for j in range(2)
    ]
    found = scores_of(squares)
    assert found.styles is not None
    assert (found.styles.hard, found.left_out) == (1, 1)


def test_lists_of_styles_may_differ_in_length():
    """Each line counts once, whatever the number of its styles."""
    records = [
        judged_pair(*(RIGHT, RIGHT) if size == 2 else (WRONG, WRONG), str(size), places=(i, j))
        for size in (2, 3)
        for i in range(size)
        for j in range(size)
    ]
    styles = scores_of(records).styles
    assert styles is not None
    assert (styles.hard, styles.normal, styles.easy) == (0.5, 0.5, 0.5)


def test_grades_decide_where_there_are_some():
    """By scores a shared top is a share, Ties have a score, and right and wrong lists a curve."""
    tops = scores_of(graded([8], [8, 5, 1], "a"), is_graded=True)
    assert tops.best_of.value == 0.5
    ties = [
        *graded([9], [2, 1], "a", name="ref:1#1-1"),
        *graded([8, 9], [3, 2], "b", name="tied:1#1-1"),
        *graded([6], [5, 3], "c", name="ref:2#1-1"),
        *graded([7, 4], [5, 3], "d", name="tied:2#1-1"),
    ]
    assert scores_of(ties, is_graded=True).ties == pytest.approx(0.6506, abs=5e-5)
    assert scores_of(ties).ties is None
    assert scores_of(ties, is_graded=True).best_of.pairs == 0
    curve = scores_of(graded([0.8, 0.3, 0.2], [0.9, 0.1], "a"), is_graded=True).best_of_k
    assert curve is not None
    assert (curve[0], curve[-1]) == (pytest.approx(3 / 5), 0)


def test_a_file_of_plain_pairs_has_no_such_scores():
    """A pair is no choice among several."""
    assert benchmark_scores([judged_pair(RIGHT, RIGHT, "a")], is_graded=False) is None
