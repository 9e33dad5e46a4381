"""What the collecting loop knows of an environment: states, steps, and questions to models.

Environments are pure state machines. Where a step needs a model, for example to word a simulated client's reply, it
yields an `Ask` and goes on with the answer, so the same environment runs in a file job, in a server and in a test.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from genrm_cli.rollouts.rollout import Turn

TURN_LIMIT, CONTEXT_TOO_LONG = "turn_limit", "context_too_long"
POLICY_FAILED, CLIENT_FAILED, PRIVATE_DATA = "policy_failed", "client_failed", "private_data"
TRUNCATIONS = frozenset({TURN_LIMIT, CONTEXT_TOO_LONG})
"""Reasons that cut an episode off; all other reasons of an environment end it by itself."""

FAILURES = frozenset({POLICY_FAILED, CLIENT_FAILED, PRIVATE_DATA})
"""Reasons that leave no episode: a failed session is not an episode with a low reward."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of an environment to one of its models.

    Attributes:
        role: which model, a name of `Environment.models`.
        conversation: what it is shown, oldest turn first.
    """

    role: str
    conversation: tuple[Turn, ...]


Dialogue = Generator[Ask, str, T]
"""Yields questions, is sent the answers, and returns its result."""


def without_asking(value: T) -> Dialogue[T]:
    """Return a value as a dialogue that asks nothing."""
    return value
    yield  # makes it a generator


def run_dialogue(dialogue: Dialogue[T], answer: Callable[[Ask], str]) -> T:
    """Run a dialogue to its end and return its result; errors of `answer` end it."""
    try:
        ask = next(dialogue)
        while True:
            ask = dialogue.send(answer(ask))
    except StopIteration as ended:
        result: T = ended.value
        return result


async def run_dialogue_with(dialogue: Dialogue[T], answer: Callable[[Ask], Awaitable[str]]) -> T:
    """Run a dialogue to its end, waiting for each answer, and return its result; errors of `answer` end it."""
    try:
        ask = next(dialogue)
        while True:
            ask = dialogue.send(await answer(ask))
    except StopIteration as ended:
        result: T = ended.value
        return result


@dataclass(frozen=True, slots=True)
class End:
    """How an episode ended.

    Attributes:
        reason: a word, the same in records and summaries.
        by: `policy`, `client` or `environment`.
        turn: index of the policy's turn after which it ended, from 1; 0 before any.
        evidence: the words that ended it, if any.
    """

    reason: str
    by: str
    turn: int
    evidence: str = ""

    @property
    def truncated(self) -> bool:
        """Whether a limit cut the episode off."""
        return self.reason in TRUNCATIONS


class EpisodeState(Protocol):
    """One moment of an episode; a frozen value."""

    @property
    def messages(self) -> tuple[Turn, ...]:
        """The conversation as the policy sees it."""

    @property
    def turn_index(self) -> int:
        """How many turns the policy has had."""

    @property
    def end(self) -> End | None:
        """How the episode ended; None while it goes on."""


class EpisodeScenario(Protocol):
    """One scenario of an environment."""

    @property
    def scenario_id(self) -> str:
        """Its name, unique in a file."""

    @property
    def origin(self) -> str:
        """`synthetic` or `deidentified`; nothing else may be played."""

    def as_record(self) -> dict[str, object]:
        """Return what rollout records say of it, JSON-ready."""


StateT = TypeVar("StateT", bound=EpisodeState)
ScenarioT = TypeVar("ScenarioT", bound=EpisodeScenario)


class Environment(Protocol[ScenarioT, StateT]):
    """A kind of episodes. All methods are pure; a dialogue decides everything by its arguments and its answers."""

    @property
    def name(self) -> str:
        """Its name, and the folder of its rollouts."""

    @property
    def version(self) -> str:
        """Changes whenever the same answers would give another episode."""

    @property
    def identity(self) -> Mapping[str, object]:
        """What else decides its episodes, JSON-ready: who plays the environment's part, and its limits."""

    @property
    def models(self) -> Mapping[str, str]:
        """The roles that it asks, each with what they do; empty if it needs no model."""

    def parse_scenarios(self, tables: Sequence[Mapping[str, object]], where: str) -> list[ScenarioT]:
        """Parse and check the scenarios of a file, or raise `InputError`."""

    def probe_models(self) -> Dialogue[str]:
        """Ask the models about plain cases, and return why they cannot play their part; empty if they can."""

    def reset(self, scenario: ScenarioT, variant: int, seed: int) -> Dialogue[StateT]:
        """Begin an episode; equal arguments begin equal episodes."""

    def step(self, state: StateT, action: str) -> Dialogue[StateT]:
        """Take the policy's next turn, and answer it."""

    def cut(self, state: StateT, reason: str) -> StateT:
        """End an episode from outside."""

    def components(self, state: StateT) -> dict[str, float]:
        """Return the parts of the reward so far, each from 0 to 1; without those that do not apply."""

    def total(self, components: Mapping[str, float]) -> float | None:
        """Return the reward that the components add up to; None without any."""

    def faults(self, state: StateT) -> tuple[str, ...]:
        """Return what the environment's own models did wrong, each named once."""

    def describe(self, state: StateT) -> dict[str, object]:
        """Return what else records say of an ended episode, JSON-ready; no policy or judge sees it."""

    def render_state(self, state: StateT) -> dict[str, object]:
        """Return a state as versioned JSON."""

    def parse_state(self, given: Mapping[str, object]) -> StateT:
        """Parse what `render_state` returned, or raise `ValueError`."""


def first_repeated_scenario(scenarios: Iterable[EpisodeScenario]) -> str | None:
    """Return the first scenario id that occurs twice; None if all differ."""
    seen: set[str] = set()
    for scenario in scenarios:
        if scenario.scenario_id in seen:
            return scenario.scenario_id
        seen.add(scenario.scenario_id)
    return None
