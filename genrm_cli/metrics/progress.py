"""Progress of a run, safe to read from another thread.

There is no lock: the tuple of parts is replaced in one step, counts are read one by one, and
counters are copied by one call that Python does not interrupt. A reader may see a call counted and
its tokens not yet; the next read has both.
"""

from collections.abc import Iterable
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


COUNTS = (
    "lines",
    "rollouts",
    "rejected_lines",
    "groups",
    "groups_done",
    "comparisons_planned",
    "verdicts",
    "journal_hits",
    "calls",
    "retries",
    "prompt_tokens",
    "completion_tokens",
)
"""The counts of `RunMetrics` that tell the progress of a run."""


class RunProgress:
    """The metrics of all inputs of a run: those in progress and the sum of the finished ones.

    Attributes:
        pace: the load on the judges; None before the first request.
    """

    def __init__(self) -> None:
        self.pace: Pace | None = None
        # The sum of the finished inputs, then those in progress. Replaced in one step, so that
        # another thread sees each input once.
        self._parts: tuple[RunMetrics, ...] = (RunMetrics(),)

    def begin(self) -> RunMetrics:
        """Start the metrics of another input."""
        metrics = RunMetrics()
        self._parts = (*self._parts, metrics)
        return metrics

    def end(self, metrics: RunMetrics) -> None:
        """Finish the metrics of an input; they stay in the total."""
        done, *in_progress = self._parts
        self._parts = (
            _sum([done, metrics]),
            *(each for each in in_progress if each is not metrics),
        )

    def discard(self, metrics: RunMetrics) -> None:
        """Forget an input in progress."""
        self._parts = tuple(each for each in self._parts if each is not metrics)

    def total(self) -> RunMetrics:
        """Return the metrics of all inputs together, once none is in progress."""
        return _sum(self._parts)

    def now(self) -> RunMetrics:
        """Return `COUNTS` and failures of all inputs so far. Safe to call from another thread
        during the run.
        """
        now = RunMetrics()
        for part in self._parts:
            for name in COUNTS:
                setattr(now, name, getattr(now, name) + getattr(part, name))
            # An atomic copy: the run adds to the original meanwhile.
            now.failures_by_kind.update(dict(part.failures_by_kind))
        return now


def _sum(parts: Iterable[RunMetrics]) -> RunMetrics:
    total = RunMetrics()
    for metrics in parts:
        total.merge(metrics)
    return total
