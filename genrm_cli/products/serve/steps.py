"""The metrics of each training step, for trackers and Prometheus."""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from genrm_cli.groups.count_group import count_served_group
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.groups.results import GroupRewards
from genrm_cli.json_types import Record
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.products.serve.reference_answers import (
    ReferenceAnswers,
    ReferenceComparisons,
    WinCounts,
    WinRate,
)
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.rollouts.rollout import Rollout, Text
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.settings import Settings

LogStep = Callable[[int, RunTotals, Mapping[str, object], Sequence[Record]], None]
"""Takes the number of a step that has ended, its totals, further numbers by name, and some of its
verdicts as rows of a table."""
_MAX_CELL_CHARS = 2_000  # a tracker shows a table, not a document


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
        self._samples: list[Record] = []
        # The judges count latencies since the server started.
        self._earlier = copy.deepcopy(self._scorer.open_judges.latencies)
        self._begun_s = time.monotonic()

    def add(
        self,
        judged: JudgedGroup,
        rewards: GroupRewards,
        compared: ReferenceComparisons | None,
        rollouts: Sequence[Rollout],
    ) -> None:
        """Count a group of these rollouts, and its comparisons with a reference answer."""
        metrics = self._metrics
        count_served_group(metrics, judged, rewards, self._scorer.plan)
        if compared is not None:
            self._wins.merge(compared.wins)
            metrics.comparisons_planned += len(compared.outcomes)
            for outcome in compared.outcomes:
                metrics.add_outcome(outcome)
        if len(self._samples) < self._settings.tracking.verdict_samples:
            self._samples += _sample_of(rewards, rollouts)
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
            more = {"failure_share": shares, "reference": None if rate is None else asdict(rate)}
            self._log_step(self._number, totals, more, self._samples)
        self._begin(self._number + 1)


def _sample_of(rewards: GroupRewards, rollouts: Sequence[Rollout]) -> list[Record]:
    """Return the first verdict of a group on a pair as a row of a table; nothing without one."""
    for comparison in rewards.comparisons:
        verdict = comparison.verdict
        if verdict is None or len(comparison.shown) != 2:
            continue
        i, j = comparison.shown
        texts = {
            "prompt": [turn.text for turn in rollouts[i].prompt],
            "response_1": _texts_of(rollouts[i]),
            "response_2": _texts_of(rollouts[j]),
            "reply": [comparison.outcome.reply_text or ""],
        }
        row: Record = {
            "group": rewards.key,
            "score_1": verdict.score_1,
            "score_2": verdict.score_2,
            "ranking": verdict.ranking,
            "reward_1": rewards.scores[i].reward,
            "reward_2": rewards.scores[j].reward,
        }
        row |= {name: "\n\n".join(each)[:_MAX_CELL_CHARS] for name, each in texts.items()}
        return [row]
    return []


def _texts_of(rollout: Rollout) -> list[str]:
    return [item.text for item in rollout.response or () if isinstance(item, Text)]
