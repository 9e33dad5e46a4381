"""Play one episode to its end."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from genrm_cli.rollouts.redaction import Redactor
from genrm_cli.sessions.agents import POLICY, TRUNK, Answer, SilentError, spoken_words
from genrm_cli.sessions.environment import (
    CLIENT_FAILED,
    CONTEXT_TOO_LONG,
    POLICY_FAILED,
    PRIVATE_DATA,
    AnyEnvironment,
    Ask,
    ended,
    run_dialogue,
)
from genrm_cli.sessions.episode import EpisodeSlot, Played, Usage
from genrm_cli.verdicts import ChatTurn, Outcome

Act = Callable[[Any, int], Awaitable[Outcome]]
"""The policy: takes a state and what tells equal calls apart, and answers with its next turn."""


class _FailedError(Exception):
    """The policy or a model of the environment gave no turn."""

    def __init__(self, reason: str, detail: str, *, too_long: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.too_long = too_long


async def play_episode(
    slot: EpisodeSlot,
    environment: AnyEnvironment,
    act: Act,
    answer: Answer,
    redactor: Redactor | None = None,
    on_outcome: Callable[[str, Outcome], None] = lambda role, outcome: None,
) -> Played:
    """Play an episode. Its requests depend on earlier answers only, so a journal resumes it at any turn.

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
        try:
            words = spoken_words(outcome)
        except SilentError as silent:
            reason = POLICY_FAILED if role == POLICY else CLIENT_FAILED
            raise _FailedError(reason, str(silent), too_long=silent.is_too_long and role == POLICY) from silent
        if redactor is not None and (matches := private_matches(words, redactor)):
            raise _FailedError(PRIVATE_DATA, f"{role}: matches of redact_pattern: {', '.join(sorted(matches))}")
        return words

    async def ask_model(ask: Ask) -> str:
        return take(ask.role, await answer(ask.role, ask.conversation, slot.client_repeat))

    state = await run_dialogue(environment.reset(slot.scenario, slot.variant, slot.seed), ask_model)
    try:
        while state.end is None:
            outcome = await act(state, slot.repeat_at(state.turn_index))
            state = await run_dialogue(environment.step(state, take(POLICY, outcome)), ask_model)
    except _FailedError as failed:
        if failed.too_long and state.turn_index:
            return Played(slot, ended(state, CONTEXT_TOO_LONG), usage=usage)
        return Played(slot, state, failed.reason, str(failed), usage)
    return Played(slot, state, usage=usage)


def private_matches(text: str, redactor: Redactor) -> Counter[str]:
    """Return how often each pattern of private data matches a turn."""
    counts: Counter[str] = Counter()
    redactor.redact(text, counts)
    return counts


def scripted_policy(kind: str, environment: AnyEnvironment) -> Act:
    """Return a policy of the environment's that needs no model."""

    async def act(state: Any, repeat: int) -> Outcome:
        return Outcome(ChatTurn(), reply_text=environment.scripted_turn(kind, state, repeat))

    return act


def asked_policy(answer: Answer, trunk_turns: int = 0) -> Act:
    """Return the policy behind an endpoint; another one has the first turns."""

    async def act(state: Any, repeat: int) -> Outcome:
        return await answer(TRUNK if state.turn_index < trunk_turns else POLICY, state.messages, repeat)

    return act
