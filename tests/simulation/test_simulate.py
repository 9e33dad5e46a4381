"""Plans and estimators on a simulated judge: limits that must hold, and results of earlier
simulations.
"""

import numpy as np
import pytest
from test_judge_model import PERFECT

from genrm_cli.pairing import STRATEGIES
from genrm_cli.rewards.estimators.estimates import ESTIMATORS
from genrm_cli.simulation import plan_metrics as module
from genrm_cli.simulation.plan_metrics import (
    Plan,
    PlanMetrics,
    correlations,
    indices_of,
    plan_within,
    simulate,
    top_hits,
)
from genrm_cli.simulation.world import JudgeModel

ALL = np.ones((1, 4), dtype=np.bool_)


# Judges that differ from the default in one way each.
def plan(strategy: str, calls: int, n: int = 16) -> Plan:
    """Return a plan that must exist."""
    found = plan_within(strategy, n, calls)
    assert found is not None
    return found


def metrics(
    model: JudgeModel,
    strategy: str,
    calls: int,
    estimator: str,
    *,
    n: int = 16,
    groups: int = 400,
    seed: int = 0,
) -> PlanMetrics:
    """Try one plan with one estimator."""
    return next(
        simulate(model, n, [plan(strategy, calls, n)], [estimator], groups=groups, seed=seed)
    )


@pytest.mark.parametrize("estimator", ["simple_tiebreaker", "combined", "adaptive"])
def test_a_perfect_judge_gives_the_truth(estimator: str) -> None:
    """With all pairs and exact scores the rewards are the truth, but for scores at the end of their
    scale.
    """
    found = metrics(PERFECT, "all_pairs", 28, estimator, n=8, groups=100)
    assert found.correlation > 0.99
    assert found.top_1 > 0.97


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_judge_that_sees_nothing_gives_nothing(estimator: str) -> None:
    """Rewards from noise alone are as near to the truth as chance, and so is their best."""
    blind = JudgeModel(misjudgement=100, noise=0, score_spread=0.01, ranking_spread=0.01)
    found = metrics(blind, "ring", 16, estimator, n=8)
    assert abs(found.correlation) < 4 * found.correlation_error + 0.01
    assert found.top_1 == pytest.approx(1 / 8, abs=4 * found.top_1_error)


def test_a_judge_that_says_one_thing_only_has_correlation_0() -> None:
    """Without spread there are no advantages: 0, not an error, and every rollout is as good as the
    best.
    """
    found = metrics(
        JudgeModel(score_spread=0, ranking_spread=0, leniency_spread=0),
        "circular",
        8,
        "combined",
        n=8,
    )
    assert (found.correlation, found.correlation_error) == (0, 0)
    assert found.top_1 == pytest.approx(1 / 8)


def test_the_same_seed_gives_the_same_figures() -> None:
    """Whatever else is tried beside them."""
    plans = [plan("ring", 16, 8), plan("circular", 16, 8)]
    alone = list(simulate(JudgeModel(), 8, plans[1:], ["combined"], groups=50, seed=9))
    beside = list(simulate(JudgeModel(), 8, plans, ["win_rate", "combined"], groups=50, seed=9))
    assert alone == [beside[3]]
    assert alone != list(simulate(JudgeModel(), 8, plans[1:], ["combined"], groups=50, seed=10))


def test_many_groups_are_simulated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts every group counts once, and the figures agree with those of one part to within
    chance.
    """
    whole = metrics(JudgeModel(), "ring", 16, "combined", n=8)
    monkeypatch.setattr(module, "_BLOCK_CELLS", 64 * 30)
    parts = metrics(JudgeModel(), "ring", 16, "combined", n=8)
    assert (parts.groups, parts.calls, parts.unscored) == (whole.groups, whole.calls, 0)
    assert parts.correlation == pytest.approx(whole.correlation, abs=5 * whole.correlation_error)


@pytest.mark.parametrize(
    ("strategy", "calls", "estimator", "expected"),
    [
        ("circular", 16, "simple_tiebreaker", 0.775),
        ("circular", 32, "simple_tiebreaker", 0.812),
        ("circular", 64, "simple_tiebreaker", 0.832),
        ("all_pairs", 120, "simple_tiebreaker", 0.901),
        ("ring", 32, "simple_tiebreaker", 0.844),
        ("ring", 64, "simple_tiebreaker", 0.888),
        ("ring", 16, "combined", 0.802),
        ("ring", 32, "combined", 0.863),
        ("ring", 64, "combined", 0.898),
        ("ring", 64, "bradley_terry", 0.824),
    ],
)
def test_the_figures_are_those_found_before(
    strategy: str, calls: int, estimator: str, expected: float
) -> None:
    """The default judge gives what an earlier simulation of these plans and estimators gave."""
    found = metrics(JudgeModel(), strategy, calls, estimator, groups=500, seed=1)
    assert found.correlation == pytest.approx(expected, abs=0.012)


def test_rollouts_without_a_verdict_are_counted() -> None:
    """Two calls reach at most four of eight rollouts."""
    assert metrics(JudgeModel(), "ring", 2, "combined", n=8).unscored == 0.5


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("n", [2, 5, 16])
def test_a_plan_stays_within_its_calls(strategy: str, n: int) -> None:
    """The arrays hold as many comparisons as the plan says, for every group, of two indices
    each.
    """
    for calls in (n, 2 * n, 3 * n, n * (n - 1)):
        found = plan_within(strategy, n, calls)
        if found is None:
            assert strategy == "all_pairs"
            continue
        first, second = indices_of(found, n, range(3, 6), seed=1)
        assert found.calls <= calls
        assert first.shape == second.shape == (3, found.calls)
        assert np.all(first != second)
        assert first.min() >= 0
        assert max(first.max(), second.max()) < n


def test_a_plan_of_too_few_calls_is_none() -> None:
    """What does not buy one pass of the list buys nothing."""
    assert plan_within("all_pairs", 16, 119) is None
    assert plan_within("circular", 16, 15) is None


def test_correlation_leaves_out_what_is_not_there() -> None:
    """It is numpy's on the others, and 0 for constants, a single value and none."""
    x = np.array([[1.0, 2.0, 4.0, 99.0]])
    y = np.array([[3.0, 1.0, 7.0, -5.0]])
    three = np.array([[True, True, True, False]])
    assert correlations(x, y, three)[0] == pytest.approx(np.corrcoef(x[0, :3], y[0, :3])[0, 1])
    for there in (ALL & False, np.array([[True, False, False, False]])):
        assert correlations(x, y, there)[0] == 0
    assert correlations(np.full((1, 4), 0.1), y, ALL)[0] == 0


def test_the_best_share_between_equals() -> None:
    """Of two highest rewards each counts a half."""
    values = np.array([[2.0, 5.0, 5.0, 1.0]])
    assert top_hits(values, np.array([[0.0, 9.0, 1.0, 2.0]]), ALL)[0] == 0.5
    assert top_hits(values, np.array([[9.0, 0.0, 1.0, 2.0]]), ALL)[0] == 0
