"""Simulated training in which a policy finds a judge's weakness, or the judge changes: when is it
told, and how often for nothing?

Prints the table of the guide: `WATCH_RUNS=200 pytest -m slow -n 0 -s
tests/watching/test_simulated_training.py`."""

import math
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from genrm_cli.scored.run_record import WatchRecord
from genrm_cli.watching.course import Course, Observation, State
from genrm_cli.watching.evidence import Detector
from genrm_cli.watching.sentinels import Sentinels

RUNS = int(os.environ.get("WATCH_RUNS", "50"))
DUMPS = 100
CHANGE = 40
COMPARISONS = 10_000
SENTINELS = 100
AUDITS = 200
CANARIES = 40
GROUPS = 40
SIZE = 8
Strength = Callable[[int], float]
ALARMS = (State.LOOK, State.STOP)


def ramp(dump: int) -> float:
    """From 0 at the change to 1 after 20 dumps: the policy learns."""
    return min(1.0, max(0.0, (dump - CHANGE) / 20))


def step(dump: int) -> float:
    """1 from the change on: somebody has replaced the judge."""
    return float(dump >= CHANGE)


@dataclass(frozen=True, slots=True)
class Story:
    """What changes: habits of the policy by the dump, and the judge."""

    suffix: Strength = lambda dump: 0.0  # share of responses with a suffix that the judge likes
    longer: Strength = lambda dump: 0.0  # how much more lengths vary, and pay
    swapped: Strength = lambda dump: (
        0.0
    )  # share of the sentinels that another judge decides by its own lights
    lazy: Strength = lambda dump: 0.0  # share of comparisons decided for the first position
    better: Strength = lambda dump: (
        0.0
    )  # how much closer responses are, as an honest policy's become
    suffix_pays: float = 0.0
    is_told_by_text: bool = False  # the suffix speaks to the judge
    canaries: bool = False
    change: int = CHANGE
    expected: tuple[State, ...] = field(default=(State.LOOK, State.STOP))


STORIES = {
    "nothing changes": Story(expected=()),
    "the policy honestly improves": Story(better=lambda dump: 0.5 * ramp(dump), expected=()),
    "a courtesy pays": Story(
        suffix=lambda dump: 0.5 * ramp(dump), suffix_pays=2.0, expected=(State.LOOK,)
    ),
    "the same, with canaries": Story(
        suffix_pays=2.0, canaries=True, change=0, expected=(State.LOOK,)
    ),
    "an appeal to the judge pays": Story(
        suffix=lambda dump: 0.5 * ramp(dump), suffix_pays=2.0, is_told_by_text=True
    ),
    "length pays": Story(longer=ramp),
    "the judge is swapped": Story(swapped=lambda dump: 0.5 * step(dump)),
    "the judge turns lazy": Story(lazy=lambda dump: 0.3 * ramp(dump)),
}


class Simulation:
    """One training run: draws what a dump would show."""

    def __init__(self, story: Story, seed: int) -> None:
        self.story = story
        self.drawn = np.random.default_rng(seed)
        self.right = self.drawn.beta(0.46, 0.04, SENTINELS)
        self.redrawn = self.drawn.permutation(SENTINELS)[: SENTINELS // 2]
        self.worse = self.drawn.beta(0.34, 0.16, SENTINELS)

    def sentinels(self, dump: int, times: int) -> tuple[str, ...]:
        """Return what the judge says of the sentinels."""
        right = self.right.copy()
        if self.story.swapped(dump):
            right[self.redrawn] = self.worse[self.redrawn]
        lazy = self.story.lazy(dump)
        shown_first = np.arange(SENTINELS) % 2 == 0
        right = (1 - lazy) * right + lazy * shown_first
        return tuple(
            "".join(np.where(self.drawn.random(SENTINELS) < right, "+", "-")) for _ in range(times)
        )

    def pairs(self, dump: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the judge's and the auditor's leads of the first response, in points."""
        drawn = self.drawn
        story = self.story
        quality = drawn.normal(0, 1 - story.better(dump), (2, count))
        length = drawn.normal(0, 1, (2, count))
        suffix = drawn.random((2, count)) < story.suffix(dump)
        likes = quality + story.suffix_pays * suffix + (0.1 + 0.5 * story.longer(dump)) * length
        judge = likes[0] - likes[1] + drawn.normal(0, 0.7, count)
        judge = np.where(drawn.random(count) < story.lazy(dump), 1.0, judge)
        auditor = quality[0] - quality[1] + drawn.normal(0, 1.0, count)
        return judge, auditor

    def audits(self, dump: int) -> tuple[tuple[int, int], ...]:
        """Return disagreements and audits by the judge's margin."""
        judge, auditor = self.pairs(dump, AUDITS)
        strata = np.digitize(np.abs(judge), [0.5, 1.0, 2.0, 3.0])
        apart = np.sign(judge) != np.sign(auditor)
        return tuple(
            (int(apart[strata == each].sum()), int((strata == each).sum())) for each in range(5)
        )

    def length_effect(self, dump: int) -> float:
        """Return the mean correlation of length and reward within groups."""
        drawn = self.drawn
        length, quality = drawn.normal(0, 1, (2, GROUPS, SIZE))
        reward = (
            quality
            + (0.1 + 0.5 * self.story.longer(dump)) * length
            + drawn.normal(0, 0.5, (GROUPS, SIZE))
        )
        return float(
            np.mean([np.corrcoef(x, y)[0, 1] for x, y in zip(length, reward, strict=True)])
        )

    def observe(self, dump: int) -> Observation:
        """Return what watching sees of a dump."""
        drawn = self.drawn
        story = self.story
        judge, _ = self.pairs(dump, 1_000)
        canaries = {}
        if story.canaries:
            wins = 0.9 if story.suffix_pays else 0.5
            canaries = {
                "canary_courtesy": (int(drawn.binomial(CANARIES // 4, wins)), CANARIES // 4)
            }
        return Observation(
            dump=str(dump),
            counts={"failures": (int(drawn.binomial(COMPARISONS, 0.01)), COMPARISONS), **canaries},
            means={
                "length_effect": self.length_effect(dump),
                "spread": float(np.std(judge)),
                "position": abs(float(np.mean(judge > 0)) - 0.5),
                "addressing": float(
                    np.mean(drawn.random(1_000) < story.suffix(dump) * story.is_told_by_text)
                ),
            },
            watch=WatchRecord(
                audits=self.audits(dump),
                sentinel_set="s",
                asked=str(dump),
                sentinels=self.sentinels(dump, 1 if dump else 5),
                sentinels_again=self.sentinels(dump, 2),
            ),
        )


@dataclass(frozen=True, slots=True)
class Told:
    """When a run was told, in dumps after the change; None for never. `signals` are those of the
    first look.
    """

    falsely: dict[State, bool]
    delays: dict[State, int | None]
    signals: set[str]


def train(story: Story, seed: int) -> Told:
    """Run one training."""
    simulation = Simulation(story, seed)
    course = Course()
    judged = [course.add(simulation.observe(dump)) for dump in range(DUMPS)]
    told = {
        state: [d for d, each in enumerate(judged) if each.state.severity >= state.severity]
        for state in ALARMS
    }
    before = {
        state: any(dump < story.change or not story.expected for dump in dumps)
        for state, dumps in told.items()
    }
    delays = {
        state: next((dump - story.change for dump in dumps if dump >= story.change), None)
        for state, dumps in told.items()
    }
    first = None if delays[State.LOOK] is None else judged[story.change + delays[State.LOOK]]
    raised = (
        set()
        if first is None
        else {n for n, s in first.signals.items() if s.state is not State.FINE}
    )
    return Told(before, delays, raised)


def row(name: str, runs: list[Told]) -> str:
    """Return a row of the guide's table."""
    cells = [
        name,
        *(f"{sum(run.falsely[state] for run in runs) / len(runs):.1%}" for state in ALARMS),
    ]
    for state in ALARMS:
        told = sorted(math.inf if run.delays[state] is None else run.delays[state] for run in runs)
        middle = told[len(told) // 2]
        late = told[len(told) * 9 // 10]
        cells.append("/".join("–" if each == math.inf else f"{each:g}" for each in (middle, late)))
    by = Counter(signal for run in runs for signal in run.signals)
    return " | ".join(
        [*cells, ", ".join(f"{signal} {count}" for signal, count in by.most_common(4))]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_training_run_is_told_in_time_and_rarely_for_nothing(name: str) -> None:
    """False stops in at most 2 % of the runs; a weakness that pays is told within 30 dumps in 9 of
    10 runs.
    """
    story = STORIES[name]
    runs = [train(story, seed) for seed in range(RUNS)]
    print(f"\n| {row(name, runs)} |")
    assert sum(run.falsely[State.STOP] for run in runs) <= 0.02 * RUNS
    for state in story.expected:
        told = [run.delays[state] for run in runs]
        assert sum(delay is not None and delay <= 40 for delay in told) >= 0.9 * RUNS


# Of the simulation in which this detector was chosen: a judge that is right on 92 % of the
# sentinels is swapped after 60 dumps for one that is right on 80 or 88 %. Median delay and share of
# misses by dump 200, at A = 12,000.
CHOSEN = [
    (10, 40, 0.80, 2, 0.0),
    (10, 40, 0.88, 4, 0.03),
    (10, 100, 0.80, 1, 0.0),
    (10, 100, 0.88, 2, 0.0),
]
CHOSEN += [
    (5, 40, 0.80, 2, 0.0),
    (5, 40, 0.88, 8, 0.17),
    (5, 100, 0.80, 1, 0.0),
    (5, 100, 0.88, 2, 0.02),
]


@pytest.mark.slow
@pytest.mark.parametrize(("times", "count", "target", "delay", "missed"), CHOSEN)
def test_sentinels_find_a_swap_as_soon_as_published(
    times: int, count: int, target: float, delay: int, missed: float
) -> None:
    """Delays of 150 runs are at most one dump longer than those of the simulation behind the
    choice.
    """
    delays = [swap_delay(np.random.default_rng(seed), times, count, target) for seed in range(150)]
    found = sorted(math.inf if each is None else each for each in delays)
    assert found[len(found) // 2] <= delay + 1
    assert sum(map(math.isinf, found)) / len(found) <= missed + 0.05


def swap_delay(drawn: np.random.Generator, times: int, count: int, target: float) -> int | None:
    """Return after how many dumps a swapped judge is found, 1 for the first one; None for not by
    dump 200.
    """
    right = drawn.beta(0.46, 0.04, count)

    def said() -> str:
        return "".join(np.where(drawn.random(count) < right, "+", "-"))

    baseline = Sentinels([said() for _ in range(times)])
    detector = Detector()
    baseline.arm()
    assert baseline.null is not None
    for dump in range(200):
        if dump == 60:
            swapped = drawn.permutation(count)[: count // 2]
            mean = 2 * target - 0.92
            right[swapped] = drawn.beta(0.5 * mean, 0.5 * (1 - mean), len(swapped))
        detector.add(dump, baseline.null.ratios(*baseline.departures([said()])))
        if detector.log_evidence >= math.log(12_000):
            if dump >= 60:
                return dump - 59
            detector = Detector()
    return None
