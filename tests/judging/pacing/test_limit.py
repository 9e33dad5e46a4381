"""What level the adaptive limit finds, against judges simulated in virtual time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_judge import SimulatedJudge, Simulation

from genrm_cli.judging.pacing.limit import AdaptiveLimit

CEILING = 4096
SEEDS = (0, pytest.param(1, marks=pytest.mark.slow))


def simulation(judge: SimulatedJudge, seed: int, **fields: float) -> Simulation:
    """Put a fresh limit before a judge."""
    return Simulation(AdaptiveLimit(CEILING), judge, seed, **fields)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sigma", [pytest.param(0.6, marks=pytest.mark.slow), 1.0])
def test_a_refusing_judge_is_used_almost_wholly_within_30_s(seed: int, sigma: float) -> None:
    """Against 429 above 128 in flight: after 30 s 95 % of the best throughput, and at most 2 % of all calls refused."""
    run = simulation(SimulatedJudge(128, refuses=True, sigma=sigma), seed)
    run.run(30)
    run.run(150)
    assert run.answers_per_s(since_s=30) >= 0.95 * 128 / 0.5
    assert run.refused <= 0.02 * run.calls


@pytest.mark.parametrize(
    ("capacity", "seed"),
    [
        (32, 0),
        pytest.param(128, 1, marks=pytest.mark.slow),
        pytest.param(300, 0, marks=pytest.mark.slow),
        *(pytest.param(32, seed, marks=pytest.mark.slow) for seed in (1, 2)),
        *(pytest.param(128, seed, marks=pytest.mark.slow) for seed in (0, 2)),
    ],
)
def test_a_judge_that_queues_in_silence_is_not_flooded(capacity: int, seed: int) -> None:
    """Without any refusal the level settles between capacity and twice as much, at 95 % of the throughput."""
    run = simulation(SimulatedJudge(capacity), seed)
    run.run(120)
    run.run(180)
    levels = run.levels_since(120)
    assert run.answers_per_s(since_s=120) >= 0.95 * capacity / 0.5
    assert 0.95 * capacity <= sum(levels) / len(levels) <= 2 * capacity
    assert max(levels) <= 2 * capacity * 1.2  # a try upwards is a fifth


@pytest.mark.slow
@pytest.mark.parametrize("refuses", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_judge_that_grows_is_followed(refuses: bool, seed: int) -> None:
    """When capacity grows eightfold in mid-run, its use follows within two minutes of half-second calls."""
    run = simulation(SimulatedJudge(8, refuses=refuses), seed)
    run.run(60)
    run.judge.capacity = 64
    run.run(120)
    run.run(60)
    assert run.answers_per_s(since_s=180) >= 0.9 * 64 / 0.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_judge_that_shrinks_is_relieved(seed: int) -> None:
    """When a silent judge loses seven eighths of its capacity, the level follows it down, without a call refused."""
    run = simulation(SimulatedJudge(256), seed)
    run.run(60)
    run.judge.capacity = 32
    run.run(600)
    assert run.limit.limit <= 3 * 32
    run.run(60)
    assert run.answers_per_s(since_s=660) >= 0.9 * 32 / 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_blackout_is_recovered_from(seed: int) -> None:
    """40 s without an answer cost throughput only as long as they last: it is back within two minutes."""
    run = simulation(SimulatedJudge(32), seed, timeout_s=10.0)
    run.run(60)
    run.judge.hanging_share = 1.0
    run.run(40)
    run.judge.hanging_share = 0.0
    run.run(120)
    run.run(60)
    assert run.answers_per_s(since_s=220) >= 0.9 * 32 / 0.5


@given(
    st.integers(1, 600),
    st.integers(0, 2**32),
    st.lists(st.tuples(st.sampled_from("aart"), st.integers(1, 300)), min_size=1, max_size=12),
)
def test_the_limit_stays_within_its_bounds(ceiling: int, seed: int, phases: list[tuple[str, int]]) -> None:
    """For any sequence of events, the limit is at least 1 and never above the ceiling."""
    limit, dice, now_s = AdaptiveLimit(ceiling), random.Random(seed), 0.0
    for kind, times in phases:
        for _ in range(times):
            now_s += dice.expovariate(10)
            in_flight = dice.randint(1, limit.limit)
            if kind == "a":
                limit.on_answer(now_s, dice.expovariate(1), in_flight)
            elif kind == "r":
                limit.on_refusal(now_s, in_flight)
            else:
                limit.on_timeout(now_s, dice.expovariate(1), in_flight)
            assert 1 <= limit.limit <= ceiling
