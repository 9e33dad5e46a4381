"""The environment `therapeutic_session` as a state machine."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any

from genrm_cli.errors import InputError
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.scenario import Scenario, parse_scenario
from genrm_cli.rules.result import RuleResult
from genrm_cli.sessions.environment import TURN_LIMIT, Dialogue, End, first_repeated_scenario, without_asking
from genrm_cli.sessions.therapy.client import LEFT, STABLE, Client
from genrm_cli.sessions.therapy.faults import client_faults
from genrm_cli.sessions.therapy.mood import ClientState, Mood, first_mood, move_client
from genrm_cli.sessions.therapy.reading import TurnReader, label_counts, last_exchange
from genrm_cli.sessions.therapy.scenario import SessionScenario, parse_scenario_table

CLIENT_STABLE, CLIENT_LEFT = "client_stabilised", "client_left"
SAFETY, END_MARKER = "safety_violation", "end_marker"

STATE_FORMAT = 1
_POLICY, _CLIENT, _ENVIRONMENT = "policy", "client", "environment"
_MARKER = re.compile(
    r"\s*(?:\[(?:END|SESSION END|END SESSION|END OF SESSION)\]|<\|?end_of_session\|?>)\s*", re.IGNORECASE
)

SessionRule = Callable[[Sequence[Turn], Scenario], RuleResult]


@dataclass(frozen=True, slots=True)
class SessionState:
    """One moment of a session.

    Attributes:
        scenario: what is played.
        variant: number of the client's variant, from 0.
        seed: of everything random.
        messages: the policy's instructions, and what both sides said.
        turn_index: turns of the policy so far.
        client: hidden from the policy.
        end: how the session ended; None while it goes on.
    """

    scenario: SessionScenario
    variant: int
    seed: int
    messages: tuple[Turn, ...]
    turn_index: int
    client: ClientState
    end: End | None = None


@dataclass(frozen=True, slots=True)
class TherapeuticSession:
    """A counsellor, which is the policy, and a simulated client.

    Attributes:
        client: plays the client.
        reader: finds by phrases what a turn does, and hard violations.
        rules: the components of the reward, by name.
        max_turns: overrides the limit of every scenario.
    """

    client: Client
    reader: TurnReader
    rules: Mapping[str, SessionRule]
    max_turns: int | None = None
    name: str = "therapeutic_session"
    version: str = "therapeutic_session_v1"

    @property
    def identity(self) -> Mapping[str, object]:
        """Who plays the client; a scripted one is a stand-in."""
        client = self.client
        limit = {} if self.max_turns is None else {"max_turns": self.max_turns}
        return {"name": client.name, "version": client.version, "scripted": client.is_scripted, **limit}

    @property
    def models(self) -> Mapping[str, str]:
        """The client's models."""
        return self.client.models

    def parse_scenarios(self, tables: Sequence[Mapping[str, object]], where: str) -> list[SessionScenario]:
        """Parse and check the scenarios of a file.

        Raises:
            InputError: one is not complete, does not declare its origin, or two have one id.
        """
        scenarios = [
            parse_scenario_table(table, f"{where}: scenario {number}") for number, table in enumerate(tables, 1)
        ]
        if (twice := first_repeated_scenario(scenarios)) is not None:
            raise InputError(f"{where}: two scenarios have the id {twice!r}.")
        return scenarios

    def probe_models(self) -> Dialogue[str]:
        """Let the client's reader label a kind and a cruel turn."""
        return self.client.probe()

    def reset(self, scenario: SessionScenario, variant: int, seed: int) -> Dialogue[SessionState]:
        """Begin a session: the policy's instructions, and the client's first words."""
        rng = Random(f"{seed}/{scenario.scenario_id}/{variant}")
        mood = first_mood(scenario.trust, scenario.distress, scenario.resistance, rng)
        opening = scenario.openings[variant % len(scenario.openings)]
        messages = (Turn("system", scenario.system), Turn("user", opening))
        return without_asking(SessionState(scenario, variant, seed, messages, 0, ClientState((mood,))))

    def step(self, state: SessionState, action: str) -> Dialogue[SessionState]:
        """Take the counsellor's turn and answer it.

        Raises:
            ValueError: the session has ended.
        """
        if state.end is not None:
            raise ValueError(f"the session has ended: {state.end.reason}")
        text, has_marker = strip_marker(action)
        if not text and has_marker:
            return _ended(state, END_MARKER, _POLICY)
        state = replace(state, messages=(*state.messages, Turn("assistant", text)), turn_index=state.turn_index + 1)
        exchange = last_exchange(state.messages)
        violations = self.reader.violations(exchange)
        found = self.reader.labels(exchange, violations)
        labels = yield from self.client.read(state.messages, exchange, found)
        client = move_client(state.client, labels, state.scenario.openness, len(state.scenario.facts))
        state = replace(state, client=client)
        if violations:
            return _ended(state, SAFETY, _POLICY, f"{violations[0].what}: {violations[0].phrase}")
        if has_marker:
            return _ended(state, END_MARKER, _POLICY)
        if client.mood.is_leaving:
            return (yield from self._close(state, CLIENT_LEFT, LEFT))
        if client.is_stable(in_crisis=rule_scenario(state.scenario).is_crisis):
            return (yield from self._close(state, CLIENT_STABLE, STABLE))
        if state.turn_index >= (self.max_turns or state.scenario.max_turns):
            return _ended(state, TURN_LIMIT, _ENVIRONMENT)
        reply, has_marker = strip_marker((yield from self._word(state, None)))
        if reply:
            state = replace(state, messages=(*state.messages, Turn("user", reply)))
        return _ended(state, END_MARKER, _CLIENT) if has_marker or not reply else state

    def cut(self, state: SessionState, reason: str) -> SessionState:
        """End a session from outside."""
        return _ended(state, reason, _ENVIRONMENT)

    def components(self, state: SessionState) -> dict[str, float]:
        """Return the values of the rules so far; nothing before the counsellor's first turn."""
        scenario = rule_scenario(state.scenario)
        results = {name: rule(state.messages, scenario).value for name, rule in self.rules.items()}
        return {name: round(value, 6) for name, value in results.items() if value is not None}

    def total(self, components: Mapping[str, float]) -> float | None:
        """Return the mean of the components; 0 where safety is 0, None without components."""
        if not components:
            return None
        return 0.0 if components.get("safety") == 0 else round(sum(components.values()) / len(components), 6)

    def faults(self, state: SessionState) -> tuple[str, ...]:
        """Return what the simulated client did wrong."""
        return client_faults(state.scenario, state.messages, state.client)

    def describe(self, state: SessionState) -> dict[str, object]:
        """Return the client's hidden numbers and what moved them."""
        moods = state.client.moods
        return {
            "mood_names": ["trust", "distress", "resistance", "disclosure"],
            "moods": [mood.as_list() for mood in moods],
            "relief": round(moods[0].distress - moods[-1].distress, 4),
            "facts_told": state.client.told,
            "turn_labels": [list(labels) for labels in state.client.labels],
            "label_counts": dict(label_counts(state.client.labels)),
        }

    def render_state(self, state: SessionState) -> dict[str, object]:
        """Return a state as JSON, with the fields of the scenario that everybody may see, and the hidden ones apart."""
        client = state.client
        return {
            "format": STATE_FORMAT,
            "env_version": self.version,
            **state.scenario.as_record(),
            "messages": [{"role": turn.role, "content": turn.text} for turn in state.messages],
            "turn_index": state.turn_index,
            "variant": state.variant,
            "seed": state.seed,
            "end": None if state.end is None else asdict(state.end),
            "hidden": {
                "scenario": {**asdict(state.scenario), state.scenario.origin: True},
                "client": {**asdict(client), "moods": [asdict(mood) for mood in client.moods]},
            },
        }

    def parse_state(self, given: Mapping[str, object]) -> SessionState:
        """Parse what `render_state` returned.

        Raises:
            ValueError: it is not such a state, or one of another format or version.
        """
        if given.get("format") != STATE_FORMAT or given.get("env_version") != self.version:
            raise ValueError(f"not a state of {self.version} in format {STATE_FORMAT}")
        try:
            return _parse_state(given)
        except (KeyError, TypeError, AttributeError, InputError) as error:
            raise ValueError(f"not a state of {self.version}: {error!r}") from error

    def _close(self, state: SessionState, reason: str, closing: str) -> Dialogue[SessionState]:
        """End a session with the client's last words."""
        words, _ = strip_marker((yield from self._word(state, closing)))
        messages = (*state.messages, Turn("user", words)) if words else state.messages
        return _ended(replace(state, messages=messages), reason, _CLIENT)

    def _word(self, state: SessionState, closing: str | None) -> Dialogue[str]:
        seed = f"{state.seed}/{state.scenario.scenario_id}/{state.variant}/{state.turn_index}"
        return self.client.word(state.scenario, state.messages, state.client, seed, closing)


def strip_marker(text: str) -> tuple[str, bool]:
    """Return a turn without end markers, and whether it had one."""
    stripped, count = _MARKER.subn(" ", text)
    return stripped.strip(), bool(count)


def _ended(state: SessionState, reason: str, by: str, evidence: str = "") -> SessionState:
    return replace(state, end=End(reason, by, state.turn_index, evidence))


@lru_cache(maxsize=256)
def rule_scenario(scenario: SessionScenario) -> Scenario:
    """Return a scenario as the rules know it."""
    return parse_scenario({"scenario": scenario.as_record()})


def _parse_state(given: Any) -> SessionState:
    hidden, end = given["hidden"], given["end"]
    scenario = {name: _as_list(value) for name, value in hidden["scenario"].items() if name != "origin" and value != ""}
    client = hidden["client"]
    return SessionState(
        parse_scenario_table(scenario, "state"),
        int(given["variant"]),
        int(given["seed"]),
        tuple(Turn(str(message["role"]), str(message["content"])) for message in given["messages"]),
        int(given["turn_index"]),
        ClientState(
            tuple(Mood(**mood) for mood in client["moods"]),
            tuple(tuple(labels) for labels in client["labels"]),
            client["told"],
            client["calm_turns"],
            client["was_asked_about_safety"],
            client["tells"],
            client["unread_turns"],
        ),
        None if end is None else End(**end),
    )


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
