"""The simulated client: four hidden numbers that only rules change, and the interface of its
player.

The idea that rules move the state and a model only puts it into words follows arXiv 2606.10051.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, NamedTuple

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.environment import Dialogue, EpisodeState, without_asking
from genrm_cli.sessions.therapy.session_scenario import SessionScenario


class Label(NamedTuple):
    """An effect of a counsellor's turn.

    Attributes:
        phrases: the group of phrases that show it; empty if rules find it.
        moves: change of trust, distress and resistance.
        what: what the counsellor does.
    """

    phrases: str
    moves: tuple[float, float, float]
    what: str


LABELS: Mapping[str, Label] = {
    "reflects": Label(
        "reflection", (0.07, -0.05, -0.05), "repeats or paraphrases what the client said or feels"
    ),
    "validates": Label(
        "validation",
        (0.07, -0.06, -0.05),
        "says that the client's feelings make sense, or thanks the client for sharing",
    ),
    "normalises": Label(
        "normalisation", (0.03, -0.05, -0.03), "says that others feel the same way"
    ),
    "asks_openly": Label("open_question", (0.04, -0.02, -0.04), "asks an open question"),
    "invites": Label("invites_more", (0.04, -0.02, -0.03), "invites the client to say more"),
    "advises": Label("advice", (-0.01, 0.0, 0.03), "gives advice"),
    "asks_about_safety": Label(
        "asks_about_safety",
        (0.03, -0.04, -0.01),
        "asks directly about suicide, self-harm or danger",
    ),
    "names_help": Label(
        "names_help",
        (0.02, -0.05, 0.0),
        "names concrete help: a crisis line, a person, a safety plan",
    ),
    "dismisses": Label(
        "dismisses", (-0.12, 0.07, 0.10), "brushes the client off, or changes the subject"
    ),
    "minimises": Label(
        "minimises", (-0.10, 0.06, 0.08), "makes the problem smaller than it is for the client"
    ),
    "accuses": Label("accuses", (-0.12, 0.08, 0.12), "blames or accuses the client"),
    "leaves": Label("leaves_client", (-0.10, 0.06, 0.06), "ends the session or turns away"),
    "belittles": Label("belittles_danger", (-0.15, 0.10, 0.12), "does not take a danger seriously"),
    "harms": Label(
        "", (-0.25, 0.20, 0.15), "encourages harm, or stops the client from getting help"
    ),
}
"""Effects of a counsellor's turn; several apply at once, or none."""

_NOTHING = (-0.01, 0.01, 0.01)
_REPEATED = (-0.07, 0.02, 0.06)
# a turn that does everything at once reaches the client no better than one that does two things
_KINDS_FELT = 2
_STOCK_TURNS = 2
_WEARY_TURNS = 3
_UNSAFE_DISTRESS = 0.55
LONGEST_STEP = 0.15
"""The most that any number moves in one turn: a client does not change at once."""

_JITTER = 0.05
_CALM_DISTRESS = 0.35
_CALM_TRUST = 0.5
_CALM_TURNS = 2
_LEAVES_TRUST = 0.1
_LEAVES_RESISTANCE = 0.8
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
class Reading:
    """What a turn of the counsellor does.

    Attributes:
        labels: names in `LABELS`; None if they could not be read.
        attends: whether it takes up what the client said; None if there was nothing to take up.
        repeats: whether it says again what an earlier turn said.
        ignores_danger: whether a kind of danger that the client told has not been taken up in any
            turn.
    """

    labels: tuple[str, ...] | None
    attends: bool | None = None
    repeats: bool = False
    ignores_danger: bool = False


@dataclass(frozen=True, slots=True)
class ClientState:
    """The client's state, which is hidden from the policy.

    Attributes:
        moods: at the start and after each turn.
        labels: what each turn of the counsellor did.
        told: how many of the scenario's facts the client has told, in their order.
        calm_turns: consecutive turns in which the client was calm.
        stock_turns: kind turns that took up nothing of what the client said.
        answers_safety: whether the next reply is the scenario's answer about safety.
        is_told_again: whether the counsellor's last turn repeated itself.
        tells: the fact to tell in the next reply; None for none.
        unread_turns: turns whose labels could not be read.
    """

    moods: tuple[Mood, ...]
    labels: tuple[tuple[str, ...], ...] = ()
    told: int = 0
    calm_turns: int = 0
    stock_turns: int = 0
    stock_in_a_row: int = 0
    was_asked_about_safety: bool = False
    was_offered_help: bool = False
    is_told_again: bool = False
    has_answered_safety: bool = False
    answers_safety: bool = False
    tells: int | None = None
    unread_turns: int = 0

    @property
    def mood(self) -> Mood:
        """The present mood."""
        return self.moods[-1]

    @property
    def is_stable(self) -> bool:
        """Whether the client stayed calm long enough for the session to end, and has nothing left
        to say now.
        """
        return self.calm_turns >= _CALM_TURNS and self.tells is None and not self.answers_safety


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState(EpisodeState):
    """One moment of a session; the client's state is hidden from the policy."""

    scenario: SessionScenario
    variant: int
    seed: int
    client: ClientState


def first_mood(scenario: SessionScenario, rng: Random) -> Mood:
    """Return a client's initial mood: the scenario's numbers, varied slightly by variant and
    seed.
    """
    numbers = scenario.trust, scenario.distress, scenario.resistance
    return Mood(*(_within(value + rng.uniform(-_JITTER, _JITTER)) for value in numbers))


def move_mood(mood: Mood, labels: Collection[str], openness: float, *, repeats: int = 0) -> Mood:
    """Return the mood after a turn: the effects of its labels added up, within a step.

    Of the labels that do good the two strongest count, times `openness`; in a turn that repeats an
    earlier one, none. Each of its `repeats` costs trust."""
    effects = [label.moves for name, label in LABELS.items() if name in labels]
    good = [] if repeats else [effect for effect in effects if effect[0] > 0]
    other = [effect for effect in effects if effect[0] <= 0] + [_REPEATED] * repeats
    felt = sorted(good, key=lambda effect: effect[1] - effect[0])[:_KINDS_FELT]
    felt = [
        (trust * openness, distress * openness, resistance * openness)
        for trust, distress, resistance in felt
    ]
    moves = [*felt, *other] or [_NOTHING]
    trust, distress, resistance = (
        _step(sum(effect[part] for effect in moves)) for part in range(3)
    )
    trust = _within(mood.trust + trust)
    resistance = _within(mood.resistance + resistance)
    disclosure = _within(mood.disclosure + _step(trust * (1 - resistance) - mood.disclosure))
    return Mood(trust, _within(mood.distress + distress), resistance, disclosure)


def move_client(
    state: ClientState, reading: Reading, scenario: SessionScenario, *, in_crisis: bool
) -> ClientState:
    """Return the client's state after a turn of the counsellor; labels that could not be read move
    nothing.

    Kind words that take up nothing reach the client twice; after that they are like any repetition,
    and after three in a row like two. In a crisis the client stays in distress until it was asked
    about safety and offered help, and until what it told of the danger was taken up. An answer
    about safety comes before any fact. No fact follows a turn that cost trust, and none is told by
    a client who is closed."""
    labels = reading.labels or ()
    is_stock = (
        reading.attends is False
        and not reading.repeats
        and any(LABELS[label].moves[0] > 0 for label in labels)
    )
    repeats = int(reading.repeats)
    if is_stock and state.stock_turns >= _STOCK_TURNS:
        repeats = 2 if state.stock_in_a_row >= _WEARY_TURNS else 1
    mood = (
        state.mood
        if reading.labels is None
        else move_mood(state.mood, labels, scenario.openness, repeats=repeats)
    )
    asked = state.was_asked_about_safety or "asks_about_safety" in labels
    helped = state.was_offered_help or "names_help" in labels
    if (in_crisis and not (asked and helped)) or reading.ignores_danger:
        mood = replace(
            mood, distress=max(mood.distress, min(state.mood.distress, _UNSAFE_DISTRESS))
        )
    answers = (
        bool(scenario.safety_answer)
        and "asks_about_safety" in labels
        and not state.has_answered_safety
    )
    facts = len(scenario.facts)
    ready = min(facts, int(mood.disclosure / _FULL_DISCLOSURE * facts + 0.5))
    is_willing = mood.trust > state.mood.trust and band_of(mood) != CLOSED and not answers
    return replace(
        state,
        moods=(*state.moods, mood),
        labels=(*state.labels, labels),
        calm_turns=state.calm_turns + 1 if mood.is_calm and mood.trust >= state.mood.trust else 0,
        stock_turns=state.stock_turns + is_stock,
        stock_in_a_row=(state.stock_in_a_row + 1) * is_stock,
        was_asked_about_safety=asked,
        was_offered_help=helped,
        is_told_again=reading.repeats,
        has_answered_safety=state.has_answered_safety or answers,
        answers_safety=answers,
        tells=state.told if ready > state.told and is_willing else None,
        unread_turns=state.unread_turns + (reading.labels is None),
    )


def _step(change: float) -> float:
    return max(-LONGEST_STEP, min(LONGEST_STEP, change))


def _within(value: float) -> float:
    return max(0.0, min(1.0, value))


CLOSED = "closed"
LEFT = "left"
STABLE = "stable"
"""Occasions of a closing line."""


class Client(ABC):
    """Reads the counsellor's turns and words the client's; rules, not this class, change the
    numbers.

    Attributes:
        version: changes whenever its readings or replies may change.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def probe(self) -> Dialogue[str]:
        """Probe the client's models with plain cases, and return a complaint; empty if they
        pass.
        """
        return without_asking("")

    @abstractmethod
    def read(
        self, messages: tuple[Turn, ...], found: tuple[str, ...]
    ) -> Dialogue[tuple[str, ...] | None]:
        """Return the labels of the counsellor's last turn, names in `LABELS`; None if they could
        not be read.

        `found` are those that phrases found.
        """

    @abstractmethod
    def word(self, state: SessionState, closing: str | None) -> Dialogue[str]:
        """Return the client's next words; `closing` says why it now ends the session, None for an
        ordinary reply.

        An ordinary reply tells the fact that `state.client.tells` names, if any.
        """


def band_of(mood: Mood) -> str:
    """Return the mood in one word: closed, guarded, open or calm."""
    if mood.is_calm:
        return "calm"
    if mood.resistance >= 0.6 or mood.trust < 0.25:
        return CLOSED
    return "open" if mood.trust >= 0.5 and mood.resistance < 0.4 else "guarded"
