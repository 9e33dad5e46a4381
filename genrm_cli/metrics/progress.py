"""Progress of a run, safe to read from another thread."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.running_stats import Latencies


class Pace(Protocol):
    """The current load on the judges."""

    @property
    def in_flight(self) -> int:
        """Calls in flight."""

    @property
    def limit(self) -> int:
        """Maximum number of calls in flight."""

    @property
    def latencies(self) -> Latencies:
        """Latencies of all calls."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A snapshot of a run's progress. The counts are those of `RunMetrics`, summed over all inputs."""

    lines: int = 0
    rollouts: int = 0
    rejects: int = 0
    groups: int = 0
    groups_done: int = 0
    planned: int = 0
    verdicts: int = 0
    journal_hits: int = 0
    calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    pace: Pace | None = None

    @property
    def failed(self) -> int:
        """Requests that failed."""
        return sum(self.failures.values())

    @property
    def finished(self) -> int:
        """Requests with a result."""
        return self.verdicts + self.journal_hits + self.failed

    @property
    def tokens(self) -> int:
        """Tokens of prompts and replies."""
        return self.prompt_tokens + self.completion_tokens


COUNTS = tuple(count.name for count in dataclasses.fields(Progress) if count.type is int)


class RunProgress:
    """The metrics of all inputs of a run: those in progress and the sum of the finished ones.

    Attributes:
        pace: the load on the judges; None before the first request.
    """

    def __init__(self) -> None:
        self.pace: Pace | None = None
        # The sum of the finished inputs, then those in progress. Replaced in one step, so that another thread sees
        # each input once.
        self._parts: tuple[RunMetrics, ...] = (RunMetrics(),)

    def begin(self) -> RunMetrics:
        """Start the metrics of another input."""
        metrics = RunMetrics()
        self._parts = (*self._parts, metrics)
        return metrics

    def end(self, metrics: RunMetrics) -> None:
        """Finish the metrics of an input; they stay in the total."""
        done, *in_progress = self._parts
        self._parts = (_sum([done, metrics]), *(each for each in in_progress if each is not metrics))

    def discard(self, metrics: RunMetrics) -> None:
        """Forget an input in progress."""
        self._parts = tuple(each for each in self._parts if each is not metrics)

    def total(self) -> RunMetrics:
        """Return the metrics of all inputs together, once none is in progress."""
        return _sum(self._parts)

    def now(self) -> Progress:
        """Return the current progress. Safe to call from another thread during the run."""
        parts = self._parts
        counts = {name: sum(getattr(part, name) for part in parts) for name in COUNTS}
        failures = Counter[str]()
        for part in parts:
            failures.update(dict(part.failures))  # an atomic copy: the run adds to the original
        return Progress(**counts, failures=failures, pace=self.pace)


def _sum(parts: Iterable[RunMetrics]) -> RunMetrics:
    total = RunMetrics()
    for metrics in parts:
        total.merge(metrics)
    return total
