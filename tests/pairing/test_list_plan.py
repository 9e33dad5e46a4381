"""Lists for listwise judges: which rollouts stand together, and in which order."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.pairing.lists import ListPlan, williams_row

# To balance a plan takes some of a second, once for each of these.
SIZES = st.sampled_from([3, 5, 8, 12])
COUNTS = st.integers(2, 24)


def information(n, lists):
    """Return the information matrix of lists of n rollouts."""
    matrix = np.zeros((n, n))
    for each in lists:
        rows = np.ix_(each.shown, each.shown)
        matrix[rows] += np.eye(len(each.shown)) - 1 / len(each.shown)
    return matrix


@pytest.mark.parametrize("n", range(2, 17))
def test_orders_balance_positions_and_neighbours(n):
    """Positions differ by at most one in any number of rows, and all are equal in the whole square,
    in which each follows each other equally often.
    """
    whole = n if n % 2 == 0 else 2 * n
    rows = [williams_row(n, number) for number in range(whole)]
    for count in range(1, whole + 1):
        places = Counter((index, place) for row in rows[:count] for place, index in enumerate(row))
        counts = [places[index, place] for index in range(n) for place in range(n)]
        assert max(counts) - min(counts) <= (1 if count <= n else 2)
    followers = Counter(pair for row in rows for pair in pairwise(row))
    assert len(followers) == n * (n - 1)
    assert len(set(followers.values())) == 1


@given(COUNTS, SIZES, st.integers(1, 5), st.text(max_size=5), st.integers(0, 3))
def test_each_repeat_shows_every_rollout_once(n, size, repeats, key, seed):
    """Lists are of nearly equal length, at most the list size, and as many as counted."""
    plan = ListPlan(size, repeats, seed)
    lists = list(plan.iter_lists(n, key))
    assert len(lists) == plan.count(n)
    lengths = [len(each.shown) for each in lists]
    assert max(lengths) == plan.longest(n) <= size
    assert max(lengths) - min(lengths) <= 1
    for repeat in {each.repeat for each in lists}:
        shown = [index for each in lists if each.repeat == repeat for index in each.shown]
        assert sorted(shown) == list(range(n))


@given(COUNTS, SIZES, st.integers(1, 4))
def test_lists_connect_the_group(n, size, repeats):
    """However large the group, all differences between its rollouts can be estimated."""
    lists = ListPlan(size, repeats).iter_lists(n)
    assert np.linalg.matrix_rank(information(n, lists)) == n - 1


@given(COUNTS, SIZES, st.integers(2, 3), st.text(max_size=5))
def test_more_repeats_keep_the_lists_of_fewer(n, size, repeats, key):
    """A run that adds repeats asks for none of its verdicts again."""
    fewer = list(ListPlan(size, repeats).iter_lists(n, key))
    more = list(ListPlan(size, repeats + 1).iter_lists(n, key))
    assert more[: len(fewer)] == fewer


@pytest.mark.slow
def test_lists_connect_a_large_group():
    """Beyond 64 rollouts the lists are chosen in another way."""
    assert np.linalg.matrix_rank(information(70, ListPlan(8, 2).iter_lists(70))) == 69


@pytest.mark.parametrize(
    ("n", "size", "repeats", "variance"),
    [
        (12, 4, 2, 1.41),
        (12, 8, 2, 1.18),
        (16, 4, 4, 0.65),
        (16, 8, 2, 1.13),
        (32, 4, 2, 1.61),
        (32, 8, 4, 0.57),
    ],
)
def test_blocks_are_as_efficient_as_the_best_known(n, size, repeats, variance):
    """The mean variance of a difference is that of the best of 300 alpha designs."""
    inverse = np.linalg.pinv(information(n, ListPlan(size, repeats).iter_lists(n)))
    mean = 2 * np.trace(inverse) / (n - 1)
    assert mean == pytest.approx(variance, rel=0.02)
