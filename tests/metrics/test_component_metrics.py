"""What is said of a component after a run."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.component_metrics import ComponentMetrics
from genrm_cli.scored.json_form import to_json

VALUE = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0])


@given(st.lists(st.lists(VALUE, max_size=5), max_size=8))
def test_figures_are_those_of_the_whole_run(groups):
    """Streaming over groups gives what a computation over all rollouts at once gives."""
    metrics = ComponentMetrics()
    for group in groups:
        metrics.add_group(group)
    known = [[value for value in group if value is not None] for group in groups]
    values = [value for group in known for value in group]
    counted = [group for group in known if len(group) > 1]
    differing = sum(len(set(group)) > 1 for group in counted)
    assert to_json(metrics.summary()) == {
        "count": len(values),
        "mean": pytest.approx(statistics.fmean(values)) if values else None,
        "std": pytest.approx(statistics.pstdev(values)) if values else None,
        "min": min(values, default=None),
        "max": max(values, default=None),
        "missing": sum(map(len, groups)) - len(values),
        "groups": len(counted),
        "discriminating_share": differing / len(counted) if counted else None,
    }
