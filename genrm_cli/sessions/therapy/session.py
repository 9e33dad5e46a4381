"""The environment `therapeutic_session` as a state machine: a counsellor, who is the policy, and a
client.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from functools import cache, lru_cache
from importlib.resources import files
from random import Random

from genrm_cli.json_types import Record
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.scenario import Scenario, parse_scenario
from genrm_cli.sessions.environment import (
    TURN_LIMIT,
    Dialogue,
    Environment,
    ended,
    without_asking,
)
from genrm_cli.sessions.rules.findings import Effect, Finding
from genrm_cli.sessions.rules.guard import iter_breaches, kinds_of
from genrm_cli.sessions.rules.transcript import parse_session
from genrm_cli.sessions.session_rules import FORM, GUARD, check_form, check_guard
from genrm_cli.sessions.therapy.model_client import CLIENT_MODELS, ModelClient
from genrm_cli.sessions.therapy.screening import client_faults
from genrm_cli.sessions.therapy.scripted import (
    COUNSELLORS,
    ClientWords,
    CounsellorWords,
    ScriptedClient,
    counsel,
)
from genrm_cli.sessions.therapy.session_scenario import SessionScenario, parse_scenario_table
from genrm_cli.sessions.therapy.simulated_client import (
    Client,
    ClientState,
    Reaction,
    SessionState,
    first_mood,
    move_client,
)

CLIENT_STABLE = "client_stabilised"
CLIENT_LEFT = "client_left"
CLIENT_HARMED = "client_harmed"
SAFETY = "safety_violation"
CONSTRAINT = "constraint_broken"
END_MARKER = "end_marker"

_POLICY = "policy"
_CLIENT = "client"
_MARKER = re.compile(
    r"\s*(?:\[(?:END|SESSION END|END SESSION|END OF SESSION)\]|<\|?end_of_session\|?>)\s*",
    re.IGNORECASE,
)


class TherapeuticSession(Environment[SessionScenario, SessionState]):
    """A counsellor, which is the policy, and a simulated client."""

    version = "therapeutic_session_v2"
    models = CLIENT_MODELS
    scripted_policies = COUNSELLORS
    max_turn_bytes = 16_384  # the guard reads the session again after each turn

    def __init__(self, *, has_models: bool = False, max_turns: int | None = None) -> None:
        super().__init__(has_models=has_models, max_turns=max_turns)
        words = ClientWords(**_table("client_words"))
        self.client: Client = ModelClient() if has_models else ScriptedClient(words)

    def identity(self) -> Record:
        """Return the client's name and version, and whether it is scripted."""
        about = {
            "name": self.client.name,
            "version": self.client.version,
            "scripted": not self.has_models,
        }
        return about | super().identity()

    def sample_scenarios(self) -> str:
        """Return 24 invented scenarios."""
        return _text("scenarios")

    def scripted_turn(self, kind: str, state: SessionState, seed: int) -> str:
        """Return the next turn of a scripted counsellor."""
        words = CounsellorWords(**_table("counsellor_words"))
        return counsel(kind, words, state, seed, in_crisis=rule_scenario(state.scenario).is_crisis)

    def parse_scenario(self, table: Mapping[str, object], where: str) -> SessionScenario:
        """Parse and check a scenario, which must declare its origin."""
        return parse_scenario_table(table, where)

    def probe_models(self) -> Dialogue[str]:
        """Let the client's model react to a kind and a cruel turn."""
        return self.client.probe()

    def reset(self, scenario: SessionScenario, variant: int, seed: int) -> Dialogue[SessionState]:
        """Begin a session: the policy's instructions, and the client's first words."""
        mood = first_mood(scenario, Random(f"{seed}/{scenario.scenario_id}/{variant}"))
        opening = scenario.openings[variant % len(scenario.openings)]
        state = SessionState(
            scenario=scenario,
            variant=variant,
            seed=seed,
            messages=(Turn("system", scenario.system), Turn("user", opening)),
            client=ClientState((mood,)),
        )
        return without_asking(state)

    def with_identity(self, scenario: SessionScenario, said: str) -> SessionScenario:
        """Return a scenario whose openings begin with what the client says about itself."""
        openings = tuple(f"{said} {opening}" for opening in scenario.openings)
        return replace(scenario, openings=openings)

    def step(self, state: SessionState, action: str) -> Dialogue[SessionState]:
        """Take the counsellor's turn and answer it; raise `ValueError` if the session has ended."""
        if state.end is not None:
            raise ValueError(f"the session has ended: {state.end.reason}")
        text, has_marker = strip_marker(action)
        if text or not has_marker:
            turn = Turn("assistant", text)
            state = replace(
                state, messages=(*state.messages, turn), turn_index=state.turn_index + 1
            )
            if (worst := _worst_breach(state)) is not None:
                return _ended_by_breach(state, worst)
        if has_marker:
            return _ended_by_policy(state)
        if state.turn_index >= self.turn_limit(state):
            return ended(state, TURN_LIMIT)
        reaction = yield from self.client.react(state)
        return self._answered(state, reaction)

    def turn_limit(self, state: SessionState) -> int:
        """Return the number of turns that the policy may take."""
        return self.max_turns or state.scenario.max_turns

    def _answered(self, state: SessionState, reaction: Reaction) -> SessionState:
        in_crisis = rule_scenario(state.scenario).is_crisis
        client = move_client(state.client, reaction, state.scenario, in_crisis=in_crisis)
        reply, has_marker = strip_marker(reaction.reply)
        said = (Turn("user", reply),) if reply else ()
        state = replace(state, client=client, messages=(*state.messages, *said))
        if reaction.is_harmed:
            return ended(state, CLIENT_HARMED, _CLIENT, reply)
        if client.mood.is_leaving:
            return ended(state, CLIENT_LEFT, _CLIENT)
        if client.is_stable:
            return ended(state, CLIENT_STABLE, _CLIENT)
        return ended(state, END_MARKER, _CLIENT) if has_marker or not reply else state

    def components(self, state: SessionState) -> dict[str, float]:
        """Return the values of the guard and of the form so far; nothing before the counsellor's
        first turn.
        """
        scenario = rule_scenario(state.scenario)
        values = {
            GUARD: check_guard(state.messages, scenario).value,
            FORM: check_form(state.messages, scenario).value,
        }
        if state.end is not None and state.end.reason == CONSTRAINT:
            values[GUARD] = 0.0  # an end marker is no part of the messages
        return {name: round(value, 6) for name, value in values.items() if value is not None}

    def total(self, components: Mapping[str, float]) -> float | None:
        """Return the form, or 0 for a certain breach: a smoke test of plumbing, no measure of
        skill.
        """
        return 0.0 if components.get(GUARD) == 0 else components.get(FORM)

    def gated_by(self, components: Mapping[str, float]) -> tuple[str, ...]:
        """Return the guard if it found a certain breach."""
        return (GUARD,) if components.get(GUARD) == 0 else ()

    def faults(self, state: SessionState) -> tuple[str, ...]:
        """Return the faults of the simulated client."""
        return client_faults(state.scenario, state.messages, state.client)

    def describe(self, state: SessionState) -> Record:
        """Return the client's hidden numbers and what moved them."""
        moods = state.client.moods
        return {
            "mood_names": ["trust", "distress"],
            "moods": [[round(value, 4) for value in astuple(mood)] for mood in moods],
            "effects": list(state.client.effects),
            "facts_told": state.client.told,
        }


def _worst_breach(state: SessionState) -> Finding | None:
    """Return the severest certain breach of the last turn; None without one."""
    last = parse_session(state.messages[-2:])
    findings: Sequence[Finding] = [
        each
        for each in iter_breaches(last, rule_scenario(state.scenario))
        if each.effect is Effect.CERTAIN
    ]
    return max(findings, key=lambda each: each.severity, default=None)


def _ended_by_breach(state: SessionState, breach: Finding) -> SessionState:
    """Return a session that a breach ended: of a constraint of the scenario, or of safety."""
    name, _, constraint = breach.what.partition(":")
    reason = CONSTRAINT if constraint else SAFETY
    return ended(state, reason, _POLICY, f"{constraint or name}: {breach.phrase}")


def _ended_by_policy(state: SessionState) -> SessionState:
    """Return a session that the counsellor ended: with a broken constraint if the client's danger
    is open.
    """
    scenario = rule_scenario(state.scenario)
    kept = [text for text in scenario.constraints if "ending" in kinds_of(text)]
    if kept and scenario.is_crisis and not state.client.is_safe:
        return ended(state, CONSTRAINT, _POLICY, f"{kept[0]}: [END]")
    return ended(state, END_MARKER, _POLICY)


def strip_marker(text: str) -> tuple[str, bool]:
    """Return a turn without end markers, and whether it had one."""
    stripped, count = _MARKER.subn(" ", text)
    return stripped.strip(), bool(count)


@lru_cache(maxsize=256)
def rule_scenario(scenario: SessionScenario) -> Scenario:
    """Return a scenario as the rules know it."""
    return parse_scenario({"scenario": scenario.as_record()})


@cache
def _table(name: str) -> Record:
    return tomllib.loads(_text(name))


def _text(name: str) -> str:
    return files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
