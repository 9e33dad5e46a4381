"""Play one episode to its end."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from genrm_cli.rollouts.redaction import Redactor
from genrm_cli.sessions.agents import POLICY, TRUNK, Answer, spoken_words
from genrm_cli.sessions.environment import (
    CLIENT_FAILED,
    CONTEXT_TOO_LONG,
    POLICY_FAILED,
    PRIVATE_DATA,
    Ask,
    Environment,
    ScenarioT,
    StateT,
    run_dialogue_with,
)
from genrm_cli.sessions.episode import EpisodeSlot, Played, Usage
from genrm_cli.verdicts import ChatTurn, Failure, Outcome

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
        words = spoken_words(outcome)
        if not words:
            raise _FailedError(POLICY_FAILED if role == POLICY else CLIENT_FAILED, "a reply holds reasoning only")
        _refuse_private(role, words, redactor)
        return words

    async def ask_model(ask: Ask) -> str:
        return take(ask.role, await answer(ask.role, ask.conversation, slot.client_repeat))

    state = await run_dialogue_with(environment.reset(slot.scenario, slot.variant, slot.seed), ask_model)
    try:
        while state.end is None:
            outcome = await act(state, slot.repeat_at(state.turn_index))
            state = await run_dialogue_with(environment.step(state, take(POLICY, outcome)), ask_model)
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
        return Outcome(ChatTurn(), reply_text=turn_of(state, repeat))

    return act


def asked_policy(answer: Answer, trunk_turns: int = 0) -> Act:
    """Return the policy behind an endpoint; another one has the first turns."""

    async def act(state: Any, repeat: int) -> Outcome:
        return await answer(TRUNK if state.turn_index < trunk_turns else POLICY, state.messages, repeat)

    return act
