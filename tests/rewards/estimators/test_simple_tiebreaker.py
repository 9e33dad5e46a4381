"""From verdicts to base scores: the golden values of the reference, and what must hold for all
verdicts.
"""

import pytest
from drawn_verdicts import LISTS, MAX_N, VERDICTS, approx
from hypothesis import given
from verdict_rows import verdicts_of

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import estimate


def estimate_simple_tiebreaker(n, rows):
    """Return the base scores."""
    return estimate("simple_tiebreaker", n, verdicts_of(rows), Calibration()).base_scores


def naive_scores(n, rows):
    """Average the scores of each rollout, written from the definition."""
    given = [[] for _ in range(n)]
    for i, j, score_1, score_2, ranking in rows:
        shift = 3.5 - ranking if score_1 == score_2 else 0.0
        given[i].append(score_1 + shift)
        given[j].append(score_2 - shift)
    return [sum(scores) / len(scores) if scores else None for scores in given]


def test_golden_scores():
    """The reference's numbers; a ranking counts only where the scores are equal."""
    cases = {
        "seed example": (2, [(0, 1, 1, 5, 6), (1, 0, 4, 1, 1)], [1.0, 4.5]),
        "tie": (2, [(0, 1, 3, 3, 2)], [4.5, 1.5]),
        "even tie": (2, [(0, 1, 3, 3, 3.5)], [3.0, 3.0]),
        "circle": (
            3,
            [
                (0, 1, 4, 2, 1),
                (1, 2, 3, 5, 5),
                (2, 0, 3, 4, 4),
            ],
            [4.0, 2.5, 4.0],
        ),
        "wide tie": (2, [(0, 1, 3, 3, 1)], [5.5, 0.5]),
        "ranking contradicts": (2, [(0, 1, 5, 1, 6)], [5.0, 1.0]),
    }
    for case, (n, verdicts, scores) in cases.items():
        assert estimate_simple_tiebreaker(n, verdicts) == approx(scores), case


@given(LISTS)
def test_scores_are_those_of_the_definition(verdicts):
    """Up to rounding in the last digit."""
    expected = [
        score if score is None else pytest.approx(score, rel=1e-15)
        for score in naive_scores(MAX_N, verdicts)
    ]
    assert estimate_simple_tiebreaker(MAX_N, verdicts) == expected


@given(LISTS, VERDICTS)
def test_a_verdict_touches_only_its_two_rollouts(verdicts, another):
    """A further verdict leaves the scores of all others exactly as they were."""
    before = estimate_simple_tiebreaker(MAX_N, verdicts)
    after = estimate_simple_tiebreaker(MAX_N, [*verdicts, another])
    others = [place for place in range(MAX_N) if place not in (another.i, another.j)]
    assert [before[place] for place in others] == [after[place] for place in others]
