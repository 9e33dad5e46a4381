"""The interface of environments, as collection and hosting use it.

    >>> import asyncio
    >>> from dataclasses import replace
    >>> from genrm_cli.rollouts.rollout import Turn
    >>> from genrm_cli.sessions.environment import Environment, EpisodeScenario, EpisodeState
    >>> from genrm_cli.sessions.environment import ended, run_dialogue, without_asking

    >>> class Echo(Environment):
    ...     version = "echo_v1"
    ...
    ...     def parse_scenario(self, table, where):
    ...         return EpisodeScenario(scenario_id=table["scenario_id"])
    ...
    ...     def reset(self, scenario, variant, seed):
    ...         return without_asking(EpisodeState(messages=(Turn("user", scenario.scenario_id),)))
    ...
    ...     def step(self, state, action):
    ...         said = (*state.messages, Turn("assistant", action))
    ...         state = replace(state, messages=said, turn_index=state.turn_index + 1)
    ...         return without_asking(ended(state, "said", by="policy"))
    ...
    ...     def components(self, state):
    ...         said = [turn.text for turn in state.messages]
    ...         return {"same": float(said[0] == said[-1])}

    >>> async def play(environment, scenario, action):
    ...     state = await run_dialogue(environment.reset(scenario, 0, seed=1), answer=None)
    ...     state = await run_dialogue(environment.step(state, action), answer=None)
    ...     return environment.components(state)
    >>> echo = Echo()
    >>> asyncio.run(play(echo, echo.parse_scenario({"scenario_id": "Hello"}, "line 1"), "Hello"))
    {'same': 1.0}

Environments are pure state machines. Where a step needs a model, for example to word a simulated
client's reply, it yields an `Ask` and continues with the answer, so the same environment runs in a
file job, in a server and in a test. An installed package registers its class as an entry point of
the group `genrm.environments`."""

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.json_types import Record
from genrm_cli.rollouts.rollout import Turn

TURN_LIMIT = "turn_limit"
TURN_TOO_LONG = "turn_too_long"
CONTEXT_TOO_LONG = "context_too_long"
POLICY_FAILED = "policy_failed"
CLIENT_FAILED = "client_failed"
PRIVATE_DATA = "private_data"
TRUNCATIONS = frozenset({TURN_LIMIT, TURN_TOO_LONG, CONTEXT_TOO_LONG})
"""Reasons that cut an episode off; all other reasons of an environment are regular ends."""

FAILURES = frozenset({POLICY_FAILED, CLIENT_FAILED, PRIVATE_DATA})
"""Reasons that leave no episode: a failed session is not an episode with a low reward."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of an environment to one of its models.

    Attributes:
        role: role of the model, a name in `Environment.models`.
    """

    role: str
    conversation: tuple[Turn, ...]


Dialogue = Generator[Ask, str, T]
"""Yields questions, is sent the answers, and returns its result."""


def without_asking(value: T) -> Dialogue[T]:
    """Return a value as a dialogue that asks nothing."""
    return value
    yield  # makes it a generator


async def _call(work: Callable[..., Any], *given: object) -> Any:
    return work(*given)


async def run_dialogue(
    dialogue: Dialogue[T],
    answer: Callable[[Ask], Awaitable[str]],
    call: Callable[..., Awaitable[Any]] = _call,
) -> T:
    """Run a dialogue to its end, waiting for each answer, and return its result; errors of `answer`
    end it.

    Args:
        call: calls the environment's own work; `asyncio.to_thread` lets an event loop serve others
            meanwhile.
    """
    said: str | None = None
    while True:
        ask, result = await call(_advance, dialogue, said)
        if ask is None:
            return result  # type: ignore[no-any-return]
        said = await answer(ask)


def _advance(dialogue: Dialogue[T], said: str | None) -> tuple[Ask | None, T | None]:
    """Return the next question, or the result; no thread may raise `StopIteration`."""
    try:
        return (next(dialogue) if said is None else dialogue.send(said)), None
    except StopIteration as ended:
        return None, ended.value


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The use of the user's model in one role of an environment.

    Attributes:
        temperature: overrides the user's; None keeps it.
        min_tokens: smallest token limit of a reply; a larger limit of the user is kept.
    """

    temperature: float | None = None
    min_tokens: int = 0
    request_fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScenario:
    """One scenario of an environment; a subclass adds its own fields.

    Attributes:
        scenario_id: unique in its file.
        origin: `synthetic` or `deidentified`; nothing else may be played.
        identity: name of the client's identity, if the run plays the scenario with several.
    """

    scenario_id: str
    origin: str = "synthetic"
    identity: str = ""

    def as_record(self) -> Record:
        """Return the scenario's fields for rollout records, JSON-ready, without those hidden from
        the policy.
        """
        return {"scenario_id": self.scenario_id} | (
            {"identity": self.identity} if self.identity else {}
        )


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

    A subclass is called with `has_models` and `max_turns`. Its methods are pure; a dialogue depends
    only on its arguments and answers.

    Attributes:
        version: changes whenever the same answers would give another episode; part of records and
            digests.
        models: the roles that the environment asks if the user names a model for it.
        scripted_policies: names of policies without a model, for demos and tests.
        max_turn_bytes: a longer turn of the policy ends the episode, and one of the environment's
            models is a failure.
    """

    version: ClassVar[str]
    models: ClassVar[Mapping[str, ModelUse]] = {}
    scripted_policies: ClassVar[tuple[str, ...]] = ()
    max_turn_bytes: ClassVar[int] = 65_536

    def __init__(self, *, has_models: bool = False, max_turns: int | None = None) -> None:
        """Take the user's choices.

        Args:
            max_turns: overrides the limit of every scenario.
        """
        self.has_models = has_models
        self.max_turns = max_turns
        self.shows_state = False

    @abstractmethod
    def parse_scenario(self, table: Mapping[str, object], where: str) -> ScenarioT:
        """Parse and check one scenario, or raise `InputError` that begins with `where`."""

    @abstractmethod
    def reset(self, scenario: ScenarioT, variant: int, seed: int) -> Dialogue[StateT]:
        """Begin an episode; equal arguments begin equal episodes."""

    def state_shown(self, state: StateT, scenario: ScenarioT) -> Record:
        """Return the state as a policy is shown it on request, JSON-ready: nothing that only the
        client knows.
        """
        return {"scenario": scenario.as_record(), "turn_index": state.turn_index}

    def messages_shown(self, state: StateT, scenario: ScenarioT) -> tuple[Turn, ...]:
        """Return the messages for the policy; with `shows_state`, its instructions end with the
        state as JSON.
        """
        if not self.shows_state:
            return state.messages
        said = [turn.text for turn in state.messages if turn.role == "system"]
        shown = f"State: {json.dumps(self.state_shown(state, scenario), ensure_ascii=False)}"
        rest = (turn for turn in state.messages if turn.role != "system")
        return (Turn("system", "\n\n".join([*said, shown])), *rest)

    def with_identity(self, scenario: ScenarioT, said: str) -> ScenarioT:
        """Return a scenario whose client says this about itself first; raise `UsageError` without
        such clients.
        """
        raise UsageError(
            SettingRef("identity"), ": this environment has no clients with an identity."
        )

    @abstractmethod
    def step(self, state: StateT, action: str) -> Dialogue[StateT]:
        """Take the policy's next turn, and answer it."""

    @abstractmethod
    def components(self, state: StateT) -> dict[str, float]:
        """Return the parts of the reward so far, each from 0 to 1; without those that do not
        apply.
        """

    def total(self, components: Mapping[str, float]) -> float | None:
        """Return the reward that the components add up to, by default their mean; None without
        any.
        """
        return round(sum(components.values()) / len(components), 6) if components else None

    def gated_by(self, components: Mapping[str, float]) -> tuple[str, ...]:
        """Return the components that make the reward 0 whatever the others are; no such session is
        ever preferred.
        """
        del components
        return ()

    def identity(self) -> Record:
        """Return the identity of the environment's models and its limits, JSON-ready; part of the
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

    def probe_models(self) -> Dialogue[str]:
        """Probe the models with plain cases, and return a complaint; empty if they pass."""
        return without_asking("")

    def faults(self, state: StateT) -> tuple[str, ...]:
        """Return the faults of the environment's own models, each once."""
        del state
        return ()

    def describe(self, state: StateT) -> Record:
        """Return further fields for the record of an ended episode, JSON-ready; hidden from
        policies and judges.
        """
        del state
        return {}


AnyEnvironment = Environment[Any, Any]


def ended(state: StateT, reason: str, by: str = "environment", evidence: str = "") -> StateT:
    """Return a state whose episode has ended."""
    return replace(state, end=End(reason, by, state.turn_index, evidence))
