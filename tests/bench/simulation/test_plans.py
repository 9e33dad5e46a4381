"""The tables of `bench/plans.py`: what is known of a judge comes out."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from bench.plans import iter_lines, parse_arguments
from bench.simulation.plan_metrics import PlanMetrics, plan_within, simulate
from bench.simulation.replay import DenseVerdicts, ReplayMetrics, dense_verdicts, replay
from bench.simulation.replay_goals import replay_goal
from bench.simulation.world import JudgeModel, draw_world, judge_pairs
from genrm_process import Call, Genrm, make_rollouts
from label_judges import label_pairs
from numpy.random import default_rng
from simulated_pairs import ordered_pairs
from verdict_rows import verdicts_of

from genrm_cli.rewards.estimators.verdict_batch import Verdicts

pytestmark = pytest.mark.slow
N = 6
PERFECT = {
    "position_bias": 0,
    "position_bias_spread": 0,
    "misjudgement": 0,
    "intransitivity": 0,
    "noise": 0,
    "score_noise": 0,
    "ranking_noise": 0,
    "leniency_spread": 0,
    "mean_score": 3,
    "score_spread": 0.2,
    "ranking_spread": 0.2,
    "score_step": 0,
    "ranking_step": 0,
}


def metrics(strategy: str, calls: int, estimator: str, **numbers: float) -> PlanMetrics:
    """Return the metrics of a plan for 500 groups of 16."""
    plan = plan_within(strategy, 16, calls)
    assert plan is not None
    return next(simulate(JudgeModel(**numbers), 16, [plan], [estimator], groups=500, seed=1))


def recorded(ask: Any = judge_pairs, **numbers: float) -> DenseVerdicts:
    """Return a simulated judge's verdicts on all pairs of 120 groups in both orders."""
    generator = default_rng(3)
    world = draw_world(JudgeModel(**numbers), 120, N, generator)
    batch = ask(world, *ordered_pairs(120, N), generator)
    tables = np.zeros((3, 120, N, N))
    rows = np.arange(120)[:, None]
    for table, column in zip(tables, (batch.score_1, batch.score_2, batch.ranking), strict=True):
        table[rows, batch.first, batch.second] = column
    return DenseVerdicts(tables)


def replayed(dense: DenseVerdicts, calls: int) -> ReplayMetrics:
    """Replay rings."""
    plan = plan_within("ring", N, calls)
    assert plan is not None
    return next(replay(dense, [plan], ["adaptive"], seed=1))


def test_the_default_judge_is_like_public_ones() -> None:
    """Right on 77.5 % of the pairs, first place in 58 %, flips 29 %, ties 9.6 %, each to a
    point.
    """
    world = draw_world(JudgeModel(), 2_000, 8, default_rng(1))
    batch = judge_pairs(world, *ordered_pairs(2_000, 8), default_rng(2))
    rows = np.arange(2_000)[:, None]
    preferred = np.sign(batch.preferences())
    by_order = np.zeros((2_000, 8, 8))
    by_order[rows, batch.first, batch.second] = preferred
    better = np.sign(world.truth[rows, batch.first] - world.truth[rows, batch.second])
    assert [
        np.mean(preferred == better),
        np.mean(preferred > 0),
        np.mean(preferred != -by_order[rows, batch.second, batch.first]),
        np.mean(batch.score_1 == batch.score_2),
    ] == pytest.approx([0.775, 0.58, 0.29, 0.096], abs=0.01)


@pytest.mark.parametrize(
    ("strategy", "calls", "estimator", "expected"),
    [
        ("circular", 16, "simple_tiebreaker", 0.775),
        ("all_pairs", 120, "simple_tiebreaker", 0.901),
        ("ring", 32, "adaptive", 0.863),
    ],
)
def test_the_figures_are_those_found_before(
    strategy: str, calls: int, estimator: str, expected: float
) -> None:
    """The default judge gives what an earlier simulation of these plans and estimators gave."""
    assert metrics(strategy, calls, estimator).correlation == pytest.approx(expected, abs=0.012)


def test_a_perfect_judge_gives_the_truth_and_a_blind_one_nothing() -> None:
    """All pairs of exact scores are the truth; noise alone agrees with nothing."""
    exact = metrics("all_pairs", 120, "adaptive", **PERFECT)
    assert exact.correlation > 0.99
    blind = metrics(
        "ring", 16, "adaptive", misjudgement=100, noise=0, score_spread=0.01, ranking_spread=0.01
    )
    assert abs(blind.correlation) < 4 * blind.correlation_error + 0.01


def test_a_replay_agrees_with_an_exact_judge_and_not_with_noise() -> None:
    """The consensus leaves out the verdicts of the plan, so noise agrees with nothing."""
    assert replayed(recorded(**PERFECT), 12).agreement.value > 0.99
    assert replayed(recorded(noise=1e3, repeating=0), 6).agreement.low < 0.02


@pytest.mark.parametrize("goal", ["best", "pair"])
def test_a_goal_finds_more_than_rings_with_as_many_calls(goal: str) -> None:
    """On a judge of labels the interval says so; more calls find more."""
    few, every = replay_goal(recorded(partial(label_pairs, tie=0.3)), goal, [8, 15], seed=1)
    assert few.equal_calls.low > few.calls == 8
    assert every.found.value > few.found.value


def test_only_dense_groups_of_one_size_are_replayed() -> None:
    """Of the size that most dense groups have, without failures."""

    def group(n: int, missing: int = 0) -> Verdicts:
        pairs = [(i, j, 4, 2, 2) for i in range(n) for j in range(n) if i != j]
        return verdicts_of(pairs[missing:])

    dense = dense_verdicts([group(5, 2), group(5), group(4), group(5, 5), {}])
    assert dense is not None
    assert (dense.shape, int(dense.valid.sum())) == ((2, 5), 38)
    assert dense_verdicts([group(5), group(4), group(2), group(2)]) is None


def test_the_tables_are_printed_for_a_run_of_all_pairs(genrm: Genrm, call: Call) -> None:
    """The comparisons of `genrm score` give a row for each plan and estimator."""
    genrm.write("in.jsonl", make_rollouts(groups=6, size=5))
    dense = ("--strategy", "all_pairs", "--both-orders", "--quiet")
    call("score", "in.jsonl", "--judge", "lexical", *dense).ended(0)
    path = str(genrm.folder / "in.comparisons.jsonl")
    heading, *rows = iter_lines(parse_arguments([path, "--strategy", "ring", "--calls", "5"]))
    assert heading == "lexical: 6 groups of 5"
    assert [row.split()[:3] for row in rows] == [
        ["ring", estimator, "5"] for estimator in ("simple_tiebreaker", "adaptive")
    ]
