"""The scenario of a therapeutic session, as its author wrote it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated

from msgspec import Meta

from genrm_cli.errors import InputError
from genrm_cli.json_types import Record
from genrm_cli.products.sessions.environment import EpisodeScenario
from genrm_cli.rollouts.scenario import Scenario
from genrm_cli.typed_json import FormError, from_json

SYSTEM = (
    "You are a supportive counsellor in a practice session with a fictional client. Listen, "
    "reflect, ask open "
    "questions, and agree on what comes next. In danger, ask about safety and name concrete help. "
    "Write one turn at a "
    "time. When the session is over, end your turn with [END]."
)
ORIGINS = ("synthetic", "deidentified")
DIFFICULTIES = {"beginner": 1.15, "intermediate": 1.0, "advanced": 0.85}
"""How far good turns move a client, by difficulty."""

_Texts = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1)]
_Share = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionScenario(EpisodeScenario):
    """A scenario.

    Attributes:
        risk_level: free text, such as crisis, moderate or subclinical.
        openings: the client's first words; variant n begins with opening n, and starts over after
            the last.
        facts: what the client could tell, in the client's words, from the surface to the core.
        safety_answer: what the client says when asked about safety; empty for nothing special.
        trust, distress: where the client starts, 0 to 1.
    """

    difficulty: str
    risk_level: str
    client_profile: tuple[str, ...]
    goal: str
    expected_outcomes: tuple[str, ...]
    hard_constraints: tuple[str, ...]
    openings: _Texts
    facts: _Texts
    persona: str = ""
    safety_answer: str = ""
    trust: _Share = 0.35
    distress: _Share = 0.7
    system: str = SYSTEM
    # A session of hours; more is a slip.
    max_turns: Annotated[int, Meta(ge=1, le=200)] = 12

    @property
    def openness(self) -> float:
        """How far good turns move the client."""
        return DIFFICULTIES[self.difficulty]

    @property
    def of_rules(self) -> Scenario:
        """What the rules need to know."""
        return Scenario(constraints=self.hard_constraints, risk_level=self.risk_level)

    def as_record(self) -> Record:
        """Return the fields of a rollout record, JSON-ready; nothing that only the client knows."""
        return {
            "scenario_id": self.scenario_id,
            "difficulty": self.difficulty,
            "risk_level": self.risk_level,
            "client_profile": list(self.client_profile),
            "goal": self.goal,
            "expected_outcomes": list(self.expected_outcomes),
            "hard_constraints": list(self.hard_constraints),
        }


def parse_scenario_table(table: Mapping[str, object], where: str) -> SessionScenario:
    """Parse and check one scenario, or raise `InputError` that begins with `where`."""
    name = table.get("scenario_id")
    if isinstance(name, str) and name:
        where = f"{where} ({name!r})"
    declared = [origin for origin in ORIGINS if table.get(origin) is True]
    if len(declared) != 1:
        raise InputError(
            f"{where}: declare exactly one of synthetic = true and deidentified = true; "
            "real clients' data must never be played."
        )
    known = [each.name for each in fields(SessionScenario) if each.name != "origin"]
    if unknown := [key for key in table if key not in known and key not in ORIGINS]:
        raise InputError(
            f"{where}: unknown field {unknown[0]!r}; expected {', '.join((*known, *ORIGINS))}."
        )
    try:
        scenario = from_json(SessionScenario, {**table, "origin": declared[0]})
    except FormError as error:
        raise InputError(f"{where}: {error}.") from error
    if scenario.difficulty not in DIFFICULTIES:
        raise InputError(
            f"{where}: difficulty is {scenario.difficulty!r:.60}; expected one of "
            f"{', '.join(DIFFICULTIES)}."
        )
    return scenario
