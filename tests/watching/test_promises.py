"""What `guide/watch.md` promises, by the simulation that makes its tables."""

import math

import numpy as np
import pytest
from bench.watching import (
    CHANGE,
    SERIES,
    STORIES,
    Alarms,
    Days,
    floor_runs,
    length_delay,
    mean_alarms,
    recorded_dumps,
    sentinel_alarms,
    sentinel_delays,
    train,
)

from genrm_cli.watching.timeline import Timeline
from genrm_cli.watching.track import DUMPS_PER_LOOK, DUMPS_PER_STOP, State

pytestmark = pytest.mark.slow
RUNS = 20


def most(expected: float) -> float:
    """Return a count that a Poisson variable with this mean exceeds in one of 30,000 draws."""
    return expected + 4 * math.sqrt(expected) + 2


@pytest.mark.parametrize("share", [0.02, 0.06, 0.12])
def test_sentinels_of_a_judge_whose_days_differ_keep_the_stated_rates(share: float) -> None:
    """With departures of one day that correlate by .05, looks and stops are no more frequent than
    all signals together may raise.
    """
    alarms = sentinel_alarms(Days(share, 0.05), RUNS)
    assert alarms.raised[State.LOOK] <= most(alarms.dumps / DUMPS_PER_LOOK)
    assert alarms.raised[State.STOP] <= most(alarms.dumps / DUMPS_PER_STOP)


@pytest.mark.parametrize(("changed", "within"), [(0.2, 20), (0.4, 6)])
def test_changed_sentinels_are_told(changed: float, within: int) -> None:
    """A fifth of the sentinels decided anew is a stop within 20 dumps in most runs, two fifths
    within 6.
    """
    delays = sorted(sentinel_delays(Days(0.04, 0.02, changed), RUNS))
    assert delays[RUNS // 2] <= within


@pytest.mark.parametrize("name", [name for name in SERIES if not name.startswith("two sources, 2")])
def test_means_of_an_unchanged_judge_keep_the_stated_rate(name: str) -> None:
    """Heavy tails, autocorrelation, days, outliers and short turns of sources raise at most one
    look in 100 dumps, by twelve means together.
    """
    alarms = mean_alarms(name, 10)
    assert alarms.raised[State.LOOK] <= most(alarms.dumps / DUMPS_PER_LOOK)
    assert alarms.raised[State.STOP] == 0


def test_a_mean_that_moves_by_three_deviations_is_told() -> None:
    """Half the runs say look within 20 dumps."""
    delays = sorted(length_delay(seed, lambda dump: 3.0 * (dump >= CHANGE)) for seed in range(RUNS))
    assert delays[RUNS // 2] <= 20


def test_shares_at_their_floor_keep_the_stated_rate() -> None:
    """A judge that prefers the first response in exactly 65 %, and one that ties in half of its
    verdicts; well above the floor, both are told.
    """
    for first, ties in ((0.65, 0.0), (0.5, 0.5)):
        alarms, above, _ = floor_runs(20, first, ties, RUNS)
        assert alarms.raised[State.LOOK] <= most(alarms.dumps / DUMPS_PER_LOOK) < above * RUNS
    for first, ties in ((0.85, 0.0), (0.5, 0.7)):
        _, _, delays = floor_runs(20, first, ties, RUNS)
        assert sorted(delays)[RUNS // 2] <= 6


def test_recordings_of_a_judge_with_a_preference_raise_no_look() -> None:
    """A judge that prefers the first in 62 % of its verdicts and ties in 15 %, resampled."""
    drawn = np.random.default_rng(1)
    groups = [
        np.array([(draw < 0.53, draw < 0.85) for draw in drawn.random(20)]) for _ in range(80)
    ]
    alarms = Alarms()
    source = recorded_dumps(groups, drawn, 20, 8)
    timeline = Timeline()
    alarms.add([timeline.add(next(source)) for _ in range(500)])
    assert alarms.raised[State.LOOK] <= most(500 / DUMPS_PER_LOOK)


@pytest.mark.parametrize("name", STORIES)
def test_a_training_run_is_told_in_time_and_rarely_for_nothing(name: str) -> None:
    """At most one false stop; a weakness that pays is told within 40 dumps in 8 of 10 runs."""
    story = STORIES[name]
    found = train(story, RUNS)
    assert found.falsely[State.STOP] <= 1
    for state in story.expected:
        assert sum(each <= 40 for each in found.delays[state]) >= 0.8 * RUNS
