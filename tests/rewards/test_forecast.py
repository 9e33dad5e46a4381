"""The reliability that a run predicts for more comparisons, against what they give."""

import numpy as np
import pytest
from label_judges import label_pairs
from numpy.random import default_rng

from genrm_cli.pairing import plan_comparisons
from genrm_cli.rewards.estimators import ESTIMATORS, BatchEstimate, Calibration, CalibrationStatistics, VerdictBatch
from genrm_cli.rewards.forecast import Forecast, Pairs, forecast_reliability
from genrm_cli.simulation.world import JudgeModel, World, draw_world, judge_pairs

JUDGES = {
    "scores": JudgeModel(),
    "GPT-4": JudgeModel(noise=0.6, position_bias=0.26, position_bias_spread=0.25),
    "Claude": JudgeModel(noise=1.0, position_bias=-0.6, position_bias_spread=0.6),
}
"""The last two as fitted to recorded labels."""
TIES = {JUDGES["GPT-4"]: 0.3, JUDGES["Claude"]: 0.2}


def rings(n: int, ring_k: float) -> Pairs:
    """Plan rings of a group."""
    return [(i, j) for i, j, _ in plan_comparisons(n, "ring", ring_k=ring_k)]


def judged(world: World, pairs: Pairs) -> VerdictBatch:
    """Show the pairs of all groups to the judge."""
    first, second = (np.tile(column, (len(world.truth), 1)) for column in zip(*pairs, strict=True))
    shown = world, first, second, default_rng([2, len(pairs)])
    return label_pairs(*shown, tie=TIES[world.model]) if world.model in TIES else judge_pairs(*shown)


def estimated(batch: VerdictBatch, estimator: str) -> tuple[BatchEstimate, Calibration]:
    """Estimate as a run does."""
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    calibration = statistics.fit()
    return ESTIMATORS[estimator](batch, calibration), calibration


def forecast(world: World, n: int, ring_k: float, estimator: str = "combined") -> Forecast | None:
    """Predict from a run of one ring."""
    made = rings(n, 1)
    estimate, calibration = estimated(judged(world, made), estimator)
    reliability = float(estimate.reliabilities.mean())
    return forecast_reliability(estimator, n, made, rings(n, ring_k), reliability, calibration)


@pytest.mark.parametrize(
    ("n", "groups"),
    [
        pytest.param(4, 16_000, marks=pytest.mark.slow),
        pytest.param(5, 8_000, marks=pytest.mark.slow),
        pytest.param(7, 2_000, marks=pytest.mark.slow),
        (8, 2_000),
    ],
)
@pytest.mark.parametrize(("name", "estimator"), [("scores", "combined"), ("GPT-4", "adaptive"), ("Claude", "combined")])
def test_more_rings_give_what_one_ring_predicts(name: str, estimator: str, n: int, groups: int) -> None:
    """Within .05 of the reliability that the larger run reports, for judges of scores and of labels."""
    world = draw_world(JUDGES[name], groups, n, default_rng(1))
    for ring_k in (1.5, 2):
        predicted = forecast(world, n, ring_k, estimator)
        reported, _ = estimated(judged(world, rings(n, ring_k)), estimator)
        assert predicted is not None
        assert predicted.value == pytest.approx(reported.reliabilities.mean(), abs=0.05)


def test_the_interval_covers_what_many_groups_show() -> None:
    """Of runs of 60 groups, at least nine in ten; it is wide for few groups and narrow for many."""
    reported, _ = estimated(judged(draw_world(JUDGES["GPT-4"], 4000, 5, default_rng(1)), rings(5, 2)), "combined")
    truth = reported.reliabilities.mean()
    found = [forecast(draw_world(JUDGES["GPT-4"], 60, 5, default_rng([7, run])), 5, 2) for run in range(60)]
    small = [each for each in found if each is not None]
    assert sum(each.low <= truth <= each.high for each in small) >= 54
    large = forecast(draw_world(JUDGES["GPT-4"], 4000, 5, default_rng(1)), 5, 2)
    assert large is not None
    assert 5 * (large.high - large.low) < np.median([each.high - each.low for each in small])


def test_nothing_is_predicted_from_too_little() -> None:
    """Not without a measured noise, not where no signal was found, and not for an average of wins."""
    world = draw_world(JUDGES["scores"], 100, 6, default_rng(1))
    _, calibration = estimated(judged(world, rings(6, 1)), "combined")
    made, more = rings(6, 1), rings(6, 2)
    assert forecast_reliability("combined", 6, made, more, 0.5, calibration) is not None
    assert forecast_reliability("combined", 6, made, more, 0.0, calibration) is None
    assert forecast_reliability("win_rate", 6, made, more, 0.5, calibration) is None
    assert forecast_reliability("combined", 6, made, more, 0.5, Calibration()) is None
