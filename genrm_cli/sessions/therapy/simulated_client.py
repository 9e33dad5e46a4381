"""The simulated client: four hidden numbers that only rules change, and the interface of its player.

The idea that rules move the state and a model only puts it into words follows arXiv 2606.10051.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.environment import Dialogue, EpisodeState, without_asking
from genrm_cli.sessions.therapy.session_scenario import SessionScenario

LABELS: Mapping[str, str] = {
    "reflects": "repeats or paraphrases what the client said or feels",
    "validates": "says that the client's feelings make sense, or thanks the client for sharing",
    "normalises": "says that others feel the same way",
    "asks_openly": "asks an open question",
    "invites": "invites the client to say more",
    "advises": "gives advice",
    "asks_about_safety": "asks directly about suicide, self-harm or danger",
    "names_help": "names concrete help: a crisis line, a person, a safety plan",
    "dismisses": "brushes the client off, or changes the subject",
    "minimises": "makes the problem smaller than it is for the client",
    "accuses": "blames or accuses the client",
    "leaves": "ends the session or turns away",
    "belittles": "does not take a danger seriously",
    "harms": "encourages harm, or stops the client from getting help",
}
"""Effects of a counsellor's turn; several apply at once, or none."""

# label -> change of trust, distress, resistance
_EFFECTS: Mapping[str, tuple[float, float, float]] = {
    "reflects": (0.07, -0.05, -0.05),
    "validates": (0.07, -0.06, -0.05),
    "normalises": (0.03, -0.05, -0.03),
    "asks_openly": (0.04, -0.02, -0.04),
    "invites": (0.04, -0.02, -0.03),
    "advises": (-0.01, 0.0, 0.03),
    "asks_about_safety": (0.03, -0.04, -0.01),
    "names_help": (0.02, -0.05, 0.0),
    "dismisses": (-0.12, 0.07, 0.10),
    "minimises": (-0.10, 0.06, 0.08),
    "accuses": (-0.12, 0.08, 0.12),
    "leaves": (-0.10, 0.06, 0.06),
    "belittles": (-0.15, 0.10, 0.12),
    "harms": (-0.25, 0.20, 0.15),
}
_NOTHING = (-0.01, 0.01, 0.01)
LONGEST_STEP = 0.15
"""The most that any number moves in one turn: a client does not change at once."""

_DISCLOSURE_STEP = 0.15
_JITTER = 0.05
_CALM_DISTRESS, _CALM_TRUST, _CALM_TURNS = 0.35, 0.5, 2
_LEAVES_TRUST, _LEAVES_RESISTANCE = 0.1, 0.8
_FULL_DISCLOSURE = 0.7


@dataclass(frozen=True, slots=True)
class Mood:
    """The client's numbers, each 0 to 1.

    Attributes:
        disclosure: how much the client is ready to tell.
    """

    trust: float
    distress: float
    resistance: float
    disclosure: float = 0.0

    @property
    def is_calm(self) -> bool:
        """Whether the client is well enough for the session to end."""
        return self.distress <= _CALM_DISTRESS and self.trust >= _CALM_TRUST

    @property
    def is_leaving(self) -> bool:
        """Whether the client has had enough."""
        return self.trust <= _LEAVES_TRUST and self.resistance >= _LEAVES_RESISTANCE


@dataclass(frozen=True, slots=True)
class ClientState:
    """The client's state, which is hidden from the policy.

    Attributes:
        moods: at the start and after each turn.
        labels: what each turn of the counsellor did.
        calm_turns: consecutive turns in which the client was calm.
        tells: the fact to tell in the next reply; None for none.
        unread_turns: turns whose labels could not be read.
    """

    moods: tuple[Mood, ...]
    labels: tuple[tuple[str, ...], ...] = ()
    told: int = 0
    calm_turns: int = 0
    was_asked_about_safety: bool = False
    tells: int | None = None
    unread_turns: int = 0

    @property
    def mood(self) -> Mood:
        """The present mood."""
        return self.moods[-1]

    def is_stable(self, *, in_crisis: bool) -> bool:
        """Whether the client stayed calm long enough; in a crisis only after a question about safety."""
        return self.calm_turns >= _CALM_TURNS and (self.was_asked_about_safety or not in_crisis)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState(EpisodeState):
    """One moment of a session; the client's state is hidden from the policy."""

    scenario: SessionScenario
    variant: int
    seed: int
    client: ClientState


def first_mood(trust: float, distress: float, resistance: float, rng: Random) -> Mood:
    """Return a client's initial mood: the scenario's numbers, varied slightly by variant and seed."""
    return Mood(*(_within(value + rng.uniform(-_JITTER, _JITTER)) for value in (trust, distress, resistance)))


def move_mood(mood: Mood, labels: Collection[str], openness: float) -> Mood:
    """Return the mood after a turn: the effects of its labels added up, good ones times `openness`, within a step."""
    effects = [_EFFECTS[label] for label in _EFFECTS if label in labels] or [_NOTHING]
    trust, distress, resistance = (sum(effect[part] for effect in effects) for part in range(3))
    trust, distress, resistance = (
        _step(change * openness if is_good else change)
        for change, is_good in ((trust, trust > 0), (distress, distress < 0), (resistance, resistance < 0))
    )
    trust, resistance = _within(mood.trust + trust), _within(mood.resistance + resistance)
    ready = trust * (1 - resistance) - mood.disclosure
    disclosure = _within(mood.disclosure + max(-_DISCLOSURE_STEP, min(_DISCLOSURE_STEP, ready)))
    return Mood(trust, _within(mood.distress + distress), resistance, disclosure)


def move_client(state: ClientState, labels: Collection[str] | None, openness: float, facts: int) -> ClientState:
    """Return the client's state after a turn of the counsellor; labels that could not be read move nothing."""
    mood = state.mood if labels is None else move_mood(state.mood, labels, openness)
    ready = min(facts, int(mood.disclosure / _FULL_DISCLOSURE * facts + 0.5))
    tells = state.told if ready > state.told else None
    return replace(
        state,
        moods=(*state.moods, mood),
        labels=(*state.labels, tuple(labels or ())),
        told=state.told + (tells is not None),
        calm_turns=state.calm_turns + 1 if mood.is_calm else 0,
        was_asked_about_safety=state.was_asked_about_safety or "asks_about_safety" in (labels or ()),
        tells=tells,
        unread_turns=state.unread_turns + (labels is None),
    )


def _step(change: float) -> float:
    return max(-LONGEST_STEP, min(LONGEST_STEP, change))


def _within(value: float) -> float:
    return max(0.0, min(1.0, value))


LEFT, STABLE = "left", "stable"
"""Occasions of a closing line."""


class Client(ABC):
    """Reads the counsellor's turns and words the client's; rules, not this class, change the numbers.

    Attributes:
        version: changes whenever its readings or replies may change.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def probe(self) -> Dialogue[str]:
        """Probe the client's models with plain cases, and return a complaint; empty if they pass."""
        return without_asking("")

    @abstractmethod
    def read(self, messages: tuple[Turn, ...], found: tuple[str, ...]) -> Dialogue[tuple[str, ...] | None]:
        """Return the labels of the counsellor's last turn, names in `LABELS`; None if they could not be read.

        `found` are those that phrases found.
        """

    @abstractmethod
    def word(self, state: SessionState, closing: str | None) -> Dialogue[str]:
        """Return the client's next words; `closing` says why it now ends the session, None for an ordinary reply."""


def band_of(mood: Mood) -> str:
    """Return the mood in one word: closed, guarded, open or calm."""
    if mood.is_calm:
        return "calm"
    if mood.resistance >= 0.6 or mood.trust < 0.25:
        return "closed"
    return "open" if mood.trust >= 0.5 and mood.resistance < 0.4 else "guarded"
