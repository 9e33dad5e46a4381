"""The order of labelled rows, and the split of prompts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.export.balance import count_neighbours, similarity, spread_order
from genrm_cli.export.split import PromptSplit
from genrm_cli.rollouts.rollout import Turn

ESSAY = (
    "Write a letter to the mayor about the noise of the trams at night, with two examples from last week "
    "and one proposal that costs the city nothing at all"
)


@given(st.lists(st.integers(0, 12), max_size=80), st.integers(0, 4))
def test_rows_of_one_prompt_are_neighbours_only_where_they_outnumber_the_rest(keys, seed):
    """The order is a permutation; without a prompt that has most of the rows, next to no neighbours share one."""
    order = spread_order(keys, seed).tolist()
    assert sorted(order) == list(range(len(keys)))
    ordered = [keys[row] for row in order]
    most = max(Counter(keys).values(), default=0)
    if len(set(Counter(keys).values())) == 1 and len(set(keys)) > 1:
        assert count_neighbours(ordered) == 0
    if most:
        assert count_neighbours(ordered) <= max(0, most - 1)


def split_of(prompts, share, seed=0):
    """Return the numbers of the prompts on the validation side."""
    split = PromptSplit()
    for digest, text in enumerate(prompts):
        split.add(digest, (Turn("system", "Be brief."), Turn("user", text)))
    return split.validation(share, seed)


def test_near_duplicate_prompts_stand_on_one_side():
    """Prompts that differ in one word of many are never split, for any seed."""
    prompts = [f"{ESSAY} {word}" for word in ("please", "now", "today")] + [
        f"What is the {number}th prime number, and which {number} numbers come before it?" for number in "abcdefgh"
    ]
    sides = {frozenset(split_of(prompts, 0.3, seed) & {0, 1, 2}) for seed in range(12)}
    assert sides <= {frozenset(), frozenset({0, 1, 2})}


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_the_split_has_about_the_share_that_was_asked_for(share):
    """Of 400 different prompts the validation side holds the share, to within a few."""
    source = [" ".join(f"w{(number * 31 + at * at * 17) % 1009}" for at in range(12)) for number in range(400)]
    assert len(split_of(source, share)) == pytest.approx(share * 400, abs=4)


def test_prompts_that_are_all_alike_are_not_split():
    """One cluster cannot be on both sides."""
    assert split_of([f"{ESSAY} {word}" for word in ("a", "b", "c")], 0.5) == set()


def test_similarity_is_that_of_word_sequences():
    """Equal texts are 1, texts without a common sequence of three words 0."""
    assert similarity("one two three four", "one two three four") == 1.0
    assert similarity("one two three four", "five six seven") == 0.0
    assert similarity("one two three four", "one two three five") == pytest.approx(1 / 3)
