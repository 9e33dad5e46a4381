"""What a collecting run counts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from genrm_cli.metrics.intervals import wilson_interval
from genrm_cli.metrics.running_stats import RunningStats
from genrm_cli.verdicts import Failure, Outcome


@dataclass(slots=True)
class RoleCounts:
    """The calls of one role in this run, and the turns that it took from the journal."""

    turns: int = 0
    calls: int = 0
    from_journal: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count an answer; tokens of the journal were paid for by an earlier call."""
        self.turns += 1
        self.failures += isinstance(outcome.result, Failure)
        if outcome.from_journal:
            self.from_journal += 1
            return
        self.calls += outcome.attempts
        self.prompt_tokens += outcome.prompt_tokens
        self.completion_tokens += outcome.completion_tokens


@dataclass(slots=True)
class CollectCounts:
    """The episodes of a run.

    Attributes:
        planned: episodes to play.
        written: episodes in the output.
        ends: end reasons of the episodes that ended, faulty ones included.
        failed: sessions that are no episodes, by reason.
        details: the first failure of each reason.
        faults: faults of the environment's models, by name.
        faulty: episodes with any.
        unparted: episodes that ended before the turn of their branch.
        turns: of the policy.
        roles: calls by role.
        components: values of the components of the reward, by name; of the episodes in the output.
        stopped_by: what ended the run early: `deadline`, `max_calls`, ...
    """

    planned: int = 0
    written: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    details: dict[str, str] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    faulty: int = 0
    unparted: int = 0
    turns: int = 0
    roles: dict[str, RoleCounts] = field(default_factory=dict)
    components: dict[str, RunningStats] = field(default_factory=dict)
    stopped_by: str | None = None

    @property
    def finished(self) -> int:
        """Sessions that came to an end of some kind."""
        return self.ends.total() + self.failed.total()

    def add_outcome(self, role: str, outcome: Outcome) -> None:
        """Count an answer of a model."""
        self.roles.setdefault(role, RoleCounts()).add(outcome)

    def add_values(self, values: Mapping[str, float]) -> None:
        """Count the components of an episode in the output."""
        for name, value in values.items():
            self.components.setdefault(name, RunningStats()).add(value)

    def add_faults(self, names: Sequence[str]) -> None:
        """Count the faults of an episode."""
        self.faults.update(names)
        self.faulty += bool(names)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, JSON-ready, the rate of faulty episodes with its 95 % interval."""
        ended = self.ends.total()
        rate = wilson_interval(self.faulty / ended, ended) if ended else None
        return {
            "episodes_planned": self.planned,
            "episodes_written": self.written,
            "unfinished": self.planned - self.finished,
            "ends": dict(self.ends.most_common()),
            "failed": dict(self.failed.most_common()),
            "failure_examples": dict(self.details),
            "client_faults": dict(self.faults.most_common()),
            "client_fault_rate": self.faulty / ended if ended else None,
            "client_fault_rate_interval": None if rate is None else list(rate),
            "ended_before_branch": self.unparted,
            "policy_turns": self.turns,
            "roles": {
                role: {name: getattr(counts, name) for name in RoleCounts.__slots__}
                for role, counts in self.roles.items()
            },
            "components": {name: asdict(stats.statistics()) for name, stats in self.components.items()},
            "stopped_by": self.stopped_by,
        }
