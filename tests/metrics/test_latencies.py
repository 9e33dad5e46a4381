"""How long calls take, in constant memory."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.scored.json_form import to_json

SHARES = (0.01, 0.25, 0.5, 0.9, 0.99, 1.0)


def latencies_of(values):
    """Take in some latencies."""
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    return latencies


@given(st.lists(st.floats(0.001, 10_000), min_size=1, max_size=300), st.sampled_from(SHARES))
def test_quantiles_are_right_within_6_percent(values, share):
    """A quantile is the latency that so many did not exceed, as if all had been kept and sorted."""
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    assert latencies_of(values).quantile_s(share) == pytest.approx(exact, rel=0.06)


def test_without_a_call_nothing_is_known():
    """No call, no quantile: null, not 0."""
    assert Latencies().quantile_s(0.5) is None
    assert to_json(Latencies().summary()) == {
        "mean_s": None,
        "median_s": None,
        "p99_s": None,
    }


def test_the_histogram_counts_every_call_once():
    """Bounds double, are in order, hold their calls, and their counts add up."""
    values = [0.3] * 5 + [0.7] * 3 + [20.0] * 2
    latencies = latencies_of(values)
    assert latencies.doubling_buckets() == [(0.5, 5), (1, 3), (32, 2)]
    assert latencies.summary().median_s == pytest.approx(0.3, rel=0.06)
    assert latencies.summary().p99_s == pytest.approx(20, rel=0.06)
