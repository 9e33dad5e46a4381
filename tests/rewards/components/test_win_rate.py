"""Verdicts to win rates."""

from drawn_verdicts import LISTS, MAX_N
from hypothesis import given
from hypothesis import strategies as st
from verdict_rows import Row, verdicts_of

from genrm_cli.rewards.components import win_rate


def win_rates(n, rows):
    """Return the rates."""
    return win_rate.win_rates(n, verdicts_of(rows))


def test_golden_rates():
    """Wins over comparisons judged; a tie is a win for neither; no comparison, no rate."""
    cases = {
        "all pairs": (
            3,
            [
                (0, 1, 5, 1, 1),
                (0, 2, 4, 2, 2),
                (1, 2, 2, 3, 5),
            ],
            [1.0, 0.0, 0.5],
        ),
        "tie": (2, [(0, 1, 3, 3, 3.5)], [0.0, 0.0]),
        "ranking": (2, [(0, 1, 3, 3, 2)], [1.0, 0.0]),
        "ranking, second": (2, [(1, 0, 3, 3, 5)], [1.0, 0.0]),
        "scores first": (2, [(0, 1, 5, 1, 6)], [1.0, 0.0]),
        "flipped": (2, [(0, 1, 5, 1, 1), (1, 0, 5, 1, 1)], [0.5, 0.5]),
        "one unjudged": (3, [(0, 1, 5, 1, 1)], [1.0, 0.0, None]),
        "single": (1, [], [None]),
        "none": (0, [], []),
    }
    for case, (n, verdicts, rates) in cases.items():
        assert win_rates(n, verdicts) == rates, case


@given(LISTS, st.permutations(range(MAX_N)), st.randoms())
def test_names_places_and_order_do_not_matter(verdicts, order, shuffler):
    """Rollouts numbered otherwise, shown the other way round, judged in another order: the same
    rates.
    """
    changed = [Row(order[v.j], order[v.i], v.score_2, v.score_1, 7 - v.ranking) for v in verdicts]
    shuffler.shuffle(changed)
    rates = win_rates(MAX_N, changed)
    assert [rates[place] for place in order] == win_rates(MAX_N, verdicts)
    assert all(0 <= rate <= 1 for rate in rates if rate is not None)
