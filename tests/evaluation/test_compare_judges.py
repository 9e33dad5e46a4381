"""Whether one of two judges is better."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_pairs import judged_pair

from genrm_cli.evaluation.accuracy import Preference
from genrm_cli.evaluation.compare_judges import compare_judges
from genrm_cli.verdicts import FailureKind

RIGHT, WRONG, TIE = Preference.RIGHT, Preference.WRONG, Preference.TIE
FAILED, SKIPPED = FailureKind.TRUNCATED, FailureKind.NOT_ASKED


def run(*results, items=None):
    """Make a judge's outcomes of pairs 0, 1, ...; each is a result for both orders or one for each."""
    both = [result if isinstance(result, tuple) else (result, result) for result in results]
    return {
        str(number): judged_pair(first, second, items[number] if items else str(number))
        for number, (first, second) in enumerate(both)
    }


def test_nine_pairs_to_one_by_hand():
    """Ten discordant pairs, nine of them for the first judge: p = 2 × (1 + 10) / 1024, so it is better."""
    contest = compare_judges(run(*[RIGHT] * 9, WRONG, RIGHT, WRONG), run(*[WRONG] * 9, RIGHT, RIGHT, WRONG))
    assert (contest.a_better, contest.b_better, contest.p_value, contest.better) == (9, 1, 22 / 1024, "a")
    assert (contest.pairs, contest.items, contest.left_out) == (12, 12, 0)
    assert contest.accuracy_a.value == pytest.approx(10 / 12)
    assert contest.consistent_b.value == pytest.approx(2 / 12)


def test_a_pair_counts_as_right_only_in_both_orders():
    """A judge that guesses by place gains nothing on pairs that it has right in one order."""
    contest = compare_judges(run((RIGHT, WRONG), (RIGHT, TIE)), run((WRONG, WRONG), (WRONG, WRONG)))
    assert (contest.a_better, contest.b_better, contest.p_value, contest.better) == (0, 0, 1.0, None)


def test_accuracy_alone_is_tested_too():
    """Six pairs are half right under one judge and wrong under the other: more accurate, p = 2 / 64, yet not better."""
    contest = compare_judges(run(*[(RIGHT, WRONG)] * 5, (TIE, WRONG)), run(*[WRONG] * 6))
    assert (contest.a_more_accurate, contest.b_more_accurate, contest.accuracy_p_value) == (6, 0, 2 / 64)
    assert (contest.p_value, contest.better) == (1.0, None)


def test_only_pairs_that_both_judged_are_compared():
    """A missing verdict leaves the pair out; that it would count as wrong is a p of its own; never asked is neither."""
    contest = compare_judges(run(*[RIGHT] * 6, FAILED, RIGHT), run(*[FAILED] * 5, RIGHT, RIGHT, SKIPPED))
    assert (contest.pairs, contest.left_out, contest.p_value) == (1, 7, 1.0)
    assert contest.p_value_if_failures_lose == 2 * (1 + 6) / 2**6  # five to one


def test_pairs_of_one_line_vote_together():
    """Nine pairs of one line are one observation, for the judge that has more of them right."""
    items = ["x"] * 9
    contest = compare_judges(run(*[RIGHT] * 9, items=items), run(*[RIGHT] * 4, *[WRONG] * 5, items=items))
    assert (contest.pairs, contest.items, contest.a_better, contest.p_value) == (9, 1, 1, 1.0)


def test_nothing_shared_is_no_contest():
    """Without shared pairs, there is nothing to compare, and neither judge is better."""
    contest = compare_judges(run(RIGHT), {})
    assert (contest.pairs, contest.p_value, contest.better, contest.accuracy_a.value) == (0, 1.0, None, None)


RESULTS = st.lists(st.tuples(st.sampled_from([*Preference, FAILED, SKIPPED]), st.sampled_from(Preference)), max_size=20)


@given(RESULTS, RESULTS)
def test_the_judges_may_change_places(a, b):
    """The order of the judges changes only names; a judge is never better than itself."""
    one, other = compare_judges(run(*a), run(*b)), compare_judges(run(*b), run(*a))
    assert (one.a_better, one.b_better, one.pairs) == (other.b_better, other.a_better, other.pairs)
    assert one.p_value == other.p_value
    assert one.accuracy_p_value == other.accuracy_p_value
    assert one.p_value_if_failures_lose == other.p_value_if_failures_lose
    assert {"a": "b", "b": "a", None: None}[one.better] == other.better
    assert compare_judges(run(*a), run(*a)).better is None
