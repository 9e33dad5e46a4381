import numpy as np
import pytest

from genrm_cli.products.ranking.looks import critical_z, prompts_to_show
from genrm_cli.products.ranking.pair_plan import (
    all_pairs,
    assumed_deviation,
    forecast,
)


def test_the_forecast_is_that_of_the_normal_test() -> None:
    """Two policies need the prompts of the reference's table; all pairs of five narrow each other's
    gaps.
    """
    found = [prompts_to_show(gap, 0.38, one_look=True) for gap in (0.02, 0.05, 0.1)]
    assert found == pytest.approx([2_835, 454, 114], abs=1)
    two = forecast(np.array([[0, 454], [454, 0]]), 0.38, None, prompts=454, one_look=True)
    assert two.smallest_difference == pytest.approx(0.05, abs=1e-4)
    assert two.half_width == pytest.approx(1.96 * 0.38 / 454**0.5, rel=1e-3)
    five = forecast(100 * (1 - np.eye(5)), 0.38, None, prompts=454, one_look=True)
    assert five.half_width == pytest.approx(1.96 * 0.38 * (2 / 500) ** 0.5, rel=1e-3)
    assert forecast(np.diag([0.0, 0.0]), 0.38, None, prompts=454) is None
    anytime = forecast(np.array([[0, 454], [454, 0]]), 0.38, None, prompts=454)
    few = forecast(np.array([[0, 19], [19, 0]]), 0.38, None, prompts=19, one_look=True)
    assert (few.half_width, few.smallest_difference) == (None, None)
    assert anytime.half_width / two.half_width == pytest.approx(critical_z(454) / 1.96, rel=1e-3)


def test_deviations_are_those_measured() -> None:
    """One sample in both orders, in one, and four matched samples deviate as on recorded
    verdicts.
    """
    assert assumed_deviation(1, both_orders=True) == pytest.approx(0.38, abs=0.005)
    assert assumed_deviation(1, both_orders=False) == pytest.approx(0.455, abs=0.005)
    assert assumed_deviation(4, both_orders=True) == pytest.approx(0.29, abs=0.005)


def test_the_pairs_of_a_baseline_and_a_curve() -> None:
    """A baseline meets all others; steps also meet their neighbours."""
    assert all_pairs(4, 2, is_curve=False) == {(0, 2), (1, 2), (2, 3)}
    assert {(0, 5), (3, 4), (1, 4)} <= all_pairs(6, 0, is_curve=True)
    assert (1, 3) not in all_pairs(6, 0, is_curve=True)
