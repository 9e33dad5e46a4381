"""The order of labelled rows, and the split of prompts."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.products.export.balance import spread_order, validation_prompts


@given(st.lists(st.integers(0, 12), max_size=80))
def test_rows_of_one_prompt_are_spread(keys):
    """The order is a permutation, and keys of equally many rows are never neighbours."""
    order = spread_order(keys)
    assert sorted(order) == list(range(len(keys)))
    ordered = [keys[row] for row in order]
    if len(set(Counter(keys).values())) == 1 and len(set(keys)) > 1:
        assert not any(one == other for one, other in pairwise(ordered))


def test_the_split_has_the_share_that_was_asked_for():
    """Of 400 prompts the validation side holds the share, other ones with another seed."""
    for share in [0.05, 0.2, 0.5]:
        sides = [validation_prompts(range(400), share, seed) for seed in (0, 1)]
        assert [len(side) for side in sides] == [share * 400] * 2
        assert sides[0] != sides[1]


def test_neither_side_of_a_split_is_empty():
    """Two prompts give one each, whatever the share; one prompt is not split, nor is anything
    without a share.
    """
    assert [len(validation_prompts([1, 2, 1], share, 0)) for share in (0.01, 0.9, 0.0)] == [1, 1, 0]
    assert validation_prompts([1, 1], 0.5, 0) == set()


def test_rows_of_one_prompt_stand_around_those_of_another():
    """Two rows stand at a quarter and three quarters of the whole, a single one in the middle."""
    assert spread_order([1, 1, 2]) == [0, 2, 1]
