"""The metrics of each training step, for trackers and Prometheus."""

import copy
import time
from dataclasses import asdict

from genrm_cli.groups.count_group import count_served_group
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.results import GroupRewards
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.win_counts import WinCounts, WinRate
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.serve.reference import Compared, ReferenceAnswers
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.settings import Settings
from genrm_cli.tracking.log_run import RunLog, tracked_run
from genrm_cli.watching.windows import WatchedWindows


class StepMetrics:
    """Counts answered groups. So many of them are a step: no trainer's format says where one ends.

    Attributes:
        references: answers to compare responses with.
        windows: watches the judges at the end of each step; None to watch nothing.
        win_rate: of the latest step in which responses were compared with reference answers; None before the first.
    """

    def __init__(
        self, settings: Settings, scorer: ServedScorer, log: RunLog, windows: WatchedWindows | None = None
    ) -> None:
        """Read the reference answers, if there are any, and begin the first step; errors as of `ReferenceAnswers`."""
        self._settings, self._scorer, self._log, self.windows = settings, scorer, log, windows
        self.win_rate: WinRate | None = None
        self.references = ReferenceAnswers(settings, scorer)
        self._begin(1)

    def _begin(self, number: int) -> None:
        self._number, self._metrics, self._wins = number, RunMetrics(), WinCounts()
        self._earlier, self._begun_s = copy.deepcopy(self._scorer.open_judges.latencies), time.monotonic()

    def add(self, judged: JudgedGroup, rewards: GroupRewards, compared: Compared | None) -> None:
        """Count a group, and its comparisons with a reference answer."""
        metrics = self._metrics
        count_served_group(metrics, judged, rewards, self._scorer.plan)
        if compared is not None:
            self._wins.merge(compared.wins)
            metrics.planned += len(compared.outcomes)
            for outcome in compared.outcomes:
                metrics.add_outcome(outcome)
        if metrics.groups == self._settings.serve.groups_per_step:
            self.end()

    def end(self) -> None:
        """Log the step, unless it is empty, and begin the next."""
        if not self._metrics.groups:
            return
        self._metrics.latencies = self._scorer.open_judges.latencies.since(self._earlier)
        wall_time_s, plan = time.monotonic() - self._begun_s, self._scorer.plan
        totals = run_totals(self._settings, self._metrics, plan, self._scorer.open_judges.specs, wall_time_s)
        if (rate := self._wins.rate()) is not None:
            self.win_rate = rate
        shares = {kind: count / totals.comparisons_planned for kind, count in totals.failures_by_kind.items()}
        more = {"failure_share": shares, "reference": None if rate is None else asdict(rate)}
        self._log.log(tracked_run("serve", totals, self._settings, self._number, more))
        if self.windows is not None:
            self.windows.add(totals, plan, self._scorer.open_judges)
        self._begin(self._number + 1)
