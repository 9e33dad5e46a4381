"""Numbers to their place in the group."""

from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.rewards.components.rank import rank_values

VALUES = st.lists(st.none() | st.sampled_from([-2.0, -0.0, 0.0, 0.5, 1.0, 7.0]), max_size=10)


def test_golden_ranks():
    """Ascending position over n - 1; a sole value is 1.0; a missing one takes no part."""
    cases = [
        ([0.3, 0.1, 0.2], "mean", [1.0, 0.0, 0.5]),
        ([1.0, 1.0, 0.0], "mean", [0.75, 0.75, 0.0]),
        ([1.0, 1.0, 0.0], "order", [0.5, 1.0, 0.0]),
        ([2.0, 2.0, 2.0], "mean", [0.5, 0.5, 0.5]),
        ([2.0, 2.0, 2.0], "order", [0.0, 0.5, 1.0]),
        ([None, 5.0, 4.0], "mean", [None, 1.0, 0.0]),
        ([5.0], "mean", [1.0]),
        ([None, -5.0], "order", [None, 1.0]),
        ([None, None], "mean", [None, None]),
        ([], "mean", []),
    ]
    for values, ties, ranks in cases:
        assert rank_values(values, ties) == ranks


@given(VALUES)
def test_the_mean_of_ties_is_fair(values):
    """Equal values have equal ranks, greater ones greater ranks, and all lie from 0 to 1."""
    ranked = [pair for pair in zip(values, rank_values(values), strict=True) if pair[0] is not None]
    for value, rank in ranked:
        assert 0 <= rank <= 1
        for other, other_rank in ranked:
            assert (value < other) == (rank < other_rank)
