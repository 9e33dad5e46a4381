"""The order of labelled rows, and the split of prompts."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.export.balance import similarity, spread_order, validation_prompts


@given(st.lists(st.integers(0, 12), max_size=80), st.integers(0, 4))
def test_rows_of_one_prompt_are_neighbours_only_where_they_outnumber_the_rest(keys, seed):
    """The order is a permutation; without a prompt that has most of the rows, next to no neighbours
    share one.
    """
    order = spread_order(keys, seed).tolist()
    assert sorted(order) == list(range(len(keys)))
    ordered = [keys[row] for row in order]
    most = max(Counter(keys).values(), default=0)
    neighbours = sum(one == other for one, other in pairwise(ordered))
    if len(set(Counter(keys).values())) == 1 and len(set(keys)) > 1:
        assert neighbours == 0
    assert neighbours <= max(0, most - 1)


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


def test_similarity_is_that_of_word_sequences():
    """Equal texts are 1, texts without a common sequence of three words 0."""
    assert similarity("one two three four", "one two three four") == 1.0
    assert similarity("one two three four", "five six seven") == 0.0
    assert similarity("one two three four", "one two three five") == pytest.approx(1 / 3)
