"""Comparisons that follow the verdicts: the pairs that decide, each once, in balanced orders."""

from collections import Counter
from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.pairing.pairs import PairingPlan, count_first, plan_further, plan_ring

GOALS = st.sampled_from(["best", "pair"])


@st.composite
def asked_groups(draw):
    """Draw the scores of a group, some of them equal, and the pairs that were asked first."""
    n = draw(st.integers(2, 9))
    values = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    order = draw(st.permutations(range(n)))
    return {index: values[index] / 2 for index in order}, plan_ring(n, 1)[: (n + 1) // 2]


@given(asked_groups(), GOALS, st.data())
def test_every_order_of_every_pair_is_asked_once(group, goal, data):
    """However the calls are divided into batches: first all pairs, then all in the other order, and
    none twice.
    """
    scores, planned = group
    n = len(scores)
    pairs = len(scores) * (len(scores) - 1) // 2
    while len(planned) < 2 * pairs:
        count = data.draw(st.integers(1, min(4, 2 * pairs - len(planned))))
        further = plan_further(scores, planned, goal, count)
        assert len(further) == count
        planned = planned + further
        assert plan_further(scores, planned[:-count], goal, count) == further
    assert len({frozenset(pair) for pair in planned[:pairs]}) == pairs
    assert Counter(planned) == Counter(permutations(range(n), 2))


@given(asked_groups(), GOALS)
def test_the_pairs_at_the_ends_come_first(group, goal):
    """For the best, the greatest sums of scores among pairs not asked; for a pair, the least sums
    in turn.
    """
    scores, asked = group
    left = {frozenset(pair) for pair in combinations(scores, 2)} - {
        frozenset(pair) for pair in asked
    }
    for number, pair in enumerate(plan_further(scores, asked, goal, len(left)), len(asked)):
        end = min if goal == "pair" and number % 2 else max
        assert sum(scores[index] for index in pair) == end(
            sum(scores[index] for index in each) for each in left
        )
        left.remove(frozenset(pair))


@given(asked_groups(), GOALS)
def test_orders_are_balanced(group, goal):
    """Until all pairs are asked, the one that was first less often so far is first."""
    scores, asked = group
    leads = Counter(i for i, _ in asked)
    leads.subtract(j for _, j in asked)
    for i, j in plan_further(
        scores, asked, goal, len(scores) * (len(scores) - 1) // 2 - len(asked)
    ):
        assert leads[i] <= leads[j]
        leads.update({i: 1, j: -1})


@given(st.integers(2, 40), GOALS)
def test_every_rollout_is_compared_before_verdicts_choose(n, goal):
    """Also the last one of an odd number: otherwise it may stay without a reward."""
    plan = PairingPlan(goal=goal)
    first = [*plan.iter_pairs(n, "key")][: count_first(n, goal)]
    assert {index for i, j, _ in first for index in (i, j)} == set(range(n))
