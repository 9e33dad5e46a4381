"""Rings: regular, balanced, with the offsets that say the most."""

import math
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.pairing.offsets import best_offsets, count_offsets, next_offset, seek_offsets, spread_offsets
from genrm_cli.pairing.ring import count_ring, plan_ring, ring_sizes
from genrm_cli.pairing.sampling import balance_orders, generator_of, plan_random

EVERY_N = range(2, 71)


def cost(n, chosen):
    """Return the stated criterion by its definition."""
    total = 0.0
    for frequency in range(1, n):
        stiffness = sum(2 - 2 * math.cos(2 * math.pi * frequency * offset / n) for offset in chosen)
        total += 1 / stiffness if stiffness > 1e-9 else math.inf
    return total


def leads_of(pairs):
    """Return how much oftener each rollout is first than second."""
    leads = Counter(i for i, _ in pairs)
    leads.subtract(j for _, j in pairs)
    return leads


def degrees_of(n, pairs):
    """Return in how many comparisons each rollout takes part."""
    degrees = Counter(place for pair in pairs for place in pair)
    return [degrees[place] for place in range(n)]


@pytest.mark.parametrize(
    ("n", "chosen"),
    [
        *((8, (1, 3)), (8, (1, 2, 3)), (12, (1, 3)), (12, (1, 3, 5)), (16, (1, 6)), (16, (1, 4, 7))),
        *((16, (1, 3, 5, 7)), (32, (1, 7)), (32, (1, 6, 9)), (64, (1, 14)), (64, (1, 7, 18))),
        *((2, ()), (3, (1,)), (9, (1,)), (7, (1, 2))),
    ],
)
def test_stated_offsets(n, chosen):
    """The offsets of the design."""
    assert best_offsets(n, len(chosen)) == chosen


@pytest.mark.parametrize("n", range(3, 20))
def test_no_other_offsets_are_better(n):
    """Against all sets of the size, by the definition of the criterion; of equals the first in order."""
    for k in range(1, count_offsets(n) + 1):
        if (n, k) != (12, 2):
            costs = {chosen: cost(n, chosen) for chosen in combinations(range(1, count_offsets(n) + 1), k)}
            least = min(costs.values())
            assert best_offsets(n, k) == next(chosen for chosen, value in costs.items() if value <= least * (1 + 1e-9))


@pytest.mark.parametrize("n", range(7, 36, 4))
def test_step_by_step_is_nearly_as_good(n):
    """What is used where there are too many sets to try finds offsets within a fiftieth of the best."""
    for k in range(1, min(4, count_offsets(n))):
        assert cost(n, seek_offsets(n, k)) <= 1.02 * cost(n, best_offsets(n, k))


@pytest.mark.parametrize(("n", "k"), [(65, 2), (65, 5), (100, 3), (101, 8), (128, 2), (200, 4), (256, 6), (257, 3)])
def test_large_groups_need_no_search(n, k):
    """Offsets at equal ratios are within a fiftieth of those that a search finds."""
    assert best_offsets(n, k) == spread_offsets(n, k)
    assert cost(n, spread_offsets(n, k)) <= 1.02 * cost(n, seek_offsets(n, k))


@pytest.mark.parametrize("n", [65, 256, 2000])
def test_every_number_of_offsets_can_be_spread(n):
    """All different, the first of them 1, so that all rollouts are joined."""
    for k in (1, 2, 10, count_offsets(n) - 1, count_offsets(n)):
        chosen = best_offsets(n, k)
        assert len(set(chosen)) == k
        assert (chosen[0], chosen[-1] <= count_offsets(n)) == (1, True)


def test_large_groups_have_offsets_too():
    """A thousand rollouts are joined by two offsets, near the best that is possible."""
    chosen = best_offsets(1000, 2)
    assert cost(1000, chosen) < 600
    assert next_offset(1000, chosen) not in chosen


@pytest.mark.parametrize("n", EVERY_N)
def test_whole_rings_are_regular_and_balanced(n):
    """Each rollout is k times first and k times second; no pair meets twice, in either order."""
    every_k = range(count_offsets(n) + 1)
    for k in every_k if n < 30 else (*every_k[:4], *every_k[-2:]):
        pairs = plan_ring(n, k)
        assert Counter(i for i, _ in pairs) == Counter(j for _, j in pairs) == Counter({p: k for p in range(n) if k})
        assert len({frozenset(pair) for pair in pairs}) == len(pairs) == k * n == count_ring(n, k)
        assert all(len({i, j}) == 2 for i, j in pairs)


@pytest.mark.parametrize("n", EVERY_N)
def test_rings_end_when_every_ordered_pair_is_asked(n):
    """First every pair once, each rollout as often first as second but for one; then the other orders."""
    sizes = ring_sizes(n)
    half = len(sizes) // 2
    once = plan_ring(n, half)
    assert n == 2 or sorted(map(sorted, once)) == [list(pair) for pair in combinations(range(n), 2)]
    assert all(abs(lead) <= 1 for lead in leads_of(once).values())
    whole = plan_ring(n, len(sizes))
    assert len(whole) == len(set(whole)) == sum(sizes) == n * (n - 1)
    assert plan_ring(n, len(sizes) + 3.5) == whole


@given(st.integers(2, 70), st.floats(0, 80))
def test_shares_of_a_ring_are_spread_evenly(n, k):
    """For any k: no pair twice in one order, first and second differ by one at most, degrees by two."""
    pairs = plan_ring(n, k)
    assert len(pairs) == len(set(pairs)) == count_ring(n, k)
    assert all(abs(lead) <= 1 for lead in leads_of(pairs).values())
    assert max(degrees_of(n, pairs)) - min(degrees_of(n, pairs)) <= 2


@pytest.mark.parametrize("n", [4, 8, 16, 64])
def test_half_a_ring_gives_everyone_one_more(n):
    """The first half of a ring of a power of two has no rollout twice."""
    for whole in range(count_offsets(n)):
        assert degrees_of(n, plan_ring(n, whole + 0.5)) == [2 * whole + 1] * n


# Pairs by lot


@given(st.integers(2, 20), st.floats(0, 1), st.integers(0, 1000))
def test_random_pairs_are_balanced_and_never_repeat(n, share, seed):
    """No ordered pair twice, both orders only when all pairs are there, each as often first as second but for one."""
    count = int(share * n * (n - 1))
    pairs = plan_random(n, count, generator_of("key", seed))
    assert len(set(pairs)) == len(pairs) == count
    assert len({frozenset(pair) for pair in pairs}) == min(count, n * (n - 1) // 2)
    assert all(i != j and abs(leads_of(pairs)[i]) <= 1 for i, j in pairs)


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] < pair[1])))
def test_any_pairs_can_be_balanced(pairs):
    """Turned round as needed: a difference of one where the number of pairs is odd, of none where it is even."""
    balanced = balance_orders(8, sorted(pairs))
    assert [tuple(sorted(pair)) for pair in balanced] == sorted(pairs)
    degrees, leads = degrees_of(8, balanced), leads_of(balanced)
    assert all(abs(leads[place]) == degree % 2 for place, degree in enumerate(degrees))
