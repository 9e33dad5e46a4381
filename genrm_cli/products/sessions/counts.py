"""Counters of a collection run."""

from collections import Counter

from msgspec import Struct, field, to_builtins

from genrm_cli.errors import SettingRef, TooManyUnscoredError, naming
from genrm_cli.json_types import Record
from genrm_cli.metrics.running_stats import RunningStats, wilson_interval
from genrm_cli.metrics.session_metrics import SessionMetrics
from genrm_cli.scored.json_form import to_json
from genrm_cli.verdicts import Failure, Outcome


class RoleCounts(Struct):
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


class CollectCounts(Struct):
    """The episodes of a run.

    Attributes:
        ends: end reasons of the episodes that ended, faulty ones included.
        details: the first failure of each reason.
        unparted: episodes that ended before their branch.
        unscored: episodes that the judge gave no reward.
        components: values of the reward components in the output, by name; `sessions`: rewards by
            what was played.
        stopped_by: the limit that ended the run early: `deadline`, `max_calls`, ...
    """

    planned: int = 0
    written: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    details: dict[str, str] = {}
    faults: Counter[str] = field(default_factory=Counter)
    faulty: int = 0
    unparted: int = 0
    unscored: int = 0
    turns: int = 0
    roles: dict[str, RoleCounts] = {}
    components: dict[str, RunningStats] = {}
    sessions: SessionMetrics = field(default_factory=SessionMetrics)
    stopped_by: str | None = None

    @property
    def finished(self) -> int:
        """Sessions that ended or failed."""
        return self.ends.total() + self.failed.total()

    def add_reward(self, record: Record) -> None:
        """Count the reward of an episode of the output."""
        reward = record["reward"]
        total = reward["total_reward"]
        self.unscored += total is None
        self.sessions.add(record, total)
        for name, value in reward["components"].items():
            if value is not None:  # its judge did not answer
                self.components.setdefault(name, RunningStats()).add(value)

    def add_outcome(self, role: str, outcome: Outcome) -> None:
        """Count an answer of a model."""
        self.roles.setdefault(role, RoleCounts()).add(outcome)

    @property
    def fault_rate(self) -> tuple[float, float, float] | None:
        """Share of the ended episodes with a fault, and its 95 % interval; None before the
        first.
        """
        ended = self.ends.total()
        if not ended:
            return None
        share = self.faulty / ended
        return (share, *wilson_interval(share, ended))

    def as_dict(self) -> Record:
        """Return the counts, JSON-ready, with the rate of faulty episodes and its 95 % interval."""
        rate = self.fault_rate
        sessions = self.sessions.summary()
        means = {name: to_builtins(stats.summary()) for name, stats in self.components.items()}
        return {
            "episodes_planned": self.planned,
            "episodes_written": self.written,
            "unfinished": self.planned - self.finished,
            "ends": self.ends,
            "failed": self.failed,
            "failure_examples": self.details,
            "client_faults": self.faults,
            "client_fault_rate": None if rate is None else rate[0],
            "client_fault_rate_interval": None if rate is None else rate[1:],
            "ended_before_branch": self.unparted,
            "unscored": self.unscored,
            "policy_turns": self.turns,
            "roles": {role: to_builtins(counts) for role, counts in self.roles.items()},
            "components": means,
            "sessions": None if sessions is None else to_json(sessions),
            "stopped_by": self.stopped_by,
        }

    def refuse_missing(self, max_unscored: float) -> None:
        """Refuse a run that was stopped before its end, of which more than this share failed, or
        all were left out.
        """
        if self.stopped_by is not None:
            raise TooManyUnscoredError(
                SettingRef(self.stopped_by),
                f" stopped the run: {self.planned - self.finished} of {self.planned} sessions are "
                "not finished. Run the same command again: it goes on in mid-session.",
            )
        causes = ", ".join(f"{count} × {reason}" for reason, count in self.failed.most_common())
        example = next(iter(self.details.values()), "")
        for count, what in (
            (self.failed.total(), f"failed: {causes} (for example {example})"),
            (self.unscored, "got no reward from the judge"),
        ):
            if count > max_unscored * self.planned:
                raise TooManyUnscoredError(
                    f"{count} of {self.planned} sessions {what}. This is more than ",
                    SettingRef("max_unscored", f"{max_unscored:g}"),
                    " allows. Run the same command again to try them once more.",
                )
        if not self.written:
            remedy = naming("$branch_at. Use a better client, or branch at an earlier turn.")
            if self.faults["unread"] == self.faulty == self.planned:
                # Typical of a reward model, which by default plays the client, too.
                remedy = naming(
                    "$branch_at. The client's model never answered with the object that it is "
                    "asked for. A reward model cannot play a client: name a chat model with "
                    "$client_base_url and $client_model, or set $client to scripted."
                )
            raise TooManyUnscoredError(
                f"none of the {self.planned} sessions is in the output: {self.faulty} with client "
                f"faults, {self.unparted} that ended before ",
                remedy,
            )
