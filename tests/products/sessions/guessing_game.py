"""A second environment, as small as one can be: guess a number; it proves that collection knows no
therapy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from genrm_cli.json_types import Record
from genrm_cli.products.sessions.environment import (
    TURN_LIMIT,
    Ask,
    Environment,
    EpisodeScenario,
    EpisodeState,
    ModelUse,
    ended,
)
from genrm_cli.rollouts.rollout import Turn

MOST_TURNS = 5


@dataclass(frozen=True, kw_only=True)
class Secret(EpisodeScenario):
    """A number to guess."""

    number: int


@dataclass(frozen=True, kw_only=True)
class Guesses(EpisodeState):
    """A game in progress."""

    secret: Secret


class GuessingGame(Environment[Secret, Guesses]):
    """Says higher or lower; a model may word the hint."""

    version = "guessing_game_v1"
    model_use: ClassVar = ModelUse()
    scripted_policies = ("bisect", "stuck")

    def parse_scenario(self, table: Mapping[str, object], where: str) -> Secret:
        """Take a table as it is."""
        del where
        return Secret(scenario_id=str(table["scenario_id"]), number=int(str(table["number"])))

    def sample_scenarios(self) -> str:
        """Return two games."""
        return 'scenario = [{scenario_id = "seven", number = 7}, {scenario_id = "two", number = 2}]'

    def reset(self, scenario: Secret, variant: int, seed: int) -> Guesses:
        """Begin a game; variants and seeds are all alike."""
        del variant, seed
        return Guesses(secret=scenario, messages=(Turn("user", "Guess a number from 1 to 9."),))

    async def step(self, state: Guesses, action: str, ask: Ask) -> Guesses:
        """Compare a guess with the number."""
        guess = int("".join(filter(str.isdigit, action)) or "0")
        state = replace(
            state,
            messages=(*state.messages, Turn("assistant", action)),
            turn_index=state.turn_index + 1,
        )
        if guess == state.secret.number:
            return ended(state, "solved", "policy")
        if state.turn_index == MOST_TURNS:
            return ended(state, TURN_LIMIT)
        hint = "Higher." if guess < state.secret.number else "Lower."
        if self.has_model:
            hint = await ask((Turn("user", hint),))
        return replace(state, messages=(*state.messages, Turn("user", hint)))

    def components(self, state: Guesses) -> dict[str, float]:
        """Return 1 for a solved game."""
        return {"solved": float(state.end is not None and state.end.reason == "solved")}

    def scripted_turn(self, kind: str, state: Guesses, seed: int) -> str:
        """Guess as well as one can, or always 1; later episodes of a group begin elsewhere."""
        low = 1
        high = 9
        for guess, hint in zip(state.messages[1::2], state.messages[2::2], strict=False):
            low, high = (
                (int(guess.text) + 1, high)
                if hint.text == "Higher."
                else (low, int(guess.text) - 1)
            )
        return "1" if kind == "stuck" else str(min(high, max(low, (low + high) // 2 + seed % 2)))

    def describe(self, state: Guesses) -> Record:
        """Tell the number."""
        return {"number": state.secret.number}
