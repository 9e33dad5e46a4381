"""Statistics of streams, against computations over all numbers at once."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.running_stats import RunningStats
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
