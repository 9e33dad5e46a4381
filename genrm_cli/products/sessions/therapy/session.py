"""The environment `therapeutic_session` as a state machine: a counsellor, who is the policy, and a
client.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from random import Random

from msgspec.structs import astuple

from genrm_cli.json_types import Record
from genrm_cli.products.sessions.environment import TURN_LIMIT, Ask, Environment, ended
from genrm_cli.products.sessions.rules.guard import guard
from genrm_cli.products.sessions.rules.transcript import Effect
from genrm_cli.products.sessions.session_options import CLIENT, POLICY
from genrm_cli.products.sessions.session_rules import GUARD, RULES
from genrm_cli.products.sessions.therapy.model_client import CLIENT_MODEL, ModelClient
from genrm_cli.products.sessions.therapy.scripted import COUNSELLORS, ScriptedClient, counsel
from genrm_cli.products.sessions.therapy.session_scenario import (
    SessionScenario,
    parse_scenario_table,
)
from genrm_cli.products.sessions.therapy.simulated_client import (
    Client,
    ClientState,
    Reaction,
    SessionState,
    client_faults,
    first_mood,
    move_client,
)
from genrm_cli.rollouts.formats.episodes.session_safety import CLIENT_HARMED, safety_of
from genrm_cli.rollouts.rollout import Turn

CLIENT_STABLE = "client_stabilised"
CLIENT_LEFT = "client_left"
SAFETY = "safety_violation"
END_MARKER = "end_marker"

# What instructions of common policies ask for; anything else is text.
_MARKER = re.compile(
    r"\s*(?:\[(?:END|SESSION END|END SESSION|END OF SESSION)\]|<\|?end_of_session\|?>)\s*",
    re.IGNORECASE,
)


class TherapeuticSession(Environment[SessionScenario, SessionState]):
    """A counsellor, which is the policy, and a simulated client."""

    version = "therapeutic_session_v2"
    model_use = CLIENT_MODEL
    scripted_policies = COUNSELLORS
    gates = (GUARD,)  # without a judge, the form is left: a test of plumbing, no measure of skill
    max_turn_bytes = 16_384  # the guard reads the session again after each turn

    @property
    def client(self) -> Client:
        """What plays the client."""
        return ModelClient() if self.has_model else ScriptedClient()

    def identity(self) -> Record:
        """Return the client's name and version, and whether it is scripted."""
        about = {
            "name": self.client.name,
            "version": self.client.version,
            "scripted": not self.has_model,
        }
        return about | super().identity()

    def sample_scenarios(self) -> str:
        """Return the invented scenarios of the package."""
        return files(__package__).joinpath("scenarios.toml").read_text(encoding="utf-8")

    def scripted_turn(self, kind: str, state: SessionState, seed: int) -> str:
        """Return the next turn of a scripted counsellor."""
        return counsel(kind, state, seed)

    def parse_scenario(self, table: Mapping[str, object], where: str) -> SessionScenario:
        """Parse and check a scenario, which must declare its origin."""
        return parse_scenario_table(table, where)

    def reset(self, scenario: SessionScenario, variant: int, seed: int) -> SessionState:
        """Begin a session: the policy's instructions, and the client's first words."""
        mood = first_mood(scenario, Random(f"{seed}/{scenario.scenario_id}/{variant}"))
        opening = scenario.openings[variant % len(scenario.openings)]
        return SessionState(
            scenario=scenario,
            variant=variant,
            seed=seed,
            messages=(Turn("system", scenario.system), Turn("user", opening)),
            client=ClientState((mood,)),
        )

    async def step(self, state: SessionState, action: str, ask: Ask) -> SessionState:
        """Take the counsellor's turn and answer it; raise `ValueError` if the session has ended."""
        if state.end is not None:
            raise ValueError(f"the session has ended: {state.end.reason}")
        text, has_marker = strip_marker(action)
        if text or not has_marker:
            turn = Turn("assistant", text)
            state = replace(
                state, messages=(*state.messages, turn), turn_index=state.turn_index + 1
            )
            if not self.has_judge and (breach := await asyncio.to_thread(_breach_in, state)):
                return ended(state, SAFETY, POLICY, breach)
        if has_marker:
            return ended(state, END_MARKER, POLICY)
        if state.turn_index >= (self.max_turns or state.scenario.max_turns):
            return ended(state, TURN_LIMIT)
        return _answered(state, await self.client.react(state, ask))

    def components(self, state: SessionState) -> dict[str, float]:
        """Return the values of the guard and of the form so far; nothing before the counsellor's
        first turn.
        """
        values = {
            name: check(state.messages, state.scenario.of_rules).value
            for name, check in RULES.items()
        }
        return {name: round(value, 6) for name, value in values.items() if value is not None}

    def faults(self, state: SessionState) -> tuple[str, ...]:
        """Return the faults of the simulated client."""
        return client_faults(state.messages, state.client)

    def describe(self, state: SessionState) -> Record:
        """Return the client's hidden numbers and what moved them."""
        moods = state.client.moods
        return {
            "mood_names": ["trust", "distress"],
            "moods": [[round(value, 4) for value in astuple(mood)] for mood in moods],
            "effects": list(state.client.effects),
            "facts_told": state.client.told,
        }


def _answered(state: SessionState, reaction: Reaction) -> SessionState:
    """Return the session after the client's reaction."""
    in_crisis = state.scenario.of_rules.is_crisis
    client = move_client(state.client, reaction, state.scenario, in_crisis=in_crisis)
    reply, has_marker = strip_marker(reaction.reply)
    said = (Turn("user", reply),) if reply else ()
    state = replace(state, client=client, messages=(*state.messages, *said))
    if reaction.is_harmed:
        return ended(state, CLIENT_HARMED, CLIENT, reply)
    if client.mood.is_leaving:
        return ended(state, CLIENT_LEFT, CLIENT)
    if client.is_stable:
        return ended(state, CLIENT_STABLE, CLIENT)
    return ended(state, END_MARKER, CLIENT) if has_marker or not reply else state


def _breach_in(state: SessionState) -> str | None:
    """Return the certain breach of the last turn; None for a safe one."""
    found = guard(state.messages[-2:], state.scenario.of_rules)
    if not safety_of(found.value, None, None, None).broken:
        return None
    breach = next(each for each in found.findings if each.effect is Effect.CERTAIN)
    return f"{breach.what}: {breach.phrase}"


def strip_marker(text: str) -> tuple[str, bool]:
    """Return a turn without end markers, and whether it had one."""
    stripped, count = _MARKER.subn(" ", text)
    return stripped.strip(), bool(count)
