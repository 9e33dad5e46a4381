"""Estimate how long a fleet of shards would take, from the plan of a run and the latency of its calls."""

import heapq
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from genrm_cli.errors import UsageError
from genrm_cli.groups.check import judge_specs
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.planning import Status, plan_inputs
from genrm_cli.jobs.index import FirstRejects, InputIndex, index_input
from genrm_cli.jobs.preview.estimate import estimate_run, total_of
from genrm_cli.jobs.score_file import refuse_unreadable
from genrm_cli.jobs.shards import Shard
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import Settings
from genrm_cli.settings.resolve import concurrency_of

CALLS_PER_S = 2_500
"""Calls that one process can make a second; see the guide's benchmarks."""
_ASSUMED_SPREAD = 0.5  # standard deviation of log latency, where only the mean is known
_SIMULATED_SHARDS, _SIMULATED_ROUNDS, _SIMULATIONS = 64, 8, 8


@dataclass(slots=True)
class Fleet:
    """The calls of a run by shard and judge, for some number of workers."""

    workers: int
    calls: list[list[int]]

    def add(self, index: InputIndex) -> None:
        """Add the groups of an input."""
        for _, rows in index.iter_rows():
            if not index.table.prompts_differ(rows):
                shard = self.calls[index.table.shard_of(rows, self.workers)]
                for judge, calls in enumerate(_calls_by_judge(index.plan, index.table.count_answered(rows))):
                    shard[judge] += calls

    @property
    def largest(self) -> int:
        """Calls of the largest shard."""
        return max(map(sum, self.calls))

    def ask_s(self, slots: Sequence[int], latency: "LatencyEstimate", share: float = 1.0) -> float:
        """Return how long the slowest shard asks.

        Args:
            slots: calls that all shards together may have in flight, of each judge.
            latency: of a call.
            share: of the calls that remain to be made.
        """
        shards = [Shard(number, self.workers) for number in range(self.workers)]
        times_s = [self.largest * share / CALLS_PER_S]
        for judge, whole in enumerate(slots):
            loads = [(round(self.calls[shard.number][judge] * share), max(1, shard.share(whole))) for shard in shards]
            times_s.append(latency.makespan_s(loads))
        return max(times_s)


def _calls_by_judge(plan: GroupPlan, answered: int) -> Iterator[int]:
    """Yield the calls that each judge and grader gets about a group."""
    efforts = plan.efforts(answered)
    yield from (effort.requests * effort.turns for effort in efforts) if efforts else [0] * len(plan.judges)
    for grader in plan.graders:
        yield answered if grader.kind == "rubric" else int(answered > 1)


@dataclass(frozen=True, slots=True)
class LatencyEstimate:
    """Latencies of calls, as if they were log-normal.

    Attributes:
        mean_s: of all calls.
        spread: standard deviation of the logarithm.
        source: of these numbers.
    """

    mean_s: float
    spread: float = _ASSUMED_SPREAD
    source: str = "--latency"

    def makespan_s(self, loads: Sequence[tuple[int, int]]) -> float:
        """Return when the last of several shards is done, on average.

        Args:
            loads: calls and slots of each shard; a slot takes the next call when it is free.
        """
        heaviest = sorted(loads, key=lambda load: load[0] / load[1])[-_SIMULATED_SHARDS:]
        rng = random.Random(0)
        times_s = [max(self._simulate_s(*load, rng) for load in heaviest) for _ in range(_SIMULATIONS)]
        return sum(times_s) / len(times_s)

    def _simulate_s(self, calls: int, slots: int, rng: random.Random) -> float:
        """Return when a shard is done: beginning and end are simulated, and in between its slots are busy."""
        simulated = min(calls, _SIMULATED_ROUNDS * slots)
        if not simulated:
            return 0.0
        mu = math.log(self.mean_s) - self.spread**2 / 2
        free_at_s = [0.0] * min(slots, simulated)
        for _ in range(simulated):
            heapq.heapreplace(free_at_s, free_at_s[0] + rng.lognormvariate(mu, self.spread))
        return max(free_at_s) + (calls - simulated) * self.mean_s / slots


def latency_of(recorded: Mapping[str, Any], source: str) -> LatencyEstimate:
    """Return the latency in the metrics of an earlier run.

    Raises:
        UsageError: the run made no call.
    """
    shown = recorded.get("latency")
    shown = shown if isinstance(shown, Mapping) else {}
    mean_s, median_s = shown.get("mean_s"), shown.get("median_s")
    if not isinstance(mean_s, int | float) or not isinstance(median_s, int | float) or min(mean_s, median_s) <= 0:
        raise UsageError(f"{source}: not the metrics of a run that called a judge; pass --latency instead.")
    return LatencyEstimate(mean_s, math.sqrt(2 * max(0.0, math.log(mean_s / median_s))), source)


def slots_of(settings: Settings, recorded: Mapping[str, Any] | None, latency: LatencyEstimate) -> list[int]:
    """Return the calls that may be in flight, of each judge and grader, at all its endpoints together.

    With `--concurrency auto` those that the recorded run had in flight on average: calls a second × latency.

    Raises:
        UsageError: the concurrency is `auto`, and no run is recorded.
    """
    slots = []
    for spec in judge_specs(settings):
        concurrency, endpoints = concurrency_of(spec.config.limits), max(1, len(spec.config.judge.base_url))
        if concurrency is not None:
            slots.append(concurrency * endpoints)
        elif recorded is not None and isinstance(pace := recorded.get("calls_per_s"), int | float) and pace > 0:
            slots.append(max(1, round(pace * latency.mean_s)))
        else:
            raise UsageError(
                "--concurrency auto finds the number of slots while it runs; pass --concurrency, or --measured with "
                "the metrics of an earlier run."
            )
    return slots


def plan_fleets(
    inputs: Sequence[str], run: RunContext, workers: Sequence[int], latency: LatencyEstimate, slots: Sequence[int]
) -> dict[str, Any]:
    """Return what a run over the inputs would cost, and how long it would take fleets of different sizes, JSON-ready.

    Args:
        inputs: as on the command line; those that are up to date cost nothing.
        run: settings.
        workers: sizes of the fleets.
        latency: of a call.
        slots: of all workers together, of each judge.

    Raises:
        GenrmError: an input cannot be planned.
    """
    fleets = [Fleet(count, [[0] * len(slots) for _ in range(count)]) for count in workers]
    plans, read_s, rollouts = [], 0.0, 0
    for decision in plan_inputs(inputs, run):
        if decision.error is not None:
            raise decision.error
        if decision.status is not Status.SCORE:
            continue
        counts, first = RunMetrics(), FirstRejects()
        of_input = replace(run, metrics=counts)
        began_s = time.monotonic()
        with decision.task.sources(of_input) as sources, index_input(sources, of_input, first) as index:
            refuse_unreadable(index, first)
            read_s += time.monotonic() - began_s
            rollouts += counts.rollouts
            for fleet in fleets:
                fleet.add(index)
            plans.append(estimate_run(index, of_input, decision.task.places.scored))
    total = total_of(plans)
    planned = sum(map(sum, fleets[0].calls))
    share = total["calls"] / planned if planned else 0.0
    return {
        "rollouts": rollouts,
        **total,
        "slots": sum(slots),
        "latency_s": round(latency.mean_s, 3),
        "latency_from": latency.source,
        "read_s": round(read_s, 1),
        "fleets": [
            {
                "workers": fleet.workers,
                "largest_shard_calls": round(fleet.largest * share),
                "ask_s": round(asks_s := fleet.ask_s(slots, latency, share), 1),
                "total_s": round(asks_s + (1 if fleet.workers == 1 else 2) * read_s, 1),
            }
            for fleet in fleets
        ],
    }
