"""Bradley-Terry with a prior, against plain gradient ascent."""

import math

import pytest
from drawn_verdicts import LISTS, MAX_N, approx
from hypothesis import given, settings

from genrm_cli.rewards.estimators import JudgedPair, JudgeFit, estimate


def naive_strengths(n, verdicts):
    """Climb the logarithm of the posterior by small steps along its gradient."""
    strengths, place = [0.0] * n, 0.0
    step = 1 / (0.25 + len(verdicts))
    for _ in range(20_000):
        slopes, of_place = [-0.25 * x for x in strengths], -0.25 * place
        for i, j, score_1, score_2, ranking in verdicts:
            lead = score_1 - score_2 or 3.5 - ranking
            won = 0.5 if lead == 0 else float(lead > 0)
            surprise = won - 1 / (1 + math.exp(-(strengths[i] - strengths[j] + place)))
            slopes[i] += surprise
            slopes[j] -= surprise
            of_place += surprise
        strengths = [x + step * slope for x, slope in zip(strengths, slopes, strict=True)]
        place += step * of_place
        if max(map(abs, [*slopes, of_place])) < 1e-11:
            break
    return strengths


def scores_of(n, verdicts):
    """Return the base scores."""
    return estimate("bradley_terry", n, verdicts, JudgeFit()).base_scores


@settings(max_examples=15)
@given(LISTS)
def test_the_top_of_the_posterior_is_found(verdicts):
    """The same strengths as by plain gradient ascent, written from the definition."""
    judged = {place for v in verdicts for place in (v.i, v.j)}
    strengths = naive_strengths(MAX_N, verdicts)
    expected = [3 + strengths[place] / 2 if place in judged else None for place in range(MAX_N)]
    assert scores_of(MAX_N, verdicts) == approx(expected)


def test_a_perfect_order_is_finite_and_in_order():
    """One comparison a pair, the lower place always better: without a prior there would be no solution."""
    order = [JudgedPair(i, j, 5, 1, 1) for i in range(8) for j in range(i + 1, 8)]
    made = estimate("bradley_terry", 8, order, JudgeFit())
    assert made.converged
    assert made.base_scores == sorted(made.base_scores, reverse=True)
    assert 0 <= min(made.base_scores) < max(made.base_scores) <= 6


def test_thousands_of_equal_verdicts_converge():
    """Newton's steps do not overshoot for good, however sure the verdicts are."""
    made = estimate("bradley_terry", 3, [JudgedPair(0, 1, 5, 1, 1)] * 5000 + [JudgedPair(2, 1, 5, 1, 1)], JudgeFit())
    assert made.converged
    assert made.base_scores[0] > made.base_scores[1]


def test_the_first_place_explains_what_it_can():
    """Where the first always wins nobody is better; without the term the circle would say the same, a star not."""
    star = [JudgedPair(0, other, 5, 1, 1) for other in range(1, 6)]
    circle = [JudgedPair(i, (i + 1) % 6, 5, 1, 1) for i in range(6)]
    assert scores_of(6, circle) == pytest.approx([3.0] * 6)
    lead = scores_of(6, star)[0] - scores_of(6, star)[1]
    both_orders = scores_of(6, star + [JudgedPair(j, i, 1, 5, 6) for i, j, *_ in star])
    assert 0 < lead < both_orders[0] - both_orders[1]
