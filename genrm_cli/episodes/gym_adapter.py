"""Environments behind the calls of a Gym server: reset, step and verify, as dialogues on plain values.

The server keeps the state, in memory or as the JSON of `render_state`, and answers what a dialogue asks; `run_dialogue`
does so for environments that need no model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

from genrm_cli.episodes.environment import FAILURES, Dialogue, Environment, ScenarioT, StateT


@dataclass(frozen=True, slots=True)
class Observation(Generic[StateT]):
    """What `reset` and `step` return.

    Attributes:
        state: after the step; the policy must not see it.
        text: what the policy hears; empty if nobody answered.
        components: of the reward so far.
        reward: what they add up to; None before the policy's first turn.
        terminated: whether the episode ended by itself.
        truncated: whether a limit cut it off.
        info: turn index, and at the end its reason and who ended it.
    """

    state: StateT
    text: str
    components: Mapping[str, float]
    reward: float | None
    terminated: bool
    truncated: bool
    info: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Verification:
    """The reward of an episode.

    Attributes:
        reward: None for an episode that must not be trained on, because the policy said nothing, the simulated client
            was at fault, or it ended in a failure.
        components: of the reward.
        end_reason: how the episode ended; None while it goes on.
        faults: of the simulated client.
    """

    reward: float | None
    components: Mapping[str, float]
    end_reason: str | None
    faults: tuple[str, ...]


def reset(
    environment: Environment[ScenarioT, StateT], scenario: ScenarioT, variant: int = 0, seed: int = 0
) -> Dialogue[Observation[StateT]]:
    """Begin an episode: the observation holds the client's first words."""
    return _observe(environment, (yield from environment.reset(scenario, variant, seed)))


def step(environment: Environment[ScenarioT, StateT], state: StateT, action: str) -> Dialogue[Observation[StateT]]:
    """Take the policy's next turn.

    Raises:
        ValueError: the episode has ended.
    """
    return _observe(environment, (yield from environment.step(state, action)))


def cut(environment: Environment[ScenarioT, StateT], state: StateT, reason: str) -> Observation[StateT]:
    """End an episode from outside."""
    return _observe(environment, environment.cut(state, reason))


def verify(environment: Environment[ScenarioT, StateT], state: StateT) -> Verification:
    """Return the reward of an episode as it stands."""
    components, faults = environment.components(state), environment.faults(state)
    reason = None if state.end is None else state.end.reason
    is_usable = state.turn_index and not faults and reason not in FAILURES
    return Verification(environment.total(components) if is_usable else None, components, reason, faults)


def _observe(environment: Environment[ScenarioT, StateT], state: StateT) -> Observation[StateT]:
    end = state.end
    components = environment.components(state) if state.turn_index else {}
    ended = {} if end is None else {"end_reason": end.reason, "ended_by": end.by}
    last = state.messages[-1] if state.messages else None
    return Observation(
        state,
        last.text if last is not None and last.role == "user" else "",
        components,
        environment.total(components) if components else None,
        terminated=end is not None and not end.truncated,
        truncated=end is not None and end.truncated,
        info={"turn_index": state.turn_index, **ended},
    )
