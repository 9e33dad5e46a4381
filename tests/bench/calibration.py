"""Count how often the intervals that a run prints hold, for `make bench PARTS=calibration`.

A simulated judge judges many groups. The reliability of a run should hold the mean reliability of
all groups in 95 % of the runs. A standard error should hold the base score that the judge gives in
the limit of many verdicts, with its errors about pairs drawn anew each time.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from bench.simulation.plan_metrics import indices_of, plan_within
from bench.simulation.world import JudgeModel, World, draw_world, judge_pairs
from msgspec import structs
from numpy.random import Generator, default_rng

from genrm_cli.metrics.running_stats import Z_95, RunningStats
from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.estimate_errors import BatchEstimate
from genrm_cli.rewards.estimators.estimates import ESTIMATORS
from genrm_cli.rewards.estimators.judge_noise import SLOPES
from genrm_cli.rewards.estimators.verdict_batch import Floats, Indices, VerdictBatch

SIZES = (4, 5, 6, 8, 16)
KINDS = ("scores", "labels")
RINGS = (1.0, 1.5, 2.0)
GROUPS = (30, 100, 300, 1_000)
POOL = 80_000  # groups of a cell, shared out to its runs
_MOST_RUNS = 300
_BLOCK_CELLS = 400_000  # groups × n × n: some tens of megabytes
_SHOWN = 200  # groups whose limits are simulated
_REPEATS = 60  # verdicts on each pair, of a limit
_QUALITY_POINTS = 0.7


class Cell(NamedTuple):
    """What a judge is asked.

    Attributes:
        kind: whether it writes scores or labels.
    """

    n: int
    kind: str
    rings: float

    def __str__(self) -> str:
        return f"{self.n} {self.kind} {self.rings:g}"


class Coverage(NamedTuple):
    """How often intervals of a cell hold.

    Attributes:
        reliability: of all groups.
        held: share of the runs of each size whose interval holds it; None where most say that it
            is unknown.
        errors: share of the base scores within their standard errors, and of those picked as best.
    """

    reliability: float
    held: dict[int, float | None]
    errors: tuple[float, float]


def as_labels(batch: VerdictBatch) -> VerdictBatch:
    """Return the verdicts of a judge that says only which response is better."""
    lead = np.sign(batch.preferences())
    return structs.replace(batch, score_1=3 + lead, score_2=3 - lead, ranking=3.5 - 1.5 * lead)


def part_of(batch: VerdictBatch, groups: slice) -> VerdictBatch:
    """Return some groups of a batch."""
    names = ("first", "second", "score_1", "score_2", "ranking", "valid")
    return structs.replace(batch, **{name: getattr(batch, name)[groups] for name in names})


def judged(world: World, shown: tuple[Indices, Indices], kind: str, rng: Generator) -> VerdictBatch:
    """Ask the judge of a world."""
    batch = judge_pairs(world, *shown, rng)
    return as_labels(batch) if kind == "labels" else batch


class Concluded(NamedTuple):
    """What a run says: the mean reliability and its interval, None if unknown, the calibration,
    and the base scores of its first groups.
    """

    reliability: float | None
    interval: tuple[float, float] | None
    calibration: Calibration
    made: BatchEstimate


def conclude(batch: VerdictBatch) -> Concluded:
    """Conclude a run."""
    size = max(1, _BLOCK_CELLS // batch.n**2)
    parts = [part_of(batch, slice(start, start + size)) for start in range(0, batch.groups, size)]
    statistics = CalibrationStatistics()
    for part in parts:
        statistics.add_batch(part)
    calibration = statistics.fit()
    made = [ESTIMATORS["adaptive"](part, calibration) for part in parts]
    reliabilities = RunningStats()
    for each in made:
        if each.errors is not None:
            for reliability in each.errors.reliabilities.tolist():
                reliabilities.add(reliability)
    expected = calibration.expects
    interval = None if expected is None else expected.interval_of_mean(reliabilities)
    return Concluded(reliabilities.mean, interval, calibration, made[0])


def limits_of(world: World, kind: str, weight: float, rng: Generator) -> Floats:
    """Return [G, n] the base scores, less their mean, from many verdicts on all pairs."""
    groups, n = world.truth.shape
    first, second = np.nonzero(~np.eye(n, dtype=bool))
    shown = tuple(np.broadcast_to(each, (groups, len(each))) for each in (first, second))
    # Errors that recur for a pair are errors to its rollouts.
    model = replace(world.model, intransitivity=0.0, repeating=0.0)
    lean = np.broadcast_to(np.full((groups, 1, 1), model.position_bias), (groups, n, n))
    steady = replace(world, model=model, lean=lean)
    sums = np.zeros((groups, n))
    for _ in range(_REPEATS):
        errors = world.model.intransitivity * rng.standard_normal((groups, n, n))
        batch = judged(replace(steady, lean=lean + errors), shown, kind, rng)
        leads = (1 - weight) * (batch.score_1 - batch.score_2) + weight * (3.5 - batch.ranking)
        sums += batch.sum_by_rollout(leads, -leads)
    slope = (1 - weight) * SLOPES[0] + weight * SLOPES[1]
    limits: Floats = _QUALITY_POINTS * sums / (2 * n * _REPEATS * slope)
    return limits - limits.mean(axis=1, keepdims=True)


def measure(cell: Cell, pool: int = POOL, seed: int = 1) -> Coverage:
    """Return how often the intervals of a cell hold."""
    n, kind, rings = cell
    plan = plan_within("ring", n, int(rings * n))
    assert plan is not None
    batches = []
    shown_world = None
    for block, start in enumerate(range(0, pool, 5_000)):
        groups = min(5_000, pool - start)
        rng = default_rng([seed, n, block])
        world = draw_world(JudgeModel(), groups, n, rng)
        shown_world = shown_world or world
        batches.append(judged(world, indices_of(plan, n, range(groups), block), kind, rng))
    names = ("first", "second", "score_1", "score_2", "ranking", "valid")
    whole = structs.replace(
        batches[0], **{name: np.concatenate([getattr(b, name) for b in batches]) for name in names}
    )
    truth, _, calibration, made = conclude(whole)
    assert truth is not None
    held = {}
    for groups in GROUPS:
        found = []
        runs = min(_MOST_RUNS, pool // groups)
        for number in range(runs):
            part = part_of(whole, slice(number * groups, (number + 1) * groups))
            interval = conclude(part).interval
            if interval is not None:
                found.append(interval[0] <= truth <= interval[1])
        held[groups] = float(np.mean(found)) if len(found) > runs / 2 else None
    rows = slice(0, _SHOWN)
    names = ("truth", "quality", "level", "lean")
    some = replace(shown_world, **{name: getattr(shown_world, name)[rows] for name in names})
    some = replace(some, noise=shown_world.noise[:, rows])
    limits = limits_of(some, kind, calibration.weights.ranking, default_rng([seed, 9]))
    scores = made.base_scores[rows] - made.base_scores[rows].mean(axis=1, keepdims=True)
    assert made.errors is not None
    within = np.abs(scores - limits) <= Z_95 * np.sqrt(made.errors.variances[rows])
    best = np.take_along_axis(within, scores.argmax(axis=1)[:, None], axis=1)
    return Coverage(truth, held, (float(within.mean()), float(best.mean())))


def iter_cells() -> Iterator[Cell]:
    """Yield every cell."""
    for n in SIZES:
        for kind in KINDS:
            for rings in RINGS:
                yield Cell(n, kind, rings)
