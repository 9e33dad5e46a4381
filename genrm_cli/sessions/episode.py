"""One episode: which one it is, how far it came, and what it cost."""

from dataclasses import dataclass, field
from typing import Generic

from genrm_cli.sessions.environment import ScenarioT, StateT
from genrm_cli.verdicts import ChatTurn, Outcome


@dataclass(frozen=True, slots=True)
class EpisodeSlot(Generic[ScenarioT]):
    """One episode to play.

    Attributes:
        index: number in its file, from 0.
        scenario: what is played.
        variant: of the client; another variant is another group.
        seed: of the environment.
        number: within its group, from 0.
        branch_at: the policy's turn at which the episodes of the group part, from 1; 1 where they share nothing.
    """

    index: int
    scenario: ScenarioT
    variant: int
    seed: int
    number: int
    branch_at: int = 1

    @property
    def group(self) -> str:
        """The name of its group: same scenario, client and seed, and the same history up to the branch."""
        branch = "" if self.branch_at == 1 else f"/b{self.branch_at}"
        return f"{self.scenario.scenario_id}/v{self.variant}{branch}"

    def repeat_at(self, turn_index: int) -> int:
        """Return what tells this episode's calls of the policy from those of the others; its group shares a trunk."""
        own = self.number + 1 if turn_index + 1 >= self.branch_at else 0
        return self.client_repeat << 32 | own

    @property
    def client_repeat(self) -> int:
        """Return what tells the calls of this client from those of other clients: equal in a whole group."""
        return self.seed << 32 | self.variant


@dataclass(slots=True)
class Usage:
    """What one role cost in an episode, whoever paid for it: this run, or an earlier one."""

    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut_turns: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count an answer."""
        self.turns += 1
        self.prompt_tokens += outcome.prompt_tokens
        self.completion_tokens += outcome.completion_tokens
        self.cut_turns += isinstance(outcome.result, ChatTurn) and outcome.result.is_truncated


@dataclass(slots=True)
class Played(Generic[ScenarioT, StateT]):
    """An episode that has been played.

    Attributes:
        slot: which one.
        state: its last.
        failed: why it is no episode, one of `FAILURES`; None if it is one.
        detail: what happened then.
        usage: by role.
    """

    slot: EpisodeSlot[ScenarioT]
    state: StateT
    failed: str | None = None
    detail: str = ""
    usage: dict[str, Usage] = field(default_factory=dict)
