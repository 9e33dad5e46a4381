"""Bursts of failing calls are told from failures that occur at any load."""

import random

import pytest

from genrm_cli.judging.pacing.load import BurstDetector


def detector() -> BurstDetector:
    """Make a detector as the adaptive limit has it for refusals."""
    return BurstDetector(0.2, added_share=0.3, calls_to_false_alarm=1e4, remembered_calls=600)


def alarms(burst: BurstDetector, share: float, calls: int, seed: int = 0) -> int:
    """Count the alarms in so many calls, of which a share fails at random."""
    dice, seen = random.Random(seed), 0
    for _ in range(calls):
        if burst.add(failed=dice.random() < share):
            seen += 1
            burst.settle(is_usual=True)
    return seen


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.1])
def test_a_constant_share_of_failures_is_no_burst(share: float) -> None:
    """In 50,000 calls that fail at random there are at most 10 alarms, and the share is learned."""
    burst = detector()
    assert alarms(burst, share, 50_000) <= 10
    assert burst.usual_share == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.1])
def test_a_burst_is_detected_within_a_few_calls(share: float) -> None:
    """When every second call begins to fail, the alarm comes within 60 calls, for any usual share."""
    burst = detector()
    alarms(burst, share, 2_000)
    assert alarms(burst, 0.5, 60, seed=1) >= 1


def test_after_a_long_quiet_time_two_failures_are_a_burst() -> None:
    """An endpoint that has not refused for 20,000 calls and refuses twice in a row is full."""
    burst = detector()
    alarms(burst, 0.0, 20_000)
    assert [burst.add(failed=True), burst.add(failed=True)] == [False, True]


def test_a_burst_that_load_caused_is_not_learned() -> None:
    """Only failures that are settled as usual raise the usual share, and never above its limit."""
    burst = detector()
    before = burst.usual_share
    for _ in range(50):
        burst.add(failed=True)
    assert burst.settle(is_usual=False) == 50
    assert burst.usual_share == before
    for _ in range(5_000):
        burst.learn_failure()
    assert burst.usual_share == 0.2
