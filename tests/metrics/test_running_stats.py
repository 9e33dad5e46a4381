"""Statistics of streams, against computations over all numbers at once."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.running_stats import CoSpread, RunningStats
from genrm_cli.scored.json_form import to_json

# The spread of numbers


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_the_spread_is_that_of_the_whole_list(values):
    """Mean, population deviation and range agree with a computation over all numbers at once."""
    spread = RunningStats()
    for value in values:
        spread.add(value)
    assert to_json(spread.summary()) == {
        "count": len(values),
        "mean": pytest.approx(statistics.fmean(values), abs=1e-6),
        "std": pytest.approx(statistics.pstdev(values), abs=1e-3),
        "min": min(values),
        "max": max(values),
    }


def co_spread_of(pairs):
    """Take in all pairs."""
    spread = CoSpread()
    for x, y in pairs:
        spread.add(x, y)
    return spread


@given(st.lists(st.tuples(st.integers(-100, 100), st.integers(-100, 100)), min_size=2, max_size=30))
def test_the_correlation_is_that_of_the_whole_list(pairs):
    """Pearson's correlation agrees with a computation over all pairs at once; None where one does
    not vary.
    """
    xs, ys = zip(*pairs, strict=True)
    varies = len(set(xs)) > 1 and len(set(ys)) > 1
    expected = pytest.approx(statistics.correlation(xs, ys), abs=1e-9) if varies else None
    assert co_spread_of(pairs).correlation() == expected


def test_what_hardly_varies_has_no_correlation():
    """Rounding is not taken for a signal; nor is one pair, or none."""
    assert co_spread_of([(1.0, 0.0), (1.0 + 1e-15, 1.0)]).correlation() is None
    assert co_spread_of([(1.0, 2.0)]).correlation() is None
    assert co_spread_of([]).correlation() is None
