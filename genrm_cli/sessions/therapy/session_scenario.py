"""The scenario of a therapeutic session, as its author wrote it."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields

from genrm_cli.errors import InputError
from genrm_cli.json_types import Record
from genrm_cli.sessions.environment import EpisodeScenario

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

_MOST_TURNS = 200


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
    openings: tuple[str, ...]
    facts: tuple[str, ...]
    persona: str = ""
    safety_answer: str = ""
    trust: float = 0.35
    distress: float = 0.7
    system: str = SYSTEM
    max_turns: int = 12

    @property
    def openness(self) -> float:
        """How far good turns move the client."""
        return DIFFICULTIES[self.difficulty]

    def as_record(self) -> Record:
        """Return the fields of a rollout record, JSON-ready; nothing that only the client knows."""
        names = (
            "difficulty",
            "risk_level",
            "client_profile",
            "goal",
            "expected_outcomes",
            "hard_constraints",
        )
        values = ((name, getattr(self, name)) for name in names)
        shown = {name: list(value) if isinstance(value, tuple) else value for name, value in values}
        return super(SessionScenario, self).as_record() | shown


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
    values: dict[str, object] = {"origin": declared[0]}
    for key, value in table.items():
        if key in ORIGINS:
            continue
        if key not in _TYPES:
            raise InputError(
                f"{where}: unknown field {key!r}; expected {', '.join((*_TYPES, *ORIGINS))}."
            )
        check, expected = _CHECKS[key if key in _CHECKS else _TYPES[key]]
        if (read := check(value)) is None:
            raise InputError(f"{where}: {key} is {value!r:.60}; expected {expected}.")
        values[key] = read
    missing = [key for key in _REQUIRED if key not in values]
    if missing:
        raise InputError(f"{where}: {', '.join(missing)} missing.")
    return SessionScenario(**values)  # type: ignore[arg-type]  # each was checked


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    texts = [_text(each) for each in value]
    return None if None in texts else tuple(text for text in texts if text)


def _share(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def _turns(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 1 <= value <= _MOST_TURNS else None


# By type; by name where the type does not say it all.
_CHECKS: Mapping[object, tuple[Callable[[object], object], str]] = {
    str: (_text, "text"),
    tuple[str, ...]: (_texts, "a list of texts"),
    float: (_share, "a number from 0 to 1"),
    int: (_turns, f"an integer from 1 to {_MOST_TURNS}"),
    "difficulty": (
        lambda value: value if value in list(DIFFICULTIES) else None,
        f"one of {', '.join(DIFFICULTIES)}",
    ),
    "hard_constraints": (lambda value: () if value == [] else _texts(value), "a list of texts"),
}
_GIVEN = [each for each in fields(SessionScenario) if each.name not in ("origin", "identity")]
_TYPES: Mapping[str, object] = {each.name: each.type for each in _GIVEN}
_REQUIRED = tuple(each.name for each in _GIVEN if each.default is MISSING)
