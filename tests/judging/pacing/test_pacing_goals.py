"""Whole runs against a server in virtual time: each goal of pacing with its number."""

import random
from functools import cache
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_server import SimulatedServer, run_judge

from genrm_cli.errors import JudgeError
from genrm_cli.judging.pacing.limit import AdaptiveLimit, Limit
from genrm_cli.verdicts import Failure

SEEDS = range(3)


@cache
def typical_s(count, **behaviour):
    """Return the median time of runs that must all judge every comparison."""
    runs = [run_judge(count, SimulatedServer(seed=seed, **behaviour)) for seed in SEEDS]
    assert [run.failed for run in runs] == [0] * len(runs)
    return median(run.took_s for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("capacity", [64, 10_000])
def test_random_refusals_cost_little(share, capacity):
    """1 to 10 % of calls refused at random: at most 1.3 times the time without, with or without a
    full server.
    """
    without_s = typical_s(672, capacity=capacity)
    assert typical_s(672, capacity=capacity, refused_share=share) <= 1.3 * without_s


def check_token_bucket(per_s, count, refusal_s):
    """Require at most 1.2 times the ideal time where so many calls a second are let through."""
    server = SimulatedServer(per_s=per_s, burst=per_s / 2, refusal_s=refusal_s)
    run = run_judge(count, server)
    assert run.failed == 0
    assert run.took_s <= 1.2 * count / per_s


def test_a_token_bucket_is_emptied():
    """5 calls a second let through, and refusals that take a while: hardly a second is lost."""
    check_token_bucket(5, 100, 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("refusal_s", [0.002, 0.03])
@pytest.mark.parametrize(
    ("per_s", "count"),
    [
        (5, 300),
        (20, 672),
        (100, 1_000),
    ],
)
def test_token_buckets_of_any_size_are_emptied(per_s, count, refusal_s):
    """5, 20 or 100 calls a second, refused at once or not."""
    check_token_bucket(per_s, count, refusal_s)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(32, 16), (16, 32)])
@pytest.mark.parametrize("refused_share", [0.0, 0.05])
def test_a_changed_capacity_is_followed(before, after, refused_share):
    """When capacity halves or doubles at 15 s, 90 % of what is possible then is used from 30 s
    on.
    """
    server = SimulatedServer(capacity=before, refuses=True, refused_share=refused_share)
    run_judge(2_500, server, at={15.0: lambda: setattr(server, "capacity", after)}, deadline_s=40.0)
    middle = [at_s for at_s in server.answered_at_s if 30 <= at_s <= 38]
    assert len(middle) / 8 >= 0.9 * after / 0.4


def test_a_flat_server_is_found_within_a_few_completions():
    """At 0.5 calls a second at any level, the limit never passes 64, and after ten minutes it is at
    most 10.
    """
    server = SimulatedServer(capacity=1, mean_s=2.0)
    run = run_judge(500, server)
    assert max(level for _, level in run.levels) <= 64
    assert max(level for at_s, level in run.levels if at_s > 600) <= 10
    assert run.took_s <= 1.05 * 500 * 2.0


@pytest.mark.slow
@pytest.mark.parametrize("refuses", [False, True])
def test_a_server_of_any_capacity_is_used_and_not_flooded(refuses):
    """From 60 s on, 95 % of what is possible; what queues in silence is never more than twice the
    capacity.

    A server that refuses what is too much refuses at most 2 % of all calls.
    """
    server = SimulatedServer(capacity=32, mean_s=0.5, sigma=0.6, refuses=refuses)
    run = run_judge(8_000, server, deadline_s=120.0)
    assert len([at_s for at_s in server.answered_at_s if 60 < at_s <= 120]) / 60 >= 0.95 * 32 / 0.5
    assert (
        max(level for at_s, level in run.levels if at_s > 60) <= 2 * 32 * 1.2
    )  # a try upwards is a fifth
    assert server.calls["refused"] <= 0.02 * server.calls["all"]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(4, 32), (32, 4)])
def test_a_silent_server_is_followed_far(before, after):
    """When a server that refuses nothing becomes eight times as large or as small, so does the
    level in minutes.
    """
    server = SimulatedServer(capacity=before, mean_s=0.5)
    run = run_judge(
        20_000, server, at={30.0: lambda: setattr(server, "capacity", after)}, deadline_s=300.0
    )
    assert (
        len([at_s for at_s in server.answered_at_s if 240 < at_s <= 300]) / 60 >= 0.9 * after / 0.5
    )
    assert run.levels[-1][1] <= 3 * after


@pytest.mark.slow
def test_a_blackout_is_recovered_from():
    """40 s without an answer cost throughput only as long as they last: it is back within two
    minutes.
    """
    server = SimulatedServer(capacity=32, mean_s=0.5)
    changes = {
        60.0: lambda: setattr(server, "hanging_share", 1.0),
        100.0: lambda: setattr(server, "hanging_share", 0),
    }
    run_judge(20_000, server, at=changes, call_timeout_s=10.0, deadline_s=280.0)
    assert len([at_s for at_s in server.answered_at_s if 220 < at_s <= 280]) / 60 >= 0.9 * 32 / 0.5


def broken_run(broken_per_100, count):
    """Put comparisons before two servers, of which some break both."""
    servers = [SimulatedServer(capacity=32, seed=seed) for seed in SEEDS[:2]]
    return run_judge(count, *servers, broken=lambda number: number % 100 < broken_per_100)


@pytest.mark.parametrize(
    ("broken_per_100", "count"), [pytest.param(1, 1_000, marks=pytest.mark.slow), (30, 200)]
)
def test_prompts_that_always_fail_fail_alone(broken_per_100, count):
    """Prompts that break every endpoint, 30 in a row, get no verdict; the others do, and no
    endpoint is unhealthy.
    """
    run = broken_run(broken_per_100, count)
    failed = {
        number for number, outcome in run.outcomes.items() if isinstance(outcome.result, Failure)
    }
    assert failed == {number for number in range(count) if number % 100 < broken_per_100}
    assert run.events == []
    servers = [SimulatedServer(capacity=32, seed=seed) for seed in SEEDS[:2]]
    good_s = run_judge(count - len(failed), *servers).took_s
    others_s = max(at_s for at_s, number in run.ended_at_s if number not in failed)
    assert others_s <= 1.5 * good_s


def test_prompts_that_all_fail_end_the_run_without_giving_up():
    """With nothing but prompts that break the judge, each of them fails; the judge answers the
    trials.
    """
    run = broken_run(100, count=60)
    assert run.failed == 60
    assert run.events == []


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow), 200])
@pytest.mark.parametrize("retry_after_s", [None, 1.0])
def test_a_judge_that_refuses_everything_ends_the_run_in_time(count, retry_after_s):
    """--give-up-after 3 on a judge that answers 429 for ever: the run ends after 3 to 10
    seconds.
    """
    server = SimulatedServer(refused_share=1.0, retry_after_s=retry_after_s)
    with pytest.raises(JudgeError, match="no answer for 3 s") as caught:
        run_judge(count, server, give_up_after_s=3.0)
    assert 3.0 <= caught.value.took_s <= 10.0


def test_a_fixed_limit_is_kept():
    """A limit that the user has set is neither passed nor lowered by refusals."""
    run = run_judge(300, SimulatedServer(refused_share=0.05), limit=lambda: Limit(32))
    assert {level for _, level in run.levels} == {32}
    assert run.failed == 0


@given(
    st.integers(1, 600),
    st.integers(0, 2**32),
    st.lists(st.tuples(st.sampled_from("aart"), st.integers(1, 300)), min_size=1, max_size=12),
)
def test_the_limit_stays_within_its_bounds(ceiling, seed, phases):
    """For any sequence of events, the limit is at least 1 and never above the ceiling."""
    limit = AdaptiveLimit(ceiling)
    dice = random.Random(seed)
    now_s = 0.0
    for kind, times in phases:
        for _ in range(times):
            now_s += dice.expovariate(10)
            in_flight = dice.randint(1, limit.limit)
            if kind == "a":
                limit.on_answer(now_s, dice.expovariate(1), in_flight)
            elif kind == "r":
                limit.on_refusal(now_s, in_flight)
            else:
                limit.on_timeout(now_s)
            assert 1 <= limit.limit <= ceiling
