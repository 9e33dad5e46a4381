from itertools import combinations

import numpy as np
import pytest

from genrm_cli.products.ranking.looks import critical_z, prompts_to_show
from genrm_cli.products.ranking.pair_plan import (
    Pair,
    all_pairs,
    assumed_deviation,
    count_prompts,
    forecast,
    spread_pairs,
)


def planned(policies: int, prompts: int, budget: int) -> dict[int, list[Pair]]:
    """Plan pairs of two calls each on prompts that all policies answered."""
    offers = {
        prompt: [(pair, 2) for pair in combinations(range(policies), 2)]
        for prompt in range(prompts)
    }
    return spread_pairs(offers, policies, budget, seed=1)


@pytest.mark.parametrize(
    ("policies", "prompts", "budget"), [(5, 40, 200), (8, 30, 60), (3, 50, 100), (10, 20, 20)]
)
def test_a_budget_is_spread_evenly(policies, prompts, budget) -> None:
    """All calls are planned, prompts and pairs are used about equally often, and all policies are
    joined.
    """
    plan = planned(policies, prompts, budget)
    counts = count_prompts(plan, policies)
    uses = counts[np.triu_indices(policies, 1)]
    assert 2 * uses.sum() == budget
    assert uses.max() - uses.min() <= 1
    per_prompt = [len(plan.get(prompt, ())) for prompt in range(prompts)]
    assert max(per_prompt) - min(per_prompt) <= 1
    assert forecast(counts, 0.4, None, prompts=prompts) is not None


def test_a_budget_for_everything_plans_everything_once() -> None:
    """More calls than there are pairs choose every pair of every prompt."""
    plan = planned(4, 5, 1_000)
    assert {prompt: sorted(pairs) for prompt, pairs in plan.items()} == {
        prompt: list(combinations(range(4), 2)) for prompt in range(5)
    }


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
