"""The planned comparisons and their order."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.pairing.pairs import AGAINST_FIRST, STRATEGIES, Comparison, PairingPlan

EVERY = st.sampled_from((*STRATEGIES, AGAINST_FIRST))
RING_K = st.integers(0, 60).map(lambda quarters: quarters / 4)


@pytest.mark.parametrize("n", range(7))
def test_the_pairs_are_the_references_list(n):
    """Circular: each against the next, the last against the first. All pairs: each once, the lower
    index first.
    """
    ring = [(index, (index + 1) % n) for index in range(n)] if n > 1 else []
    for strategy, pairs in (("circular", ring), ("all_pairs", combinations(range(n), 2))):
        assert list(PairingPlan(strategy).iter_pairs(n)) == [(i, j, 0) for i, j in pairs]


@given(st.integers(0, 24), EVERY, st.integers(1, 4), st.booleans(), st.booleans(), RING_K)
def test_the_count_is_what_the_plan_has(n, strategy, judges, balanced, swap, ring_k):
    """Counting without planning gives the length of the plan."""
    given = {"repeats": judges, "both_orders": swap, "ring_k": ring_k}
    plan = list(PairingPlan(strategy, order_balanced=balanced, **given).iter_pairs(n))
    assert PairingPlan(strategy, **given).count(n) == len(plan)


@given(st.integers(0, 24), EVERY, st.integers(1, 3), RING_K)
def test_a_swap_adds_the_other_order_of_every_pair_and_nothing_twice(n, strategy, judges, ring_k):
    """Each rollout is then shown first exactly as often as second."""
    given = {"repeats": judges, "ring_k": ring_k}
    plan = list(PairingPlan(strategy, both_orders=True, **given).iter_pairs(n))
    assert len(set(plan)) == len(plan)
    assert {Comparison(j, i, judge_idx) for i, j, judge_idx in plan} == set(plan)
    assert set(PairingPlan(strategy, **given).iter_pairs(n)) <= set(plan)


@given(st.integers(0, 40))
def test_balanced_order_shows_each_as_often_first_as_second(n):
    """Every unordered pair stays there once, and no rollout is first more than once oftener than
    second.
    """
    plan = list(PairingPlan("all_pairs", order_balanced=True).iter_pairs(n))
    assert sorted((min(i, j), max(i, j)) for i, j, _ in plan) == list(combinations(range(n), 2))
    lead = Counter(i for i, _, _ in plan)
    lead.subtract(j for _, j, _ in plan)
    assert all(abs(difference) <= 1 for difference in lead.values())


def planned(n, strategy, ring_k, key="", seed=0):
    """Return the ordered pairs of a plan."""
    return [
        (i, j) for i, j, _ in PairingPlan(strategy, ring_k=ring_k, seed=seed).iter_pairs(n, key)
    ]


def test_a_plan_depends_on_key_and_seed_only():
    """Every run plans the same for a group, also one with another version of Python."""
    assert planned(6, "ring", 1, "task 7", 3) == [(3, 4), (1, 0), (2, 5), (5, 3), (0, 2), (4, 1)]
    assert planned(3, "ring", 1, "\ud800") == planned(3, "ring", 1, "\ud800")


def test_other_keys_and_seeds_give_other_plans():
    """Of 100 groups, or of one group under 100 seeds, hardly two have the same plan."""
    assert len({tuple(planned(16, "ring", 2, f"task {number}")) for number in range(100)}) == 100
    assert len({tuple(planned(16, "ring", 2, "task", seed)) for seed in range(100)}) == 100


def test_each_rollout_meets_the_first_one_once_in_either_order():
    """The first one is shown first in every other pair; keys decide with which pair it begins."""
    plans = [
        [(i, j) for i, j, _ in PairingPlan(AGAINST_FIRST).iter_pairs(4, str(key))]
        for key in range(40)
    ]
    assert {tuple(plan) for plan in plans} == {((0, 1), (2, 0), (0, 3)), ((1, 0), (0, 2), (3, 0))}
