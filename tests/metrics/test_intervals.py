"""Intervals and tests, against arithmetic done by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.running_stats import mcnemar_p_value, wilson_interval

Z = 1.959963984540054


def test_wilson_of_eight_in_ten():
    """With z = 1.95996: middle (0.8 + 0.19207) / 1.38415 = 0.71674, half 1.41601 × √(0.016 + 0.0096) = 0.22658."""
    assert wilson_interval(0.8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-6)


@given(st.floats(0, 1), st.floats(1, 1e6))
def test_the_interval_holds_its_share_and_stays_within_bounds(share, count):
    """Low ≤ share ≤ high, within 0 and 1, and the width is positive even for few observations."""
    low, high = wilson_interval(share, count)
    assert 0 <= low <= share <= high <= 1
    assert low < high


@given(st.integers(0, 200), st.integers(1, 200))
def test_the_interval_is_where_the_score_test_turns(right, more):
    """Each end (if not at a bound) is as far from the share as z of its own standard errors: Wilson's definition."""
    count = right + more
    share = right / count
    for end in wilson_interval(share, count):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(Z * math.sqrt(end * (1 - end) / count), rel=1e-6)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_sum_of_all_throws_that_are_as_uneven(a_only, b_only):
    """It sums the binomial over every outcome at least as far from the middle; the two judges may change places."""
    thrown = a_only + b_only
    uneven = abs(a_only - b_only)
    ways = sum(math.comb(thrown, k) for k in range(thrown + 1) if abs(thrown - 2 * k) >= uneven)
    assert mcnemar_p_value(a_only, b_only) == pytest.approx(ways / 2**thrown, rel=1e-12)
    assert mcnemar_p_value(b_only, a_only) == mcnemar_p_value(a_only, b_only)


def test_mcnemar_of_many_pairs_neither_overflows_nor_takes_long():
    """Of thousands p is that of the normal distribution, less half a step; one too small for a float is 0."""
    normal = math.erfc((2_600 - 2_400 - 1) / math.sqrt(5_000) / math.sqrt(2))
    assert mcnemar_p_value(2_600, 2_400) == pytest.approx(normal, rel=0.005)
    assert mcnemar_p_value(5_000, 0) == 0.0
