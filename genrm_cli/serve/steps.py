"""The metrics of each training step, for trackers and Prometheus, and the fixed answers that make
one comparable.
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Protocol

from genrm_cli.errors import InputError
from genrm_cli.groups.count_group import count_served_group
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.plan import GroupPlan, RewardPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.groups.reward_group import verdicts_of
from genrm_cli.jobs.context import s3_options
from genrm_cli.judging.opening.opened import OpenJudges
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.win_counts import WinCounts, WinRate
from genrm_cli.pairing import AGAINST_FIRST, PairingPlan
from genrm_cli.rollouts.group_keys import digest_of_prompt
from genrm_cli.rollouts.rollout import Item, Rollout, UnreadableRecordError
from genrm_cli.scored.describe_run import run_totals
from genrm_cli.scored.parse_lines import parse_line
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import BadLineError
from genrm_cli.storage.source import open_source
from genrm_cli.verdicts import Outcome, preferred

LogStep = Callable[[int, RunTotals, Mapping[str, object]], None]
"""Takes the number of a step that has ended, its totals, and further numbers by name."""


class WatchedSignal(Protocol):
    """A figure of the judges."""

    @property
    def value(self) -> float | None:
        """None where it was not measured."""


class WatchedState(Protocol):
    """What a watch says of the judges after a step."""

    @property
    def state(self) -> Enum:
        """One of the states that its class lists."""

    @property
    def signals(self) -> Mapping[str, WatchedSignal]:
        """The figures behind the state, by name."""


class JudgeWatch(Protocol):
    """Watches the judges of a server."""

    @property
    def latest(self) -> WatchedState | None:
        """The state after the last step; None before the first."""

    def add(self, totals: RunTotals, plan: GroupPlan, judges: OpenJudges) -> None:
        """Watch a step that has ended; returns at once."""

    async def close(self) -> None:
        """Wait for steps that are being watched."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparisons of a group with the answer to its prompt. A blank response loses without
    one.
    """

    wins: WinCounts
    outcomes: Sequence[Outcome]


class ReferenceAnswers:
    """The answers of a file, one for each of its prompts. No reward, and no calibration, depends on
    them.
    """

    def __init__(self, settings: Settings, scorer: ServedScorer) -> None:
        """Read the file, if the settings name one; raise `InputError` for a line without one prompt
        and one answer.
        """
        self._scorer = scorer
        self._answers: dict[int, tuple[Item, ...]] = {}
        uri = settings.serve.reference
        if uri is None:
            return
        with open_source(uri, s3_options(settings), settings.input.max_line_bytes) as source:
            for line in source.iter_lines():
                try:
                    self._add(parse_line(line, settings.input)[2])
                except (BadLineError, UnreadableRecordError) as error:
                    raise InputError(
                        f"{uri}: {source.unit} {line.number}: ", error.message, "."
                    ) from error

    def _add(self, rollouts: Sequence[Rollout]) -> None:
        if len(rollouts) != 1:
            raise UnreadableRecordError(f"{len(rollouts)} answers, expected one")
        (rollout,) = rollouts
        if (why := self._scorer.plan.why_not_compared(rollout)) is not None:
            raise UnreadableRecordError(f"no answer to compare with: {why.text}")
        prompt = digest_of_prompt(rollout.prompt)
        if prompt in self._answers:
            raise UnreadableRecordError("a second answer to the same prompt; keep one")
        self._answers[prompt] = rollout.response or ()

    def count_requests(self, group: Group) -> int:
        """Return the maximum number of requests that `compare` makes about a group."""
        has_answer = digest_of_prompt(group.rollouts[0].prompt) in self._answers
        return self._plan.count_requests(len(group.rollouts) + 1) if has_answer else 0

    async def compare(self, group: Group, timeout_s: float | None) -> Compared | None:
        """Compare each response of a group once with the answer to its prompt; None if there is
        none.

        Equal responses share a comparison, and count each. The answer is shown first for one half
        of the responses, second for the others. A panel gives its joint verdict. Comparisons
        without one after `timeout_s` have failed."""
        first = group.rollouts[0]
        answer = self._answers.get(digest_of_prompt(first.prompt))
        if answer is None:
            return None
        arriving = self._scorer.arriving(group.key or "", None, self._plan)
        rollouts = [replace(first, response=answer, excluded=None), *group.rollouts]
        judged = await arriving.judge(Group(group.key, rollouts), timeout_s)
        return _compared(judged, self._plan)

    @property
    def _plan(self) -> GroupPlan:
        """The plan of the server, with nothing but these comparisons."""
        plan = self._scorer.plan
        return replace(
            plan,
            pairing=PairingPlan(AGAINST_FIRST, seed=plan.pairing.seed),
            graders=(),
            rewards=RewardPlan(),
            default_score=None,
        )


def _compared(judged: JudgedGroup, plan: GroupPlan) -> Compared:
    won = {0: 0.5}  # by index; the answer is the first, and those that are equal to it tie
    for (i, j, _), verdict in verdicts_of(judged, plan).used.items():
        if 0 in (i, j):
            won[i or j] = (1 + (preferred(verdict) if j == 0 else -preferred(verdict))) / 2
    compared = [judged.copies.get(index, index) for index in (*judged.answered[1:], *judged.copies)]
    wins = [won[index] for index in compared if index in won] + [0.0] * len(judged.blank)
    counts = WinCounts()
    counts.add(wins, len(compared) + len(judged.blank) - len(wins))
    return Compared(counts, [outcome for _, outcome in judged.results])


class StepMetrics:
    """Counts answered groups. So many of them are a step: no trainer's format says where one ends.

    Attributes:
        references: answers to compare responses with.
        watch: watches the judges at the end of each step; None to watch nothing.
        win_rate: of the latest step in which responses were compared with reference answers; None
            before the first.
    """

    def __init__(
        self,
        settings: Settings,
        scorer: ServedScorer,
        log_step: LogStep | None = None,
        watch: JudgeWatch | None = None,
    ) -> None:
        """Read the reference answers, if there are any, and begin the first step; errors as of
        `ReferenceAnswers`.
        """
        self._settings = settings
        self._scorer = scorer
        self._log_step = log_step
        self.watch = watch
        self.win_rate: WinRate | None = None
        self.references = ReferenceAnswers(settings, scorer)
        self._begin(1)

    def _begin(self, number: int) -> None:
        self._number = number
        self._metrics = RunMetrics()
        self._wins = WinCounts()
        self._earlier = copy.deepcopy(self._scorer.open_judges.latencies)
        self._begun_s = time.monotonic()

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
        wall_time_s = time.monotonic() - self._begun_s
        plan = self._scorer.plan
        totals = run_totals(
            self._settings, self._metrics, plan, self._scorer.open_judges.specs, wall_time_s
        )
        if (rate := self._wins.rate()) is not None:
            self.win_rate = rate
        shares = {
            kind: count / totals.comparisons_planned
            for kind, count in totals.failures_by_kind.items()
        }
        more = {"failure_share": shares, "reference": None if rate is None else asdict(rate)}
        if self._log_step is not None:
            self._log_step(self._number, totals, more)
        if self.watch is not None:
            self.watch.add(totals, plan, self._scorer.open_judges)
        self._begin(self._number + 1)
