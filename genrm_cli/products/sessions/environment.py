"""The interface of environments, as collection and hosting use it.

    >>> import asyncio
    >>> from dataclasses import replace
    >>> from genrm_cli.rollouts.rollout import Turn
    >>> from genrm_cli.products.sessions.environment import Environment, EpisodeScenario
    >>> from genrm_cli.products.sessions.environment import EpisodeState, ended

    >>> class Echo(Environment):
    ...     version = "echo_v1"
    ...
    ...     def parse_scenario(self, table, where):
    ...         return EpisodeScenario(scenario_id=table["scenario_id"])
    ...
    ...     def reset(self, scenario, variant, seed):
    ...         return EpisodeState(messages=(Turn("user", scenario.scenario_id),))
    ...
    ...     async def step(self, state, action, ask):
    ...         said = (*state.messages, Turn("assistant", action))
    ...         state = replace(state, messages=said, turn_index=state.turn_index + 1)
    ...         return ended(state, "said", by="policy")
    ...
    ...     def components(self, state):
    ...         said = [turn.text for turn in state.messages]
    ...         return {"same": float(said[0] == said[-1])}

    >>> async def play(environment, scenario, action):
    ...     state = environment.reset(scenario, 0, seed=1)
    ...     return environment.components(await environment.step(state, action, ask=None))
    >>> echo = Echo()
    >>> asyncio.run(play(echo, echo.parse_scenario({"scenario_id": "Hello"}, "line 1"), "Hello"))
    {'same': 1.0}

Environments are state machines without I/O. Where a step needs a model, for example to word a
simulated client's reply, it awaits `ask`, so the same environment runs in a file job, in a server
and in a test. An installed package registers its class as an entry point of the group
`genrm.environments`."""

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from genrm_cli.json_types import Record
from genrm_cli.rollouts.rollout import Turn

TURN_LIMIT = "turn_limit"
TURN_TOO_LONG = "turn_too_long"
CONTEXT_TOO_LONG = "context_too_long"
POLICY_FAILED = "policy_failed"
CLIENT_FAILED = "client_failed"
PRIVATE_DATA = "private_data"
ENVIRONMENT_FAILED = "environment_failed"
TRUNCATIONS = frozenset({TURN_LIMIT, TURN_TOO_LONG, CONTEXT_TOO_LONG})
"""Reasons that cut an episode off; all other reasons of an environment are regular ends."""

FAILURES = frozenset({POLICY_FAILED, CLIENT_FAILED, PRIVATE_DATA, ENVIRONMENT_FAILED})
"""Reasons that leave no episode: a failed session is not an episode with a low reward."""

Ask = Callable[[tuple[Turn, ...]], Awaitable[str]]
"""Asks the model that plays the environment's part for its next turn."""


class ModelUse(Struct, frozen=True):
    """How an environment uses the model that plays its part.

    Attributes:
        min_tokens: smallest token limit of a reply; a larger limit of the user is kept.
        request_fields: further fields of each request, such as the form of the reply.
    """

    min_tokens: int = 0
    request_fields: Mapping[str, object] = {}


class End(Struct, frozen=True):
    """How an episode ended.

    Attributes:
        by: `policy`, `client` or `environment`.
        turn: index of the policy's turn after which it ended, from 1; 0 before any.
    """

    reason: str
    by: str
    turn: int
    evidence: str = ""

    @property
    def truncated(self) -> bool:
        """Whether a limit cut the episode off."""
        return self.reason in TRUNCATIONS

    def as_record(self) -> Record:
        """Return what the metadata of an episode's record say of its end."""
        return {
            "end_reason": self.reason,
            "ended_by": self.by,
            "end_evidence": self.evidence,
            "truncated": self.truncated,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScenario:
    """One scenario of an environment; a subclass adds its own fields.

    Attributes:
        scenario_id: unique in its file.
        origin: `synthetic` or `deidentified`; nothing else may be played.
    """

    scenario_id: str
    origin: str = "synthetic"

    def as_record(self) -> Record:
        """Return the scenario's fields for rollout records, JSON-ready, without those hidden from
        the policy.
        """
        return {"scenario_id": self.scenario_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeState:
    """One moment of an episode; a subclass adds what is hidden from the policy."""

    messages: tuple[Turn, ...]
    turn_index: int = 0
    end: End | None = None


ScenarioT = TypeVar("ScenarioT", bound=EpisodeScenario)
StateT = TypeVar("StateT", bound=EpisodeState)


class Environment(ABC, Generic[ScenarioT, StateT]):
    """A kind of episodes.

    Its methods depend only on their arguments, on the replies of the model, and on the user's
    choices below.

    Attributes:
        version: changes whenever the same answers would give another episode; part of records and
            digests.
        model_use: how it uses a model that plays its part; None if it never asks one.
        scripted_policies: names of policies without a model, for demos and tests.
        gates: components that make the reward 0, whatever the others are, where they are 0; no such
            session is ever preferred.
        max_turn_bytes: a longer turn of the policy ends the episode, and one of the environment's
            model is a failure.
        has_model: whether the user named a model to ask.
        has_judge: whether a judge rewards the episodes; it then decides about safety, and no rule
            ends one.
        max_turns: overrides the limit of every scenario.
        shows_state: whether policies are shown the state as JSON.
    """

    version: ClassVar[str]
    model_use: ClassVar[ModelUse | None] = None
    scripted_policies: ClassVar[tuple[str, ...]] = ()
    gates: ClassVar[tuple[str, ...]] = ()
    max_turn_bytes: ClassVar[int] = 65_536  # far beyond any reply, and bounded all the same

    def __init__(
        self,
        *,
        has_model: bool = False,
        has_judge: bool = False,
        max_turns: int | None = None,
        shows_state: bool = False,
    ) -> None:
        self.has_model = has_model
        self.has_judge = has_judge
        self.max_turns = max_turns
        self.shows_state = shows_state

    @abstractmethod
    def parse_scenario(self, table: Mapping[str, object], where: str) -> ScenarioT:
        """Parse and check one scenario, or raise `InputError` that begins with `where`."""

    @abstractmethod
    def reset(self, scenario: ScenarioT, variant: int, seed: int) -> StateT:
        """Begin an episode; equal arguments begin equal episodes."""

    @abstractmethod
    async def step(self, state: StateT, action: str, ask: Ask) -> StateT:
        """Take the policy's next turn, and answer it."""

    @abstractmethod
    def components(self, state: StateT) -> dict[str, float]:
        """Return the parts of the reward so far, each from 0 to 1, without those that do not apply.

        Without a judge, the reward is the mean of those that are no gates.
        """

    def state_shown(self, state: StateT, scenario: ScenarioT) -> Record | None:
        """Return the state as a policy is shown it, JSON-ready: nothing that only the client knows;
        None unless the user asked for it.
        """
        if not self.shows_state:
            return None
        return {"scenario": scenario.as_record(), "turn_index": state.turn_index}

    def messages_shown(self, state: StateT, scenario: ScenarioT) -> tuple[Turn, ...]:
        """Return the messages for the policy; its instructions end with the state, if it is
        shown.
        """
        shown = self.state_shown(state, scenario)
        if shown is None:
            return state.messages
        instructions = [turn.text for turn in state.messages if turn.role == "system"]
        instructions.append(f"State: {json.dumps(shown, ensure_ascii=False)}")
        rest = (turn for turn in state.messages if turn.role != "system")
        return (Turn("system", "\n\n".join(instructions)), *rest)

    def identity(self) -> Record:
        """Return the identity of the environment's model and its limits, JSON-ready; part of the
        settings digest.
        """
        limit = {} if self.max_turns is None else {"max_turns": self.max_turns}
        return limit | ({"shows_state": True} if self.shows_state else {})

    def sample_scenarios(self) -> str:
        """Return the scenarios that come with the environment, as TOML; empty without any."""
        return ""

    def scripted_turn(self, kind: str, state: StateT, seed: int) -> str:
        """Return the next turn of a scripted policy, a name in `scripted_policies`; equal seeds
        give equal turns.
        """
        raise NotImplementedError

    def faults(self, state: StateT) -> tuple[str, ...]:
        """Return the faults of the environment's own model, each once."""
        del state
        return ()

    def describe(self, state: StateT) -> Record:
        """Return further fields for the record of an ended episode, JSON-ready; hidden from
        policies and judges.
        """
        del state
        return {}


AnyEnvironment = Environment[Any, Any]


def broken(state: StateT, error: Exception) -> StateT:
    """Return a state whose episode a bug of the environment has ended: one session fails, and no
    other.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_name}, line {trace.tb_lineno})"
    return ended(state, ENVIRONMENT_FAILED, evidence=f"{type(error).__name__}: {error}{where}")


def ended(state: StateT, reason: str, by: str = "environment", evidence: str = "") -> StateT:
    """Return a state whose episode has ended."""
    return replace(state, end=End(reason, by, state.turn_index, evidence))
