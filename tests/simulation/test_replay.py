"""Plans and estimators on recorded verdicts: what is known of the judge comes out."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from label_judges import label_pairs
from numpy.random import default_rng
from simulated_pairs import ordered_pairs
from verdict_rows import verdicts_of

from genrm_cli.pairing import Comparison
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.simulation.plan_metrics import Plan, plan_within
from genrm_cli.simulation.replay import DenseVerdicts, ReplayMetrics, dense_verdicts, replay
from genrm_cli.simulation.replay_goals import replay_goal
from genrm_cli.simulation.world import JudgeModel, draw_world, judge_pairs

N = 6
ESTIMATORS = ("simple_tiebreaker", "combined")


def recorded(
    groups: int = 120, seed: int = 3, ask: Any = judge_pairs, **numbers: float
) -> DenseVerdicts:
    """Record what a simulated judge says of all pairs in both orders."""
    generator = default_rng(seed)
    world = draw_world(JudgeModel(**numbers), groups, N, generator)
    batch = ask(world, *ordered_pairs(groups, N), generator)
    tables = np.zeros((3, groups, N, N))
    rows = np.arange(groups)[:, None]
    for table, column in zip(tables, (batch.score_1, batch.score_2, batch.ranking), strict=True):
        table[rows, batch.first, batch.second] = column
    return DenseVerdicts(tables)


def replayed(dense: DenseVerdicts, *plans: Plan | None) -> list[ReplayMetrics]:
    """Replay plans with both estimators."""
    return list(
        replay("house", dense, [plan for plan in plans if plan is not None], ESTIMATORS, seed=1)
    )


def test_a_judge_without_errors_is_agreed_with() -> None:
    """The rewards of half of its verdicts order all rollouts as the other half does."""
    exact = recorded(
        position_bias=0, position_bias_spread=0, misjudgement=0, intransitivity=0, noise=0, score_noise=0,  # noqa: E501
        ranking_noise=0, leniency_spread=0, score_step=0, ranking_step=0, score_spread=0.2, ranking_spread=0.2,  # noqa: E501
    )  # fmt: skip
    _, combined = replayed(exact, plan_within("ring", N, 12))
    assert combined.agreement.value > 0.99


def test_the_better_estimator_wins_at_equal_calls() -> None:
    """On a judge with noise, combined gains over the reference's mean, and the interval of the gain
    says so.
    """
    simple, combined = replayed(recorded(), plan_within("ring", N, 12))
    assert simple.gain.value == 0
    assert combined.gain.low > 0
    assert combined.gain.low <= combined.gain.value <= combined.gain.high


def test_verdicts_that_mean_nothing_agree_with_nothing() -> None:
    """The consensus does not include the verdicts of the plan, so noise agrees with nothing."""
    _, combined = replayed(recorded(noise=1e3, repeating=0), plan_within("ring", N, 6))
    assert combined.agreement.low < 0.02
    assert combined.agreement_all.value > 0.2


@pytest.mark.parametrize("goal", ["best", "pair"])
def test_a_goal_finds_more_than_rings_with_as_many_calls(goal: str) -> None:
    """On a judge of labels the interval says so; more calls find more."""
    few, every = replay_goal(
        "house", recorded(ask=partial(label_pairs, tie=0.3)), goal, [8, 15], seed=1
    )
    assert few.equal_calls.low > few.calls == 8
    assert every.found.value > few.found.value


def test_only_dense_groups_of_one_size_are_replayed() -> None:
    """Of the size that most dense groups have; failures are left out, and of repeats the first one
    counts.
    """

    def group(n: int, missing: int = 0) -> Verdicts:
        pairs = [(i, j, 4, 2, 2) for i in range(n) for j in range(n) if i != j]
        return verdicts_of(pairs[missing:])

    repeated = dict(group(5)) | {
        Comparison(0, 1, 99): next(iter(verdicts_of([(0, 1, 1, 5, 6)]).values()))
    }
    dense = dense_verdicts([group(5, 2), repeated, group(4), group(5, 5), {}])
    assert dense is not None
    assert dense.shape == (2, 5)
    assert (int(dense.valid.sum()), dense.numbers[0, 1, 0, 1]) == (38, 4)
    assert dense_verdicts([group(5), group(4), group(2), group(2)]) is None
