"""What is said of components after a run."""

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.component_metrics import ComponentMetrics
from genrm_cli.scored.json_form import to_json

VALUE = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0])
GROUPS = st.lists(st.lists(st.tuples(VALUE, VALUE, VALUE), max_size=5), max_size=8)


def shown(figures):
    """Return the statistics of components as they are written."""
    return {name: to_json(each) for name, each in (figures.summary() or {}).items()}


def figures_of(groups):
    """Take in groups whose rollouts are (a, b, total)."""
    figures = ComponentMetrics()
    for group in groups:
        columns = [[rollout[place] for rollout in group] for place in range(3)]
        figures.add_group({"a": columns[0], "b": columns[1]}, columns[2])
    return shown(figures)


def plain_correlation(pairs):
    """Return Pearson's correlation of the pairs that are whole; None where it is not defined."""
    whole = [pair for pair in pairs if None not in pair]
    if len({x for x, _ in whole}) < 2 or len({y for _, y in whole}) < 2:
        return None
    return pytest.approx(statistics.correlation(*zip(*whole, strict=True)), abs=1e-9)


def test_golden_figures():
    """A component that varies in one of two groups, misses a value, and runs against another."""
    figures = ComponentMetrics()
    figures.add_group(
        {
            "genrm": [1.0, 3.0, None],
            "safety": [0.5, 0.25, 1.0],
        },
        [1.5, 3.25, None],
    )
    figures.add_group(
        {
            "genrm": [2.0, 2.0],
            "safety": [0.375, 0.375],
        },
        [2.375, 2.375],
    )
    assert shown(figures)["genrm"] == {
        "count": 4,
        "mean": 2.0,
        "std": pytest.approx(0.5**0.5),
        "min": 1.0,
        "max": 3.0,
        "missing": 1,
        "groups": 2,
        "discriminating_share": 0.5,
        "correlation_with_total": pytest.approx(1.0),
        "correlations": {"safety": pytest.approx(-1.0)},
    }
    assert shown(figures)["safety"]["correlations"] == {"genrm": pytest.approx(-1.0)}


@given(GROUPS)
def test_figures_are_those_of_the_whole_run(groups):
    """Streaming over groups gives what a computation over all rollouts at once gives, ready for
    JSON.
    """
    figures = figures_of(groups)
    rollouts = [rollout for group in groups for rollout in group]
    values = [a for a, _, _ in rollouts if a is not None]
    json.dumps(figures, allow_nan=False)
    if not groups:
        return
    assert figures["a"]["count"] == len(values)
    assert figures["a"]["missing"] == len(rollouts) - len(values)
    assert figures["a"]["mean"] == (pytest.approx(statistics.fmean(values)) if values else None)
    assert figures["a"]["correlations"]["b"] == plain_correlation([(a, b) for a, b, _ in rollouts])
    assert figures["b"]["correlation_with_total"] == plain_correlation(
        [(b, total) for _, b, total in rollouts]
    )
    counted = [{a for a, _, _ in group if a is not None} for group in groups]
    sizes = [sum(a is not None for a, _, _ in group) for group in groups]
    differing = sum(len(different) > 1 for different in counted)
    groups_counted = sum(size > 1 for size in sizes)
    assert figures["a"]["groups"] == groups_counted
    assert figures["a"]["discriminating_share"] == (
        differing / groups_counted if groups_counted else None
    )
