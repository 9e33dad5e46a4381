"""Strengths from labels, against plain gradient ascent."""

import math

import numpy as np
import pytest
from drawn_verdicts import LISTS, MAX_N, approx
from hypothesis import given
from hypothesis import strategies as st
from verdict_rows import Row, verdicts_of

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import estimate
from genrm_cli.rewards.estimators.label_strengths import PRIOR_VARIANCE, position_log_odds
from genrm_cli.rewards.estimators.labels import THREE_LABELS


def naive_strengths(n, verdicts, position):
    """Climb the logarithm of the posterior by small steps along its gradient."""
    decided = [(v.score_1 - v.score_2 or 3.5 - v.ranking) != 0 for v in verdicts]
    of_tie = position * sum(decided) / max(1, len(verdicts))
    strengths = [0.0] * n
    step = 1 / (0.25 + len(verdicts) / 2)
    for _ in range(20_000):
        slopes = [-x / PRIOR_VARIANCE for x in strengths]
        for v, is_decided in zip(verdicts, decided, strict=True):
            advantage = strengths[v.i] - strengths[v.j] + (position if is_decided else of_tie)
            odds = [
                math.exp(value * advantage + weight)
                for value, weight in zip(*THREE_LABELS, strict=True)
            ]
            mean = (odds[2] - odds[0]) / 2 / sum(odds)
            surprise = (v.score_1 - v.score_2 + 3.5 - v.ranking) / 7 - mean
            slopes[v.i] += surprise
            slopes[v.j] -= surprise
        strengths = [x + step * slope for x, slope in zip(strengths, slopes, strict=True)]
        if max(map(abs, slopes)) < 1e-11:
            break
    return strengths


def scores_of(n, verdicts, first_share=0.5):
    """Return the base scores."""
    judge = Calibration(first_share=first_share, labels=THREE_LABELS)
    return estimate("adaptive", n, verdicts_of(verdicts), judge).base_scores


@given(LISTS, st.sampled_from([0.5, 0.6, 0.2]))
def test_the_top_of_the_posterior_is_found(verdicts, first_share):
    """The same strengths as by plain gradient ascent, written from the definition."""
    judged = {place for v in verdicts for place in (v.i, v.j)}
    strengths = naive_strengths(MAX_N, verdicts, 1.157 * position_log_odds(first_share))
    expected = [3 + strengths[place] / 2 if place in judged else None for place in range(MAX_N)]
    assert scores_of(MAX_N, verdicts, first_share) == approx(expected)


def test_a_perfect_order_is_finite_and_in_order():
    """One comparison a pair, the lower place always better: without a prior there would be no
    solution.
    """
    order = [Row(i, j, 4, 2, 2) for i in range(8) for j in range(i + 1, 8)]
    scores = scores_of(8, order)
    assert scores == sorted(scores, reverse=True)
    assert 0 <= min(scores) < max(scores) <= 6


def test_thousands_of_equal_verdicts_converge():
    """Newton's steps do not overshoot for good, however sure the verdicts are."""
    rows = [Row(0, 1, 4, 2, 2)] * 5000 + [Row(2, 1, 4, 2, 2)]
    scores = scores_of(3, rows)
    assert scores[0] > scores[1]
    expected = naive_strengths(3, [*rows[:200], rows[-1]], 0.0)
    assert scores_of(3, [*rows[:200], rows[-1]]) == approx([3 + x / 2 for x in expected])


def test_the_log_odds_of_the_place_are_found_from_its_share():
    """Between two rollouts of the prior; to a tenth, by numerical integration."""
    for place in [-1.5, 0.0, 0.4, 2.0]:
        gaps = np.linspace(-20, 20, 4001)
        density = np.exp(-(gaps**2) / (4 * PRIOR_VARIANCE))
        share = float((density / (1 + np.exp(-(gaps + place)))).sum() / density.sum())
        assert position_log_odds(share) == pytest.approx(place, rel=0.1, abs=1e-9)
