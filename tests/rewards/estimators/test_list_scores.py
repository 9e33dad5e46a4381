"""Base scores and errors from lists, against simulated judges whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.pairing.lists import ListPlan
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.list_estimates import estimate_lists
from genrm_cli.rewards.estimators.list_scores import ListScores, ListStatistics


def judged(rng, plan, n, *, noise=1.0, effects=None, lost=0.0):
    """Return the qualities of a group, and the lists of a judge with this noise."""
    qualities = rng.normal(0, 1, n)
    lists = []
    for planned in plan.iter_lists(n, str(rng.random())):
        places = [place for place in range(len(planned.shown)) if rng.random() >= lost]
        shown = [planned.shown[place] for place in places]
        scores = qualities[shown] + rng.normal(3, 0.3) + rng.normal(0, noise, len(shown))
        if effects is not None:
            scores += effects[places]
        lists.append(ListScores(shown, places, scores.tolist()))
    return qualities, lists


def calibrated(n, groups):
    """Return the calibration of a run."""
    statistics = ListStatistics()
    for _, lists in groups:
        statistics.add_group(n, lists)
    return statistics.fit()


@given(st.integers(2, 20), st.integers(3, 8), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_judge_without_noise_is_read_exactly(n, size, repeats, seed):
    """Differences of base scores are those of the qualities, whatever the lists."""
    rng = np.random.default_rng(seed)
    plan = ListPlan(size, repeats)
    qualities, lists = judged(rng, plan, n, noise=0.0)
    scores = np.array(estimate_lists(n, lists, Calibration()).base_scores)
    assert scores - scores.mean() == pytest.approx(qualities - qualities.mean(), abs=1e-6)


def test_rollouts_that_no_list_joins_are_unscored():
    """Two lists without a rollout in common say nothing about differences between them."""
    lists = [ListScores([0, 1], [0, 1], [4, 2]), ListScores([2, 3], [0, 1], [1, 5])]
    assert estimate_lists(4, lists, Calibration()).base_scores == [None] * 4
    joined = [*lists, ListScores([1, 2], [0, 1], [3, 3])]
    assert None not in estimate_lists(4, joined, Calibration()).base_scores
    assert estimate_lists(5, joined, Calibration()).base_scores[4] is None


def test_one_order_has_no_errors():
    """With one repeat nothing tells noise from quality; positions are still corrected."""
    rng = np.random.default_rng(1)
    effects = np.linspace(-1, 1, 8)
    groups = [judged(rng, ListPlan(), 8, effects=effects) for _ in range(200)]
    calibration = calibrated(8, groups)
    assert calibration.noise is None
    assert calibration.positions[:8] == pytest.approx(effects, abs=0.25)
    estimate = estimate_lists(8, groups[0][1], Calibration(lists=calibration))
    assert estimate.standard_errors == [None] * 8
    assert estimate.reliability is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "size", "repeats", "groups", "slope", "lost"),
    [
        (3, 8, 4, 40, 0.0, 0.0),
        (4, 8, 3, 40, 0.5, 0.1),
        (8, 8, 2, 40, 0.0, 0.0),
        (8, 8, 2, 20, 1.0, 0.1),
        (8, 8, 4, 10, 0.5, 0.0),
        (12, 8, 2, 20, 0.5, 0.05),
        (16, 4, 2, 20, 0.0, 0.0),
        (32, 8, 2, 10, 0.5, 0.0),
    ],
)
def test_standard_errors_cover_the_truth(n, size, repeats, groups, slope, lost):
    """95 % intervals hold 93 to 97 % of the judge's qualities, with positions estimated."""
    rng = np.random.default_rng(n * repeats)
    held = []
    for _ in range(60):
        run = [
            judged(
                rng, ListPlan(size, repeats), n, effects=np.linspace(-slope, slope, size), lost=lost
            )
            for _ in range(groups)
        ]
        calibration = calibrated(n, run)
        for qualities, lists in run:
            estimate = estimate_lists(n, lists, Calibration(lists=calibration))
            if None in estimate.base_scores:
                continue
            scores = np.array(estimate.base_scores)
            misses = np.abs(scores - scores.mean() - qualities + qualities.mean())
            held.append(misses <= 1.96 * np.array(estimate.standard_errors))
    assert 0.93 < np.mean(held) < 0.97


@pytest.mark.slow
def test_reliability_is_the_squared_correlation_beyond_chance():
    """Over judges from bad to good, within .05; a coin has 0."""
    rng = np.random.default_rng(3)
    for noise in (0.5, 1.0, 2.0, 4.0):
        run = [judged(rng, ListPlan(8, 2), 8, noise=noise) for _ in range(400)]
        calibration = calibrated(8, run)
        stated = []
        explained = []
        for qualities, lists in run:
            estimate = estimate_lists(8, lists, Calibration(lists=calibration))
            stated.append(estimate.reliability)
            squared = np.corrcoef(estimate.base_scores, qualities)[0, 1] ** 2
            explained.append((squared - 1 / 7) / (1 - 1 / 7))
        assert np.mean(stated) == pytest.approx(np.mean(explained), abs=0.05)
