"""Which comparisons are made, and in which order."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.pairing import Comparison, count_comparisons, plan_all_pairs, plan_circular, plan_comparisons

CIRCULAR = {
    0: [],
    1: [],
    2: [(0, 1), (1, 0)],
    3: [(0, 1), (1, 2), (2, 0)],
    4: [(0, 1), (1, 2), (2, 3), (3, 0)],
    5: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
    6: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
}
ALL_PAIRS = {
    0: [],
    1: [],
    2: [(0, 1)],
    3: [(0, 1), (0, 2), (1, 2)],
    4: [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)],
    5: [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)],
    6: [
        *[(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)],
        *[(1, 2), (1, 3), (1, 4), (1, 5)],
        *[(2, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 5)],
    ],
}
STRATEGIES = st.sampled_from(["circular", "all_pairs"])


@pytest.mark.parametrize("n", CIRCULAR)
def test_circular_is_the_references_list(n):
    """Each rollout against the next, the last against the first; two rollouts meet in both orders."""
    assert plan_circular(n) == CIRCULAR[n]
    assert list(plan_comparisons(n, "circular")) == [(i, j, 0) for i, j in CIRCULAR[n]]


@pytest.mark.parametrize("n", ALL_PAIRS)
def test_all_pairs_is_the_references_list(n):
    """Every pair once, the lower place always first."""
    assert plan_all_pairs(n) == ALL_PAIRS[n]
    assert list(plan_comparisons(n, "all_pairs")) == [(i, j, 0) for i, j in ALL_PAIRS[n]]


def test_repeats_are_the_outermost_loop():
    """The whole list is asked once for each judge, numbered from 0."""
    assert list(plan_comparisons(2, "circular", judges=3)) == [
        Comparison(i, j, judge_idx) for judge_idx in range(3) for i, j in [(0, 1), (1, 0)]
    ]


@given(st.integers(0, 24), STRATEGIES, st.integers(1, 4), st.booleans(), st.booleans())
def test_the_count_is_what_the_plan_has(n, strategy, judges, balanced, swap):
    """Counting without planning gives the length of the plan."""
    plan = list(plan_comparisons(n, strategy, judges=judges, order_balanced=balanced, swap=swap))
    assert count_comparisons(n, strategy, judges, swap=swap) == len(plan)


@given(st.integers(0, 24), STRATEGIES, st.integers(1, 3))
def test_a_swap_adds_the_other_order_of_every_pair_and_nothing_twice(n, strategy, judges):
    """Each rollout is then shown first exactly as often as second."""
    plan = list(plan_comparisons(n, strategy, judges=judges, swap=True))
    assert len(set(plan)) == len(plan)
    assert {Comparison(j, i, judge_idx) for i, j, judge_idx in plan} == set(plan)
    assert set(plan_comparisons(n, strategy, judges=judges)) <= set(plan)


@given(st.integers(0, 24), STRATEGIES, st.booleans())
def test_nobody_meets_himself_and_all_take_part(n, strategy, balanced):
    """No rollout is compared with itself, and in a group of two and more each is compared."""
    plan = list(plan_comparisons(n, strategy, order_balanced=balanced))
    assert all(i != j for i, j, _ in plan)
    assert {place for i, j, _ in plan for place in (i, j)} == (set(range(n)) if n > 1 else set())


@given(st.integers(0, 40))
def test_balanced_order_shows_each_as_often_first_as_second(n):
    """Every unordered pair stays there once, and no rollout is first more than once oftener than second."""
    plan = list(plan_comparisons(n, "all_pairs", order_balanced=True))
    assert sorted((min(i, j), max(i, j)) for i, j, _ in plan) == plan_all_pairs(n)
    lead = Counter(i for i, _, _ in plan)
    lead.subtract(j for _, j, _ in plan)
    assert all(abs(difference) <= 1 for difference in lead.values())


def test_balanced_order_turns_every_second_pair_of_a_rollout():
    """Pairs keep their order; those whose places differ by an even number are turned round."""
    plan = [(i, j) for i, j, _ in plan_comparisons(4, "all_pairs", order_balanced=True)]
    assert plan == [(0, 1), (2, 0), (0, 3), (1, 2), (3, 1), (2, 3)]


@given(st.integers(0, 24), st.integers(1, 3))
def test_balanced_order_leaves_circular_as_it_is(n, judges):
    """Circular shows each rollout once first and once second already."""
    plans = [list(plan_comparisons(n, "circular", judges=judges, order_balanced=b)) for b in (False, True)]
    assert plans[0] == plans[1]
    if n > 1:
        assert Counter(i for i, _, _ in plans[0]) == Counter(j for _, j, _ in plans[0])


def test_an_unknown_strategy_is_refused():
    """There is no silent default for a misspelt strategy."""
    with pytest.raises(KeyError):
        list(plan_comparisons(3, "ringwise"))
