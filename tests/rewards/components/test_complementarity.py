"""Tests passed to what each rollout adds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.rewards.components.complementarity import complementarity_values

GROUPS = st.lists(st.none() | st.lists(st.integers(0, 5), max_size=8), max_size=6)


def test_golden_values():
    """A test that few passed is worth more; a repeated id is one; a missing list takes no part."""
    cases = [
        (
            [["a", "b"], ["b"], []],
            [1.5 / 3, 0.5 / 3, 0.0],
        ),
        (
            [["a"], ["a"], ["a"], ["b"]],
            [1 / 12, 1 / 12, 1 / 12, 1 / 4],
        ),
        ([["a", "a"], ["a"]], [0.25, 0.25]),
        ([None, ["a"], ["b"]], [None, 0.5, 0.5]),
        ([{1, 2, 3}], [3.0]),
        ([None], [None]),
        ([], []),
    ]
    for passed, values in cases:
        assert complementarity_values(passed) == pytest.approx(values)


@given(GROUPS)
def test_a_group_shares_out_its_tests(passed):
    """The values are 0 or more and add up to the number of different tests passed, over n."""
    values = [value for value in complementarity_values(passed) if value is not None]
    different = {test for ids in passed if ids is not None for test in ids}
    assert all(value >= 0 for value in values)
    assert sum(values) * max(1, len(values)) == pytest.approx(len(different))
