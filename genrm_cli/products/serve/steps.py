"""The metrics of each training step, for trackers and Prometheus."""

import copy
import time
from collections.abc import Callable, Mapping

from msgspec import to_builtins

from genrm_cli.groups.count_group import count_whole_group
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.results import GroupRewards
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.products.serve.reference_answers import (
    ReferenceAnswers,
    ReferenceComparisons,
    WinCounts,
    WinRate,
)
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.settings import Settings

LogStep = Callable[[int, RunTotals, Mapping[str, object]], None]
"""Takes the number of a step that has ended, its totals, and further numbers by name."""


class StepMetrics:
    """Counts answered groups. So many of them are a step: no trainer's format says where one ends.

    Attributes:
        references: answers to compare responses with.
        win_rate: of the latest step in which responses were compared with reference answers; None
            before the first.
    """

    def __init__(
        self, settings: Settings, scorer: ServedScorer, log_step: LogStep | None = None
    ) -> None:
        """Read the reference answers, if there are any, and begin the first step; errors as of
        `ReferenceAnswers`.
        """
        self._settings = settings
        self._scorer = scorer
        self._log_step = log_step
        self.win_rate: WinRate | None = None
        self.references = ReferenceAnswers(settings, scorer)
        self._begin(1)

    def _begin(self, number: int) -> None:
        self._number = number
        self._metrics = RunMetrics()
        self._wins = WinCounts()
        # The judges count latencies since the server started.
        self._earlier = copy.deepcopy(self._scorer.open_judges.latencies)
        self._begun_s = time.monotonic()

    def add(
        self,
        judged: JudgedGroup,
        rewards: GroupRewards,
        compared: ReferenceComparisons | None,
    ) -> None:
        """Count a group, and its comparisons with a reference answer."""
        metrics = self._metrics
        count_whole_group(metrics, judged, rewards, self._scorer.plan)
        if compared is not None:
            self._wins.merge(compared.wins)
            metrics.comparisons_planned += len(compared.outcomes)
            for outcome in compared.outcomes:
                metrics.add_outcome(outcome)
        if metrics.groups == self._settings.serve.groups_per_step:
            self.end()

    def end(self) -> None:
        """Log the step, unless it is empty, and begin the next."""
        if not self._metrics.groups:
            return
        self._metrics.latency = self._scorer.open_judges.latencies.since(self._earlier)
        wall_time_s = time.monotonic() - self._begun_s
        plan = self._scorer.plan
        totals = run_totals(
            self._settings, self._metrics, plan, self._scorer.open_judges.specs, wall_time_s
        )
        shares = {
            kind: count / totals.comparisons_planned
            for kind, count in totals.failures_by_kind.items()
        }
        rate = self._wins.rate()
        self.win_rate = rate or self.win_rate
        if self._log_step is not None:
            more = {
                "failure_share": shares,
                "reference": None if rate is None else to_builtins(rate),
            }
            self._log_step(self._number, totals, more)
        self._begin(self._number + 1)
