"""The probability that an order is right, against a simulated judge whose opinion is known."""

import numpy as np
import pytest
from bench.simulation.plan_metrics import indices_of, plan_within
from bench.simulation.world import JudgeModel, draw_world, judge_pairs
from numpy.random import default_rng

from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.order import posterior_of

GROUPS = 600
BINS = 5


@pytest.mark.parametrize(
    ("strategy", "n", "calls"),
    [("ring", 16, 16), pytest.param("ring", 16, 48, marks=pytest.mark.slow), ("circular", 8, 8)],
)
@pytest.mark.parametrize(
    "model", [JudgeModel(ties_broken=0), JudgeModel(position_bias_spread=0.6, noise=1.0)]
)
def test_confidence_is_calibrated(strategy, n, calls, model):
    """Among pairs with a confidence of p, the judge's steady opinion agrees with the order in p of
    them, within .03.
    """
    world = draw_world(model, GROUPS, n, default_rng([3, n]))
    plan = plan_within(strategy, n, calls)
    batch = judge_pairs(world, *indices_of(plan, n, range(GROUPS), 0), default_rng([4, calls]))
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    posterior = posterior_of(batch, statistics.fit())
    rows = [(g, i, j) for g in range(GROUPS) for i in range(n) for j in range(i)]
    rows = (
        [rows[at] for at in default_rng(5).choice(len(rows), 12_000, replace=False)]
        if len(rows) > 12_000
        else rows
    )
    sure = np.array([posterior.confidence(*row) for row in rows])
    right = np.array([world.quality[g, i] > world.quality[g, j] for g, i, j in rows])
    for low in np.linspace(0, 1, BINS, endpoint=False):
        here = (sure >= low) & (sure <= low + 1 / BINS)
        assert sure[here].mean() == pytest.approx(right[here].mean(), abs=0.03)


def test_confidences_of_both_orders_add_up_to_one():
    """P(i before j) + P(j before i) = 1, and a rollout is as good as itself."""
    world = draw_world(JudgeModel(), 200, 6, default_rng(1))
    plan = plan_within("ring", 6, 12)
    batch = judge_pairs(world, *indices_of(plan, 6, range(200), 0), default_rng(2))
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    posterior = posterior_of(batch, statistics.fit())
    for i in range(6):
        assert posterior.confidence(0, i, i) == 0.5
        for j in range(i):
            assert posterior.confidence(0, i, j) + posterior.confidence(0, j, i) == pytest.approx(
                1.0
            )


def test_without_a_calibration_nothing_is_known():
    """Too few verdicts give no probability, not one half."""
    world = draw_world(JudgeModel(), 1, 4, default_rng(1))
    plan = plan_within("ring", 4, 4)
    batch = judge_pairs(world, *indices_of(plan, 4, range(1), 0), default_rng(2))
    assert posterior_of(batch, Calibration()) is None
