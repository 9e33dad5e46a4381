"""A second environment, as small as one can be: guess a number; it proves that the loop knows no therapy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from genrm_cli.rollouts.rollout import Turn
from genrm_cli.sessions.environment import TURN_LIMIT, Ask, Dialogue, End, without_asking

HINTER = "hinter"


@dataclass(frozen=True)
class Secret:
    """A number to guess."""

    scenario_id: str
    number: int
    origin: str = "synthetic"

    def as_record(self) -> dict[str, object]:
        """Return what may be known."""
        return {"scenario_id": self.scenario_id}


@dataclass(frozen=True)
class Guesses:
    """A game in progress."""

    secret: Secret
    messages: tuple[Turn, ...]
    turn_index: int = 0
    end: End | None = None


@dataclass(frozen=True)
class GuessingGame:
    """Says higher or lower; with `asks` a model words the hint."""

    asks: bool = False
    name: str = "guessing_game"
    version: str = "guessing_game_v1"
    most_turns: int = 5

    @property
    def identity(self) -> Mapping[str, object]:
        """Nothing but the limit."""
        return {"name": self.name, "most_turns": self.most_turns}

    @property
    def models(self) -> Mapping[str, str]:
        """One model, or none."""
        return {HINTER: "words the hints"} if self.asks else {}

    def parse_scenarios(self, tables: Sequence[Mapping[str, object]], where: str) -> list[Secret]:
        """Take the tables as they are."""
        del where
        return [Secret(str(table["scenario_id"]), int(str(table["number"]))) for table in tables]

    def probe_models(self) -> Dialogue[str]:
        """Any model will do."""
        return without_asking("")

    def reset(self, scenario: Secret, variant: int, seed: int) -> Dialogue[Guesses]:
        """Begin a game; variants and seeds are all alike."""
        del variant, seed
        return without_asking(Guesses(scenario, (Turn("user", "Guess a number from 1 to 9."),)))

    def step(self, state: Guesses, action: str) -> Dialogue[Guesses]:
        """Compare a guess with the number."""
        guess = int("".join(filter(str.isdigit, action)) or "0")
        state = replace(state, messages=(*state.messages, Turn("assistant", action)), turn_index=state.turn_index + 1)
        if guess == state.secret.number:
            return replace(state, end=End("solved", "policy", state.turn_index))
        if state.turn_index == self.most_turns:
            return self.cut(state, TURN_LIMIT)
        hint = "Higher." if guess < state.secret.number else "Lower."
        if self.asks:
            hint = yield Ask(HINTER, (Turn("user", hint),))
        return replace(state, messages=(*state.messages, Turn("user", hint)))

    def cut(self, state: Guesses, reason: str) -> Guesses:
        """End a game from outside."""
        return replace(state, end=End(reason, "environment", state.turn_index))

    def components(self, state: Guesses) -> dict[str, float]:
        """Return 1 for a solved game."""
        return {"solved": float(state.end is not None and state.end.reason == "solved")}

    def total(self, components: Mapping[str, float]) -> float | None:
        """Return the only component."""
        return components["solved"]

    def faults(self, state: Guesses) -> tuple[str, ...]:
        """Find none."""
        del state
        return ()

    def describe(self, state: Guesses) -> dict[str, object]:
        """Tell the number."""
        return {"number": state.secret.number}

    def render_state(self, state: Guesses) -> dict[str, object]:
        """Keep what decides the rest of a game."""
        return {"id": state.secret.scenario_id, "number": state.secret.number, "turn_index": state.turn_index}

    def parse_state(self, given: Mapping[str, object]) -> Guesses:
        """Restore a game without its words."""
        return Guesses(Secret(str(given["id"]), int(str(given["number"]))), (), int(str(given["turn_index"])))
