"""Measure how often `genrm watch` is wrong and how soon it is right, for the tables of
`guide/watch.md`.

    .venv/bin/python tests/bench/watching.py sentinels means floors training
    .venv/bin/python tests/bench/watching.py recorded VERDICTS.jsonl SOURCE/JUDGE...

Looks are signals newly raised in 100 dumps, all signals together; stops in 1,000 dumps. `--runs` is
the number of simulated runs of each cell. A delay is the median and the 90th percentile of the
dumps from the change to the state; 1 is the first dump after the change, – is never."""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.simulation.judge_files import read_judges

from genrm_cli.metrics.verdict_counts import GroupedCount
from genrm_cli.verdicts import preferred
from genrm_cli.watching.signals import LEARNED_DUMPS
from genrm_cli.watching.timeline import DumpFigures, DumpState, Timeline
from genrm_cli.watching.track import State
from genrm_cli.watching.watched_records import WatchRecord

DUMPS = 100
RECORDED_SIZES = (20, 100, 400)
CHANGE = 40
ASKED = GroupedCount(0, 500)
ALARMS = (State.LOOK, State.STOP)


@dataclass(slots=True)
class Alarms:
    """The alarms of runs: how many signals newly said look and stop, in how many dumps."""

    dumps: int = 0
    raised: Counter[State] = field(default_factory=Counter)

    def add(self, judged: Sequence[DumpState]) -> None:
        """Add the dumps of one run."""
        self.dumps += len(judged)
        before: dict[str, State] = {}
        for judgement in judged:
            now = {name: signal.state for name, signal in judgement.signals.items()}
            for state in ALARMS:
                self.raised[state] += sum(
                    is_at_least(each, state) and not is_at_least(before.get(name), state)
                    for name, each in now.items()
                )
            before = now

    def per(self, state: State, dumps: int) -> float:
        """Return how many alarms there were in this many dumps."""
        return self.raised[state] * dumps / self.dumps


def is_at_least(state: State | None, least: State) -> bool:
    """Return whether a state is as bad as another."""
    return state is not None and state.severity >= least.severity


def follow(seen: Iterable[DumpFigures]) -> list[DumpState]:
    """Return the state after each dump."""
    timeline = Timeline()
    return [timeline.add(each) for each in seen]


def delay(judged: Sequence[DumpState], state: State, change: int) -> float:
    """Return the dumps from a change to a state; infinity for never."""
    return next(
        (
            number + 1
            for number, each in enumerate(judged[change:])
            if is_at_least(each.state, state)
        ),
        math.inf,
    )


def delay_text(delays: Sequence[float]) -> str:
    """Return the median and the 90th percentile."""
    ordered = sorted(delays)
    shown = (ordered[len(ordered) * share // 10] for share in (5, 9))
    return ", ".join("–" if each == math.inf else f"{each:g}" for each in shown)


# Sentinels of a judge whose answers differ from day to day.

SENTINELS = 100
FLIPPING = (0.02, 0.04, 0.06, 0.10, 0.12)
CORRELATIONS = (0.0, 0.02, 0.05, 0.10)
CHANGES = (0.10, 0.20, 0.40)


@dataclass(frozen=True, slots=True)
class Days:
    """A judge that departs from its usual verdicts on a share of the sentinels, some more often
    than others; `correlation` is that of the departures of one day. One dump is a day.

    `changed` sentinels are decided anew from dump `CHANGE` on.
    """

    share: float
    correlation: float
    changed: float = 0.0
    sentinels: int = SENTINELS

    def iter_dumps(self, seed: int) -> Iterator[DumpFigures]:
        """Yield the dumps of one run."""
        drawn = np.random.default_rng(seed)
        usual = drawn.choice(["+", "-"], self.sentinels, p=[0.85, 0.15])
        other = np.where(usual == "+", "-", "+")
        tendency = drawn.gamma(0.5, 2.0, self.sentinels)
        tendency /= tendency.mean()
        is_changed = drawn.random(self.sentinels) < self.changed
        size = (1 - self.correlation) / self.correlation if self.correlation else math.inf
        for day in range(DUMPS):
            share = self.share
            if size < math.inf:
                share = drawn.beta(self.share * size, (1 - self.share) * size)
            departs = drawn.random(self.sentinels) < np.minimum(0.9, share * tendency)
            now = departs ^ (is_changed & (day >= CHANGE))
            yield DumpFigures(
                dump=str(day),
                counts={"failures": ASKED},
                watch=WatchRecord(
                    sentinel_set="s", asked=str(day), sentinels="".join(np.where(now, other, usual))
                ),
            )


def sentinel_alarms(days: Days, runs: int) -> Alarms:
    """Return the alarms of unchanged judges."""
    alarms = Alarms()
    for seed in range(runs):
        alarms.add(follow(days.iter_dumps(seed)))
    return alarms


def sentinel_delays(days: Days, runs: int) -> list[float]:
    """Return the dumps from a change to a stop."""
    return [delay(follow(days.iter_dumps(seed)), State.STOP, CHANGE) for seed in range(runs)]


def iter_sentinels(given: argparse.Namespace) -> Iterator[str]:
    """Yield false looks and stops by how often and how jointly sentinels flip, then the delays."""
    yield (
        f"{given.sentinels} sentinels, unchanged judge, {given.runs} runs of {DUMPS} dumps: "
        "looks / stops"
    )
    yield row("correlation", *(f"{share:.0%}" for share in FLIPPING))
    for correlation in CORRELATIONS:
        cells = (
            sentinel_alarms(Days(share, correlation, sentinels=given.sentinels), given.runs)
            for share in FLIPPING
        )
        yield row(f"{correlation:.2f}", *map(alarms_text, cells))
    yield f"sentinels decided anew, correlation {CORRELATIONS[1]}: dumps to a stop"
    for changed in CHANGES:
        cells = (
            delay_text(
                sentinel_delays(Days(share, CORRELATIONS[1], changed, given.sentinels), given.runs)
            )
            for share in FLIPPING
        )
        yield row(f"{changed:.0%}", *cells)


# Figures that are means over a dump, without any change.


def autocorrelated(drawn: np.random.Generator, r: float) -> np.ndarray:
    """Return a series whose neighbours correlate by r, with deviation 1."""
    noise = drawn.normal(size=MEAN_DUMPS) * math.sqrt(1 - r * r)
    noise[0] = drawn.normal()
    for dump in range(1, MEAN_DUMPS):
        noise[dump] += r * noise[dump - 1]
    return noise


def days_of(drawn: np.random.Generator) -> np.ndarray:
    """Return dumps of which five share a day that varies as much as they do."""
    return drawn.normal(size=MEAN_DUMPS) + np.repeat(drawn.normal(size=MEAN_DUMPS // 5), 5)


def outliers(drawn: np.random.Generator) -> np.ndarray:
    """Return dumps of which 2 % lie 8 deviations off."""
    far = 8 * drawn.choice([-1, 1], MEAN_DUMPS) * (drawn.random(MEAN_DUMPS) < 0.02)
    return drawn.normal(size=MEAN_DUMPS) + far


def in_turns(drawn: np.random.Generator, dumps: int) -> np.ndarray:
    """Return dumps of two sources in turns, three deviations apart."""
    return drawn.normal(size=MEAN_DUMPS) + 3.0 * (np.arange(MEAN_DUMPS) // dumps % 2)


MEAN_DUMPS = 220
MEANS = (
    "reliability",
    "spread",
    "position",
    "ties",
    "length_effect",
    "verdict_texts",
    "addressing",
    "audit_length",
)
SERIES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda drawn: drawn.normal(size=MEAN_DUMPS),
    "t with 3 degrees of freedom": lambda drawn: drawn.standard_t(3, MEAN_DUMPS),
    "lognormal": lambda drawn: drawn.lognormal(size=MEAN_DUMPS),
    "autocorrelation .6": lambda drawn: autocorrelated(drawn, 0.6),
    "autocorrelation .9": lambda drawn: autocorrelated(drawn, 0.9),
    "days of 5 dumps": days_of,
    "2 % outlier dumps": outliers,
    "two sources, each dump": lambda drawn: in_turns(drawn, 1),
    "two sources, 5 dumps each": lambda drawn: in_turns(drawn, 5),
    "two sources, 25 dumps each": lambda drawn: in_turns(drawn, 25),
    "a random walk of .03 a dump": lambda drawn: (
        drawn.normal(size=MEAN_DUMPS) + np.cumsum(drawn.normal(size=MEAN_DUMPS) * 0.03)
    ),
}


def mean_dumps(
    name: str, seed: int, change: Callable[[int], float] | None = None
) -> Iterator[DumpFigures]:
    """Yield the dumps of a run in which all means are such series, in one unit; one is changed."""
    drawn = np.random.default_rng(seed)
    series = {signal: SERIES[name](drawn) for signal in MEANS}
    for dump in range(MEAN_DUMPS):
        means = {signal: float(values[dump]) for signal, values in series.items()}
        means["length_effect"] += 0.0 if change is None else change(dump)
        yield DumpFigures(dump=str(dump), counts={"failures": ASKED}, means=means)


def mean_alarms(name: str, runs: int) -> Alarms:
    """Return the alarms of unchanged figures after their baseline."""
    alarms = Alarms()
    for seed in range(runs):
        alarms.add(follow(mean_dumps(name, seed))[LEARNED_DUMPS:])
    return alarms


def length_delay(seed: int, change: Callable[[int], float]) -> float:
    """Return the dumps until one changed figure is a look."""
    judged = follow(mean_dumps("normal", seed, change))
    at = (each.signals["length_effect"].state is State.LOOK for each in judged[CHANGE:])
    return next((number + 1.0 for number, is_look in enumerate(at) if is_look), math.inf)


def iter_means(given: argparse.Namespace) -> Iterator[str]:
    """Yield the looks by the kind of series, then the delays of a change of one figure."""
    yield f"{len(MEANS)} means, {given.runs} runs of {MEAN_DUMPS - LEARNED_DUMPS} dumps: looks"
    for name in SERIES:
        yield row(name, f"{mean_alarms(name, given.runs).per(State.LOOK, 100):.2f}")
    for name, change in {
        "a step of 2 deviations": lambda dump: 2.0 * (dump >= CHANGE),
        "a step of 3 deviations": lambda dump: 3.0 * (dump >= CHANGE),
        "5 deviations within 20 dumps": lambda dump: 5.0 * ramp(dump),
    }.items():
        yield row(name, delay_text([length_delay(seed, change) for seed in range(given.runs)]))


# Shares that are tested against a floor.


def floor_dumps(
    drawn: np.random.Generator, groups: int, first: float, ties: float
) -> Iterator[DumpFigures]:
    """Yield dumps of groups of 16 verdicts whose shares vary from group to group."""
    while True:
        position = GroupedCount()
        tied = GroupedCount()
        for _ in range(groups):
            count = int(drawn.binomial(16, drawn.beta(4 * ties, 4 * (1 - ties)))) if ties else 0
            tied.add(count, 16)
            share = drawn.beta(4 * first, 4 * (1 - first))
            position.add(int(drawn.binomial(16 - count, share)), 16 - count)
        yield DumpFigures(dump="", counts={"failures": ASKED, "position": position, "ties": tied})


def floor_runs(
    groups: int, first: float, ties: float, runs: int
) -> tuple[Alarms, float, list[float]]:
    """Return the alarms, the looks of a point estimate in 100 dumps, and the dumps to a look."""
    alarms = Alarms()
    above = 0
    delays = []
    for seed in range(runs):
        source = floor_dumps(np.random.default_rng(seed), groups, first, ties)
        seen = [next(source) for _ in range(DUMPS)]
        judged = follow(seen)
        alarms.add(judged)
        delays.append(delay(judged, State.LOOK, 0))
        for each in seen:
            position = each.counts["position"]
            tied = each.counts["ties"]
            above += position.count > 0.65 * position.of or tied.count > 0.5 * tied.of
    return alarms, above / runs, delays


def iter_floors(given: argparse.Namespace) -> Iterator[str]:
    """Yield looks at shares up to their floor, and the dumps to a look above it."""
    yield f"floors, dumps of 20 groups of 16 verdicts, {given.runs} runs of {DUMPS} dumps"
    yield row("first, ties", "looks", "of a point estimate", "dumps to a look")
    for first, ties in ((0.62, 0.0), (0.65, 0.0), (0.5, 0.5)):
        alarms, above, _ = floor_runs(20, first, ties, given.runs)
        yield row(f"{first:.0%}, {ties:.0%}", f"{alarms.per(State.LOOK, 100):.2f}", f"{above:.0f}")
    for first, ties in ((0.7, 0.0), (0.75, 0.0), (0.85, 0.0), (0.5, 0.6), (0.5, 0.7)):
        _, _, delays = floor_runs(20, first, ties, given.runs)
        yield row(f"{first:.0%}, {ties:.0%}", "", "", delay_text(delays))


def recorded_dumps(
    groups: Sequence[np.ndarray], drawn: np.random.Generator, size: int, calls: int
) -> Iterator[DumpFigures]:
    """Yield dumps of prompts drawn from recordings, each with some of its verdicts.

    A row of a group is a verdict: whether it prefers the first, and is decided.
    """
    while True:
        position = GroupedCount()
        tied = GroupedCount()
        for number in drawn.integers(len(groups), size=size):
            rows = drawn.permutation(groups[number])[:calls]
            first, decided = (int(count) for count in rows.sum(0))
            position.add(first, decided)
            tied.add(len(rows) - decided, len(rows))
        share = position.count / position.of
        yield DumpFigures(
            dump="",
            counts={"failures": GroupedCount(0, tied.of), "position": position, "ties": tied},
            means={"position": max(share, 1 - share), "ties": tied.count / tied.of},
        )


def iter_recorded(given: argparse.Namespace) -> Iterator[str]:
    """Yield the looks in dumps that are drawn from recordings of unchanged judges."""
    path, *names = given.parts[1:]
    judges = read_judges(path)
    yield f"looks in dumps drawn from recordings, {given.runs} runs of {DUMPS} dumps"
    yield row("groups in a dump", *map(str, RECORDED_SIZES), "first", "ties")
    for name in names or judges:
        groups = [
            np.array([(preferred(v) > 0, preferred(v) != 0) for v in each.values()])
            for each in judges[name].values()
        ]
        first, decided = np.concatenate(groups).mean(0)
        cells = []
        for size in RECORDED_SIZES:
            alarms = Alarms()
            for seed in range(given.runs):
                source = recorded_dumps(groups, np.random.default_rng(seed), size, given.calls)
                alarms.add(follow(next(source) for _ in range(DUMPS)))
            cells.append(f"{alarms.per(State.LOOK, 100):.2f}")
        yield row(name, *cells, f"{first / decided:.0%}", f"{1 - decided:.0%}")


# Training in which a policy finds a weakness of the judge, or the judge is changed.

COMPARISONS = 10_000
AUDITS = 200
CANARIES = 40
GROUPS = 40
SIZE = 8
Strength = Callable[[int], float]


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

    def sentinels(self, dump: int) -> str:
        """Return what the judge says of the sentinels."""
        right = self.right.copy()
        if self.story.swapped(dump):
            right[self.redrawn] = self.worse[self.redrawn]
        lazy = self.story.lazy(dump)
        shown_first = np.arange(SENTINELS) % 2 == 0
        right = (1 - lazy) * right + lazy * shown_first
        return "".join(np.where(self.drawn.random(SENTINELS) < right, "+", "-"))

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

    def observe(self, dump: int) -> DumpFigures:
        """Return what watching sees of a dump."""
        drawn = self.drawn
        story = self.story
        judge, _ = self.pairs(dump, 1_000)
        canaries = {}
        if story.canaries:
            wins = 0.9 if story.suffix_pays else 0.5
            canaries = {
                "canary_courtesy": GroupedCount(
                    int(drawn.binomial(CANARIES // 4, wins)), CANARIES // 4
                )
            }
        return DumpFigures(
            dump=str(dump),
            counts={
                "failures": GroupedCount(int(drawn.binomial(COMPARISONS, 0.01)), COMPARISONS),
                **canaries,
            },
            means={
                "length_effect": self.length_effect(dump),
                "spread": float(np.std(judge)),
                "position": 0.5 + abs(float(np.mean(judge > 0)) - 0.5),
                "addressing": float(
                    np.mean(drawn.random(1_000) < story.suffix(dump) * story.is_told_by_text)
                ),
            },
            watch=WatchRecord(
                audits=self.audits(dump),
                sentinel_set="s",
                asked=str(dump),
                sentinels=self.sentinels(dump),
            ),
        )


@dataclass(frozen=True, slots=True)
class Training:
    """The alarms of simulated trainings of one story.

    Attributes:
        falsely: runs with a state that nothing justified.
        delays: by state.
        signals: runs by the signals of their first look.
    """

    falsely: Counter[State]
    delays: dict[State, list[float]]
    signals: Counter[str]


def train(story: Story, runs: int) -> Training:
    """Run trainings."""
    falsely: Counter[State] = Counter()
    delays: dict[State, list[float]] = {state: [] for state in ALARMS}
    signals: Counter[str] = Counter()
    for seed in range(runs):
        simulation = Simulation(story, seed)
        judged = follow(simulation.observe(dump) for dump in range(DUMPS))
        sound = judged if not story.expected else judged[: story.change]
        for state in ALARMS:
            falsely[state] += any(is_at_least(each.state, state) for each in sound)
            delays[state].append(delay(judged, state, story.change))
        first = delays[State.LOOK][-1]
        if first < math.inf:
            at = judged[story.change + int(first) - 1].signals
            signals.update(n for n, s in at.items() if is_at_least(s.state, State.LOOK))
    return Training(falsely, delays, signals)


def iter_training(given: argparse.Namespace) -> Iterator[str]:
    """Yield a row for each story."""
    yield f"training, {given.runs} runs of {DUMPS} dumps"
    yield row("what changes", "false look", "false stop", "to a look", "to a stop", "told by")
    for name, story in STORIES.items():
        found = train(story, given.runs)
        yield row(
            name,
            *(f"{found.falsely[state] / given.runs:.1%}" for state in ALARMS),
            *(delay_text(found.delays[state]) for state in ALARMS),
            ", ".join(f"{signal} {count}" for signal, count in found.signals.most_common(4)),
        )


def alarms_text(alarms: Alarms) -> str:
    """Return the looks in 100 dumps and the stops in 1,000."""
    return f"{alarms.per(State.LOOK, 100):.2f} / {alarms.per(State.STOP, 1_000):.2f}"


def row(*cells: str) -> str:
    """Return a row of a table of the guide."""
    return f"| {' | '.join(cells)} |"


PARTS = {
    "sentinels": iter_sentinels,
    "means": iter_means,
    "floors": iter_floors,
    "training": iter_training,
    "recorded": iter_recorded,
}


def main() -> None:
    """Print the tables that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("parts", nargs="+", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--sentinels", type=int, default=SENTINELS)
    parser.add_argument("--calls", type=int, default=8, help="recorded verdicts of a group")
    given = parser.parse_args()
    for part in given.parts[:1] if given.parts[0] == "recorded" else given.parts:
        for line in PARTS[part](given):
            print(line, flush=True)


if __name__ == "__main__":
    main()
