"""Rings: regular, balanced, connected."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.pairing.pairs import count_offsets, count_ring, plan_ring, spread_offsets

SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 25, 32, 64, 65)


def leads_of(pairs):
    """Return how much oftener each rollout is first than second."""
    leads = Counter(i for i, _ in pairs)
    leads.subtract(j for _, j in pairs)
    return leads


def degrees_of(n, pairs):
    """Return in how many comparisons each rollout takes part."""
    degrees = Counter(place for pair in pairs for place in pair)
    return [degrees[place] for place in range(n)]


def test_golden_offsets():
    """Offsets at equal ratios; with k = 1 the ring joins neighbours, as ever."""
    cases = [
        (2, ()),
        (3, (1,)),
        (7, (1, 3)),
        (8, (1, 2, 3)),
        (9, (1,)),
        (12, (1, 3)),
        (16, (1, 2, 4, 7)),
        (32, (1, 6)),
        (64, (1, 4, 16)),
    ]
    for n, chosen in cases:
        assert spread_offsets(n, len(chosen)) == chosen


def test_whole_rings_are_regular_and_balanced():
    """Each rollout is k times first and k times second; no pair is compared twice, in either
    order.
    """
    for n in SIZES:
        every_k = range(count_offsets(n) + 1)
        for k in every_k if n < 30 else (*every_k[:4], *every_k[-2:]):
            pairs = plan_ring(n, k)
            each_k_times = dict.fromkeys(range(n), k) if k else {}
            for place in (0, 1):
                assert Counter(pair[place] for pair in pairs) == each_k_times
            distinct = {frozenset(pair) for pair in pairs}
            assert len(distinct) == len(pairs) == k * n == count_ring(n, k)
            assert all(len(pair) == 2 for pair in distinct)


@given(st.integers(2, 70), st.floats(0, 80))
def test_shares_of_a_ring_are_spread_evenly(n, k):
    """For any k: no pair twice in one order, first and second differ by one at most, degrees by
    two.
    """
    pairs = plan_ring(n, k)
    assert len(pairs) == len(set(pairs)) == count_ring(n, k)
    assert all(abs(lead) <= 1 for lead in leads_of(pairs).values())
    assert max(degrees_of(n, pairs)) - min(degrees_of(n, pairs)) <= 2
