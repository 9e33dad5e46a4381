"""Components of a rollout to its total."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.rewards.compose import Total, compose_total
from genrm_cli.settings.components import TotalTable

NAMES = ("genrm", "safety", "rank")
COMPONENTS = st.dictionaries(st.sampled_from(NAMES), st.none() | st.floats(0, 10))
WEIGHTS = st.dictionaries(st.sampled_from(NAMES), st.floats(0.01, 5), min_size=1)
GATES = st.lists(st.tuples(st.sampled_from(NAMES), st.floats(0, 10)), max_size=3)
TABLES = st.builds(
    TotalTable,
    WEIGHTS.map(lambda weights: tuple(weights.items())),
    GATES.map(tuple),
    st.sets(st.sampled_from(NAMES)).map(tuple),
)


def total_of(components, *gates, optional=(), **weights):
    """Compose with weights given by name."""
    return compose_total(components, TotalTable(tuple(weights.items()), gates, optional))


def test_the_total_is_the_weighted_sum():
    """Each weight times its component; components without a weight do not count."""
    total = total_of(
        {
            "genrm": 4.0,
            "safety": 0.5,
            "rank": 9.0,
        },
        genrm=1,
        safety=2,
    )
    assert total.value == 5.0
    weights = {"genrm": 1, "safety": 2}
    assert total == Total(weights, {"genrm": 4.0, "safety": 1.0}, {}, (), ())


def test_a_missing_component_leaves_no_total():
    """None and not there are the same: no value, and the name of what is missing."""
    for components in [{"genrm": 4.0, "safety": None}, {"genrm": 4.0}]:
        total = total_of(components, genrm=1, safety=1)
        assert (total.value, total.missing) == (None, ("safety",))


def test_an_optional_component_may_be_missing():
    """The total is that of the other components; if all are missing, there is none."""
    total = total_of({"genrm": 4.0}, optional=("safety",), genrm=1, safety=1)
    assert (total.value, total.terms, total.missing) == (4.0, {"genrm": 4.0}, ())
    total = total_of({}, optional=("genrm", "safety"), genrm=1, safety=1)
    assert (total.value, total.missing) == (None, ("genrm", "safety"))


def test_a_gate_closes_below_its_least():
    """A component below its gate makes the total 0; at the gate it passes."""
    for safety, value in [(0.4, 0.0), (0.5, 4.5), (0.6, 4.6)]:
        total = total_of({"genrm": 4.0, "safety": safety}, ("safety", 0.5), genrm=1, safety=1)
        assert total.value == pytest.approx(value)
        assert total.gated_by == (("safety",) if value == 0 else ())
        assert total.terms == {"genrm": 4.0, "safety": safety}
    by_rounding = total_of({"genrm": 4.0, "safety": 1 - 0.9}, ("safety", 0.1), genrm=1)
    assert by_rounding.value == 4.0


def test_a_gate_needs_its_component_even_without_a_weight():
    """Nobody knows whether a missing component would have passed: no value."""
    total = total_of({"genrm": 4.0}, ("safety", 0.5), genrm=1)
    assert (total.value, total.missing) == (None, ("safety",))
    assert total_of({"genrm": 4.0, "safety": 0.0}, ("safety", 0.5), genrm=1).value == 0.0
    assert total_of({"genrm": 4.0, "safety": 1.0}, ("safety", 0.5), genrm=1).value == 4.0


@given(COMPONENTS, TABLES)
def test_a_value_and_a_missing_component_exclude_each_other(components, table):
    """There is a value exactly when nothing needed is missing; it is 0 when gated, else the
    weighted sum.
    """
    total = compose_total(components, table)
    assert (total.value is None) == bool(total.missing)
    if total.value is not None:
        added = sum(dict(table.weights)[name] * components[name] for name in total.terms)
        assert total.value == pytest.approx(0.0 if total.gated_by else added)
