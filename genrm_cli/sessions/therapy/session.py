"""The environment `therapeutic_session` as a state machine: a counsellor, who is the policy, and a
client.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from math import prod
from random import Random

from genrm_cli.json_types import Record
from genrm_cli.rollouts.rollout import Turn
from genrm_cli.rollouts.scenario import Scenario, parse_scenario
from genrm_cli.sessions.environment import TURN_LIMIT, Dialogue, Environment, ended, without_asking
from genrm_cli.sessions.rules.constraints import iter_breaches, kinds_of
from genrm_cli.sessions.rules.phrase_list import Effect, Fired
from genrm_cli.sessions.rules.transcript import THERAPIST, sentences_of
from genrm_cli.sessions.session_rules import RULES, read_phrases, read_rule
from genrm_cli.sessions.therapy.model_client import CLIENT_MODELS, ModelClient
from genrm_cli.sessions.therapy.screening import TurnReader, client_faults
from genrm_cli.sessions.therapy.scripted import (
    COUNSELLORS,
    ClientWords,
    CounsellorWords,
    ScriptedClient,
    counsel,
)
from genrm_cli.sessions.therapy.session_scenario import SessionScenario, parse_scenario_table
from genrm_cli.sessions.therapy.simulated_client import (
    LEFT,
    STABLE,
    Client,
    ClientState,
    SessionState,
    first_mood,
    move_client,
)

CLIENT_STABLE = "client_stabilised"
CLIENT_LEFT = "client_left"
SAFETY = "safety_violation"
CONSTRAINT = "constraint_broken"
END_MARKER = "end_marker"

_GATES = ("safety", "constraints", "bias", "contact")
_LEAST_TURNS = 4
_LOST = 0.5
_POLICY = "policy"
_CLIENT = "client"
_MARKER = re.compile(
    r"\s*(?:\[(?:END|SESSION END|END SESSION|END OF SESSION)\]|<\|?end_of_session\|?>)\s*",
    re.IGNORECASE,
)


class TherapeuticSession(Environment[SessionScenario, SessionState]):
    """A counsellor, which is the policy, and a simulated client."""

    version = "therapeutic_session_v1"
    models = CLIENT_MODELS
    scripted_policies = COUNSELLORS
    max_turn_bytes = (
        16_384  # the rules read the whole session after each turn, at about 80 KB a second
    )

    def __init__(self, *, has_models: bool = False, max_turns: int | None = None) -> None:
        super().__init__(has_models=has_models, max_turns=max_turns)
        self.client: Client = (
            ModelClient() if has_models else ScriptedClient(ClientWords(**_table("client_words")))
        )
        self._reader = TurnReader(*map(read_phrases, ("empathy", "safety", "attention")))
        self._rules = {name: read_rule(name) for name in RULES}
        self._constraints = read_phrases("constraints")

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
        """Let the client's reader label a kind and a cruel turn."""
        return self.client.probe()

    def reset(self, scenario: SessionScenario, variant: int, seed: int) -> Dialogue[SessionState]:
        """Begin a session: the policy's instructions, and the client's first words."""
        mood = first_mood(scenario, Random(f"{seed}/{scenario.scenario_id}/{variant}"))
        opening = scenario.openings[variant % len(scenario.openings)]
        messages = (Turn("system", scenario.system), Turn("user", opening))
        state = SessionState(
            scenario=scenario,
            variant=variant,
            seed=seed,
            messages=messages,
            client=ClientState((mood,)),
        )
        return without_asking(state)

    def with_identity(self, scenario: SessionScenario, said: str) -> SessionScenario:
        """Return a scenario whose openings begin with what the client says about itself."""
        return replace(
            scenario, openings=tuple(f"{said} {opening}" for opening in scenario.openings)
        )

    def step(self, state: SessionState, action: str) -> Dialogue[SessionState]:
        """Take the counsellor's turn and answer it; raise `ValueError` if the session has ended."""
        if state.end is not None:
            raise ValueError(f"the session has ended: {state.end.reason}")
        text, has_marker = strip_marker(action)
        if not text and has_marker:
            return _ended_by_policy(state, self._broken(state, has_marker=True))
        state = replace(
            state,
            messages=(*state.messages, Turn("assistant", text)),
            turn_index=state.turn_index + 1,
        )
        violations, found = self._reader.read(state.messages)
        labels = yield from self.client.read(state.messages, found.labels or ())
        scenario = state.scenario
        client = move_client(
            state.client,
            replace(found, labels=labels),
            scenario,
            in_crisis=rule_scenario(scenario).is_crisis,
        )
        state = replace(state, client=client)
        broken = self._broken(state, has_marker=has_marker)
        # What breaks a constraint may be a violation as well; the constraint says more.
        if worst := next(
            (each for each in violations if each.phrase not in {other.phrase for other in broken}),
            None,
        ):
            return ended(state, SAFETY, _POLICY, f"{worst.what}: {worst.phrase}")
        if broken or has_marker:
            return _ended_by_policy(state, broken)
        if client.mood.is_leaving:
            return (yield from self._close(state, CLIENT_LEFT, LEFT))
        if client.is_stable:
            return (yield from self._close(state, CLIENT_STABLE, STABLE))
        if state.turn_index >= (self.max_turns or state.scenario.max_turns):
            return ended(state, TURN_LIMIT)
        reply, has_marker = strip_marker((yield from self.client.word(state, None)))
        if reply:
            told = client.told + (client.tells is not None)
            state = replace(
                state,
                messages=(*state.messages, Turn("user", reply)),
                client=replace(client, told=told),
            )
        return ended(state, END_MARKER, _CLIENT) if has_marker or not reply else state

    def components(self, state: SessionState) -> dict[str, float]:
        """Return the values of the rules so far, and of the contact; nothing before the
        counsellor's first turn.

        Who ends the session without a word gets a contact of 0.
        """
        scenario = rule_scenario(state.scenario)
        values = {name: rule(state.messages, scenario).value for name, rule in self._rules.items()}
        if (
            state.client.labels
        ):  # how well the client is: the mean over the session and the end count alike
            moods = [(mood.trust + 1 - mood.distress) / 2 for mood in state.client.moods]
            values["relief"] = (sum(moods) / len(moods) + moods[-1]) / 2
        values |= (
            {"contact": _contact(state)} if state.client.labels or state.end is not None else {}
        )
        if state.end is not None and state.end.reason == CONSTRAINT:
            values["constraints"] = 0.0
        return {name: round(value, 6) for name, value in values.items() if value is not None}

    def total(self, components: Mapping[str, float]) -> float | None:
        """Return the mean of the components that measure skill, times those that are gates; None
        without components.

        A constraint that is perhaps broken changes nothing: a phrase can only say where to look.
        """
        skill = super().total(
            {name: value for name, value in components.items() if name not in _GATES}
        )
        gates = {name: components.get(name, 1.0) for name in _GATES}
        gates["constraints"] = float(gates["constraints"] > 0)
        product = prod(gates.values())
        return round(skill * product, 6) if skill is not None else None if product else 0.0

    def gated_by(self, components: Mapping[str, float]) -> tuple[str, ...]:
        """Return the gates that make the reward 0."""
        return tuple(name for name in _GATES if components.get(name) == 0)

    def faults(self, state: SessionState) -> tuple[str, ...]:
        """Return the faults of the simulated client."""
        return client_faults(state.scenario, state.messages, state.client)

    def describe(self, state: SessionState) -> Record:
        """Return the client's hidden numbers and what moved them."""
        moods = state.client.moods
        counts = Counter(chain.from_iterable(state.client.labels))
        return {
            "mood_names": ["trust", "distress", "resistance", "disclosure"],
            "moods": [[round(value, 4) for value in astuple(mood)] for mood in moods],
            "relief": round(moods[0].distress - moods[-1].distress, 4),
            "facts_told": state.client.told,
            "turn_labels": [list(labels) for labels in state.client.labels],
            "label_counts": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        }

    def _broken(self, state: SessionState, *, has_marker: bool) -> list[Fired]:
        """Return the constraints that the last turn breaks beyond doubt, its end marker in an open
        crisis included.
        """
        own = sentences_of(state.messages[-1:], THERAPIST)
        texts = state.scenario.hard_constraints
        found = iter_breaches(own, texts, self._constraints)
        broken = [each for each in found if each.effect is Effect.VIOLATION]
        if has_marker and _is_open(state):
            kept = [text for text in texts if "ending_contact" in kinds_of(text, self._constraints)]
            broken += [
                Fired(f"broken:{text}", "[END]", state.turn_index, Effect.VIOLATION)
                for text in kept
            ]
        return broken

    def _close(self, state: SessionState, reason: str, closing: str) -> Dialogue[SessionState]:
        """End a session with the client's last words."""
        words, _ = strip_marker((yield from self.client.word(state, closing)))
        messages = (*state.messages, Turn("user", words)) if words else state.messages
        return ended(replace(state, messages=messages), reason, _CLIENT)


def _contact(state: SessionState) -> float:
    """Return 1, or less where the contact was lost: the client left, or the counsellor ended it
    before it was calm.
    """
    client = state.client
    end = state.end
    if end is not None and end.reason == CLIENT_LEFT:
        return _LOST
    if end is None or (end.reason, end.by) != (END_MARKER, _POLICY):
        return 1.0
    if _is_open(state) or state.turn_index < _LEAST_TURNS:
        return 0.0
    return 1.0 if client.mood.is_calm else _LOST


def _ended_by_policy(state: SessionState, broken: Sequence[Fired]) -> SessionState:
    """Return a session that the counsellor ended: by its first broken constraint, else by its end
    marker.
    """
    if not broken:
        return ended(state, END_MARKER, _POLICY)
    return ended(
        state, CONSTRAINT, _POLICY, f"{broken[0].what.partition(':')[2]}: {broken[0].phrase}"
    )


def _is_open(state: SessionState) -> bool:
    """Whether the client of a crisis was not yet asked about safety and offered help."""
    client = state.client
    is_handled = client.was_asked_about_safety and client.was_offered_help
    return rule_scenario(state.scenario).is_crisis and not is_handled


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
