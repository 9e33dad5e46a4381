"""Intervals and tests, against arithmetic done by hand."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.running_stats import student_95, wilson_interval
from genrm_cli.products.serve.reference_answers import WinCounts, WinRate

Z = 1.959963984540054


def test_wilson_of_eight_in_ten():
    """With z = 1.95996: middle (0.8 + 0.19207) / 1.38415 = 0.71674, half 1.41601 × √(0.016 +
    0.0096) = 0.22658.
    """
    assert wilson_interval(0.8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-6)


@given(st.floats(0, 1), st.floats(1, 1e6))
def test_the_interval_holds_its_share_and_stays_within_bounds(share, count):
    """Low ≤ share ≤ high, within 0 and 1, and the width is positive even for few observations."""
    low, high = wilson_interval(share, count)
    assert 0 <= low <= share <= high <= 1
    assert low < high


@given(st.integers(0, 200), st.integers(1, 200))
def test_the_interval_is_where_the_score_test_turns(right, more):
    """Each end (if not at a bound) is as far from the share as z of its own standard errors:
    Wilson's definition.
    """
    count = right + more
    share = right / count
    for end in wilson_interval(share, count):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(
                Z * math.sqrt(end * (1 - end) / count), rel=1e-6
            )


def test_students_quantile_is_that_of_the_tables():
    """To 3 %; without degrees of freedom it is that of the normal distribution."""
    for freedom, quantile in [(0, Z), (2, 4.303), (3, 3.182), (7, 2.365), (30, 2.042)]:
        assert student_95(freedom) == pytest.approx(quantile, rel=0.032)


def test_the_interval_of_a_win_rate_allows_for_groups_that_differ():
    """Where prompts are easy or hard, 95 % of the intervals hold the true rate, of few groups or
    many.
    """
    for groups in [8, 32]:
        random = Random(groups)
        held = 0
        for _ in range(500):
            counts = WinCounts()
            for _ in range(groups):
                easy = random.betavariate(1.2, 0.8)  # 0.6 on average
                counts.add([float(random.random() < easy) for _ in range(8)], 0)
            rate = counts.rate()
            held += rate.low_percent <= 60 <= rate.high_percent
        assert 465 <= held <= 496  # few groups: wider than they need be


def test_one_group_has_the_interval_of_its_comparisons():
    """Eight of ten, as above; groups merge, and failures are only counted."""
    counts = WinCounts()
    more = WinCounts()
    assert counts.rate() is None
    counts.add([1.0] * 8 + [0.0] * 2, failed=1)
    assert counts.rate() == WinRate(80.0, pytest.approx(49.0162), pytest.approx(94.3318), 10, 1)
    more.add([0.5], failed=0)
    counts.merge(more)
    assert counts.rate() == WinRate(
        65.0, counts.rate().low_percent, counts.rate().high_percent, 11, 1
    )
