"""What a component's function may return."""

import math

import numpy as np
import pytest

from genrm_cli.errors import UsageError
from genrm_cli.rewards.component import Column


@pytest.mark.parametrize(
    ("values", "notes", "problem"),
    [
        ([1.0], [], "returned 1 values; expected 2"),
        ([1.0, math.nan], [], "the value nan"),
        ([1.0, -math.inf], [], "the value -inf"),
        ([1.0, 10**400], [], "the value 1000"),
        ([1.0, "a"], [], "the value 'a'"),
        ([1.0, 2.0], [{}, {"at": object()}], "notes are not JSON"),
        ([1.0, 2.0], [{}, "\ud800"], "notes are not JSON"),
    ],
)
def test_an_odd_column_is_refused_with_its_component(values, notes, problem) -> None:
    """Nothing that the outputs cannot hold gets into them."""
    with pytest.raises(UsageError, match=problem):
        Column(values, notes).checked(2, "brevity")


def test_numbers_of_numpy_become_plain_ones() -> None:
    """An array is a column; JSON knows its numbers by their plain type."""
    column = Column([*np.ones(1), None, 3], []).checked(3, "brevity")
    assert column.values == [1.0, None, 3]
    assert [type(value) for value in column.values] == [float, type(None), int]
