"""Components of a rollout to its total."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.rewards.compose import Gate, Total, TotalTerms, Weight, compose_total

NAMES = ("genrm", "safety", "rank")
COMPONENTS = st.dictionaries(st.sampled_from(NAMES), st.none() | st.floats(0, 10))
WEIGHTS = st.dictionaries(
    st.sampled_from(NAMES), st.builds(Weight, st.floats(0.01, 5), st.booleans()), min_size=1
)
GATES = st.lists(st.builds(Gate, st.sampled_from(NAMES), st.floats(0, 10)), max_size=3)


def total_of(components, *gates, clip=None, normalise=False, **weights):
    """Compose with weights given by name; a pair is weight and optional."""
    made = {
        name: Weight(*weight) if isinstance(weight, tuple) else Weight(weight)
        for name, weight in weights.items()
    }
    return compose_total(
        components, TotalTerms(made, [Gate(*gate) for gate in gates], clip, normalise)
    )


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
    assert total == Total(5.0, {"genrm": 4.0, "safety": 1.0})


def test_a_missing_component_leaves_no_total():
    """None and not there are the same: no value, and the name of what is missing."""
    for components in [{"genrm": 4.0, "safety": None}, {"genrm": 4.0}]:
        assert total_of(components, genrm=1, safety=1) == Total(
            None, {"genrm": 4.0}, (), ("safety",)
        )


def test_an_optional_component_may_be_missing():
    """The total is that of the other components; if all are missing, there is none."""
    assert total_of({"genrm": 4.0}, genrm=1, safety=(1, True)) == Total(4.0, {"genrm": 4.0})
    assert total_of({}, genrm=(1, True), safety=(1, True)) == Total(
        None, {}, (), ("genrm", "safety")
    )


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
    assert total_of({"genrm": 4.0}, ("safety", 0.5), genrm=1) == Total(
        None, {"genrm": 4.0}, (), ("safety",)
    )
    assert total_of({"genrm": 4.0, "safety": 0.0}, ("safety", 0.5), genrm=1).value == 0.0
    assert total_of({"genrm": 4.0, "safety": 1.0}, ("safety", 0.5), genrm=1).value == 4.0


def test_clipping_comes_last_but_a_gate_stays_closed():
    """The range bounds the total; a side left open does not; a gated total is 0 even outside the
    range.
    """
    assert total_of({"genrm": 4.0}, genrm=1, clip=(0.0, 1.0)).value == 1.0
    assert total_of({"genrm": -4.0}, genrm=1, clip=(-1.0, None)).value == -1.0
    assert total_of({"genrm": 4.0}, genrm=1, clip=(None, None)).value == 4.0
    assert (
        total_of({"genrm": 4.0, "safety": 0.0}, ("safety", 0.5), genrm=1, clip=(1.0, 2.0)).value
        == 0.0
    )


def test_normalising_divides_by_the_weights_that_are_there():
    """A missing optional component takes its weight along; terms are told before the division."""
    components = {"genrm": 4.0, "safety": 1.0}
    total = total_of(components, genrm=1, safety=2, rank=(5, True), normalise=True)
    assert total == Total(2.0, {"genrm": 4.0, "safety": 2.0})
    assert total_of({"genrm": 4.0}, genrm=0, normalise=True).value is None
    assert total_of({"genrm": 4.0}, genrm=0).value == 0.0


@given(COMPONENTS, WEIGHTS, GATES, st.booleans())
def test_a_value_and_a_missing_component_exclude_each_other(components, weights, gates, normalise):
    """There is a value exactly when nothing needed is missing; it is 0 when gated, else within its
    bounds.
    """
    total = compose_total(components, TotalTerms(weights, gates, None, normalise))
    assert (total.value is None) == bool(total.missing)
    there = [components[name] for name in total.terms]
    if total.value is not None and total.gated_by:
        assert total.value == 0.0
    elif total.value is not None and normalise:
        assert min(there) - 1e-9 <= total.value <= max(there) + 1e-9
    elif total.value is not None:
        assert total.value == pytest.approx(
            sum(weights[name].weight * components[name] for name in total.terms)
        )
