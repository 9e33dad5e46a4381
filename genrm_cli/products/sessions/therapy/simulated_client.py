"""The simulated client: two hidden numbers that only rules change, and the interface of its player.

A client's player says what a turn of the counsellor does to the client and words the reply; the
rules bound each step, decide when a fact may be told, and when the session may end. The client
plays; it judges nothing: no reward depends on its numbers.
Source: arXiv 2606.10051, for the idea that rules move the state and a model words it."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.products.sessions.environment import Ask, EpisodeState
from genrm_cli.products.sessions.rules.transcript import CLIENT
from genrm_cli.products.sessions.therapy.session_scenario import SessionScenario
from genrm_cli.rollouts.rollout import Turn

_STEP = 0.1  # a client moves over several turns, not at once
_SETBACK = 1.5  # trust is lost faster than it grows
_JITTER = 0.05  # variants of a client differ, and stay the same person
# Half of the usual distress at the start, and more than the usual trust (0.7 and 0.35).
_CALM_DISTRESS = 0.35
_CALM_TRUST = 0.5
_CALM_TURNS = 2  # one kind turn is no recovery
_LEAVES_TRUST = 0.1  # two hurts away from the usual trust
_FULL_TRUST = 0.7  # from here on, the client is ready to tell everything
_UNSAFE_DISTRESS = 0.55  # above calm: a crisis does not end before it is safe

# Crude faults of a client.
_FEWEST_PAIRS = 3  # people do say "yes" twice
_TIMES = 3  # a model caught in a loop
_ALIKE = 0.85  # of the pairs of words: the same sentence with a word changed
_WORD = re.compile(r"[\w']+")
_SENTENCE_END = re.compile(r"[.!?\n]")
# Models slip into the part of the helper, and out of the fiction.
_THERAPIST = re.compile(
    r"^\W*(?:therapist|counsell?or|assistant)\s*:"
    r"|\bas your (?:therapist|counsell?or)\b|\bas an ai\b|\bhow does that make you feel\b"
    r"|\b(?:it sounds like|i hear that) you(?:'re| are| feel| have)\b"
    r"|\bi(?:'d| would) (?:encourage|invite|suggest) you\b|\blet(?:'s| us) work on your\b"
    r"|\bwould you like to (?:tell me|share|explore|talk about)\b|\bmy clients?\b"
    r"|\bpractice session\b|\bfictional client\b",
    re.IGNORECASE,
)


class Mood(Struct, frozen=True):
    """The client's numbers, each 0 to 1."""

    trust: float
    distress: float

    @property
    def is_calm(self) -> bool:
        """Whether the client is well enough for the session to end."""
        return self.distress <= _CALM_DISTRESS and self.trust >= _CALM_TRUST

    @property
    def is_leaving(self) -> bool:
        """Whether the client has had enough."""
        return self.trust <= _LEAVES_TRUST


class Reaction(Struct, frozen=True):
    """The client's reaction to a turn of the counsellor.

    Attributes:
        reply: the client's words; empty if it ends the session in silence.
        effect: from -1 (hurt) through 0 (untouched) to 1 (reached).
        is_harmed: whether the turn does harm; the session then ends with the reply.
        tells: whether the reply tells the next fact.
        is_read: whether the reaction could be read from the model's reply.
    """

    reply: str
    effect: float = 0.0
    is_harmed: bool = False
    tells: bool = False
    asked_about_safety: bool = False
    was_offered_help: bool = False
    is_read: bool = True


class ClientState(Struct, frozen=True):
    """The client's state, which is hidden from the policy.

    Attributes:
        moods: at the start and after each turn.
        told: how many of the scenario's facts the client has told, in their order.
        calm_turns: consecutive turns in which the client was calm.
        unread_turns: turns whose reaction could not be read.
    """

    moods: tuple[Mood, ...]
    effects: tuple[float, ...] = ()
    told: int = 0
    calm_turns: int = 0
    was_asked_about_safety: bool = False
    was_offered_help: bool = False
    unread_turns: int = 0

    @property
    def mood(self) -> Mood:
        """The present mood."""
        return self.moods[-1]

    @property
    def is_stable(self) -> bool:
        """Whether the client stayed calm long enough for the session to end."""
        return self.calm_turns >= _CALM_TURNS

    @property
    def is_safe(self) -> bool:
        """Whether the client was asked about safety and offered help."""
        return self.was_asked_about_safety and self.was_offered_help


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState(EpisodeState):
    """One moment of a session; the client's state is hidden from the policy."""

    scenario: SessionScenario
    variant: int
    seed: int
    client: ClientState

    @property
    def next_fact(self) -> str | None:
        """The next fact that the client is ready to tell; None if it is not, or has told all."""
        facts = self.scenario.facts
        told = self.client.told
        ready = round(self.client.mood.trust / _FULL_TRUST * len(facts))
        return facts[told] if told < min(ready, len(facts)) else None


def first_mood(scenario: SessionScenario, rng: Random) -> Mood:
    """Return a client's initial mood: the scenario's numbers, varied by variant and seed."""
    trust = scenario.trust + rng.uniform(-_JITTER, _JITTER)
    distress = scenario.distress + rng.uniform(-_JITTER, _JITTER)
    return Mood(_within(trust), _within(distress))


def move_client(
    state: ClientState, reaction: Reaction, scenario: SessionScenario, *, in_crisis: bool
) -> ClientState:
    """Return the client's state after its reaction; one that could not be read moves nothing.

    In a crisis, distress stays high until the client was asked about safety and offered help.
    """
    effect = max(-1.0, min(1.0, reaction.effect)) if reaction.is_read else 0.0
    step = _STEP * (effect * scenario.openness if effect > 0 else effect * _SETBACK)
    state = replace(
        state,
        was_asked_about_safety=state.was_asked_about_safety or reaction.asked_about_safety,
        was_offered_help=state.was_offered_help or reaction.was_offered_help,
    )
    distress = _within(state.mood.distress - step)
    if in_crisis and not state.is_safe:
        distress = max(distress, min(state.mood.distress, _UNSAFE_DISTRESS))
    mood = Mood(_within(state.mood.trust + step), distress)
    return replace(
        state,
        moods=(*state.moods, mood),
        effects=(*state.effects, effect),
        told=state.told + reaction.tells,
        calm_turns=state.calm_turns + 1 if mood.is_calm else 0,
        unread_turns=state.unread_turns + (not reaction.is_read),
    )


def _within(value: float) -> float:
    return max(0.0, min(1.0, value))


def client_faults(messages: Sequence[Turn], state: ClientState) -> tuple[str, ...]:
    """Return the names of the client's faults in a session, each once."""
    said = [turn.text for turn in messages if turn.role == CLIENT]
    faults = {
        "repeats_itself": _repeats(said),
        "speaks_as_therapist": any(_THERAPIST.search(text) for text in said),
        "unread": state.unread_turns > 0,
    }
    return tuple(name for name, is_found in faults.items() if is_found)


def _repeats(said: Sequence[str]) -> bool:
    """Whether a reply has nearly the same pairs of words as an earlier one, or repeats a
    sentence.
    """
    seen: list[frozenset[tuple[str, str]]] = []
    for text in said:
        pairs = frozenset(pairwise(_WORD.findall(text.lower())))
        if len(pairs) < _FEWEST_PAIRS:
            continue
        sentences = Counter(
            " ".join(_WORD.findall(sentence)) for sentence in _SENTENCE_END.split(text.lower())
        )
        if any(count >= _TIMES and " " in sentence for sentence, count in sentences.items()):
            return True
        if any(len(pairs & other) > _ALIKE * len(pairs | other) for other in seen):
            return True
        seen.append(pairs)
    return False


class Client(ABC):
    """Plays the client.

    Attributes:
        version: changes whenever its reactions may change.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    @abstractmethod
    async def react(self, state: SessionState, ask: Ask) -> Reaction:
        """Return the reaction to the counsellor's last turn, the last message of the state."""
