"""Play one episode to its end."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic

from genrm_cli.episodes.agents import POLICY, Answer
from genrm_cli.episodes.environment import (
    CLIENT_FAILED,
    CONTEXT_TOO_LONG,
    POLICY_FAILED,
    PRIVATE_DATA,
    Ask,
    Dialogue,
    Environment,
    ScenarioT,
    StateT,
    T,
)
from genrm_cli.rollouts.reading.messages import items_of_text
from genrm_cli.rollouts.redaction import Redactor
from genrm_cli.rollouts.response import words_of
from genrm_cli.verdicts import Failure, Outcome, Said


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
        """Return what tells this episode's calls of the policy from those of the others; 0 for shared ones."""
        own = self.number + 1 if turn_index + 1 >= self.branch_at else 0
        return self.seed << 32 | own

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
        self.cut_turns += isinstance(outcome.result, Said) and outcome.result.is_cut


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


Act = Callable[[Any, int], Awaitable[Outcome]]
"""The policy: takes a state and what tells equal calls apart, and answers with its next turn."""


class _FailedError(Exception):
    """The policy or a model of the environment gave no turn."""

    def __init__(self, reason: str, detail: str, *, too_long: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.too_long = too_long


async def play_episode(
    slot: EpisodeSlot[ScenarioT],
    environment: Environment[ScenarioT, StateT],
    act: Act,
    answer: Answer,
    redactor: Redactor | None = None,
    on_outcome: Callable[[str, Outcome], None] = lambda role, outcome: None,
) -> Played[ScenarioT, StateT]:
    """Play an episode: all that it asks depends on what was answered, so a journal resumes it at any turn.

    Args:
        slot: which episode.
        environment: its environment.
        act: the policy.
        answer: asks the environment's models.
        redactor: matches in a generated turn end the episode as private data; None to check nothing.
        on_outcome: called with each answer and its role.

    Raises:
        RunStoppedError: the run ended before the episode.
        JudgeError: no endpoint has answered for too long.
    """
    usage: dict[str, Usage] = {}

    def take(role: str, outcome: Outcome) -> str:
        usage.setdefault(role, Usage()).add(outcome)
        on_outcome(role, outcome)
        if isinstance(outcome.result, Failure):
            reason = POLICY_FAILED if role == POLICY else CLIENT_FAILED
            detail = f"{outcome.result.kind}: {outcome.result.detail}"
            raise _FailedError(reason, detail, too_long=outcome.result.is_too_long and role == POLICY)
        words = words_of(items_of_text(outcome.reply_text or "")).strip()
        if not words:
            raise _FailedError(POLICY_FAILED if role == POLICY else CLIENT_FAILED, "a reply holds reasoning only")
        _refuse_private(role, words, redactor)
        return words

    async def run(dialogue: Dialogue[T]) -> T:
        try:
            ask: Ask = next(dialogue)
            while True:
                ask = dialogue.send(take(ask.role, await answer(ask.role, ask.conversation, slot.client_repeat)))
        except StopIteration as ended:
            result: T = ended.value
            return result

    state = await run(environment.reset(slot.scenario, slot.variant, slot.seed))
    try:
        while state.end is None:
            outcome = await act(state, slot.repeat_at(state.turn_index))
            state = await run(environment.step(state, take(POLICY, outcome)))
    except _FailedError as failed:
        if failed.too_long and state.turn_index:
            return Played(slot, environment.cut(state, CONTEXT_TOO_LONG), usage=usage)
        return Played(slot, state, failed.reason, str(failed), usage)
    return Played(slot, state, usage=usage)


def _refuse_private(role: str, words: str, redactor: Redactor | None) -> None:
    if redactor is None:
        return
    counts: Counter[str] = Counter()
    redactor.redact(words, counts)
    if counts:
        raise _FailedError(PRIVATE_DATA, f"{role}: matches of --redact-pattern: {', '.join(sorted(counts))}")


def scripted(turn_of: Callable[[Any, int], str]) -> Act:
    """Return a policy without a model."""

    async def act(state: Any, repeat: int) -> Outcome:
        return Outcome(Said(), reply_text=turn_of(state, repeat))

    return act


def asked_policy(answer: Answer) -> Act:
    """Return the policy behind an endpoint."""

    async def act(state: Any, repeat: int) -> Outcome:
        return await answer(POLICY, state.messages, repeat)

    return act
