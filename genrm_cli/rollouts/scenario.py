"""The scenario of a session, read from its record."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from genrm_cli.json_types import field_at
from genrm_cli.rollouts.reading.values import object_or_empty

# Words of risk levels that call for an intervention, as clinics and data sets name them.
_ACUTE = frozenset(
    {"crisis", "imminent", "acute", "emergency", "high", "severe", "critical", "suicidal"}
)
# `no crisis` and `non-acute` are none.
_DENIALS = frozenset({"no", "not", "non", "without"})
# Profiles nest two or three levels; deeper values are not meant to be read.
_DEPTH = 4


class Scenario(NamedTuple):
    """The scenario of a session; fields that the record lacks are empty."""

    goal: str = ""
    constraints: tuple[str, ...] = ()
    risk_level: str = ""
    expected_outcomes: tuple[str, ...] = ()
    client_profile: tuple[str, ...] = ()

    @property
    def is_crisis(self) -> bool:
        """Whether the risk level names a crisis (`crisis`, `high`, `severe`, `suicidal`, ...), and
        is no denial such as `no crisis`.
        """
        words = set(self.risk_level.lower().replace("_", " ").replace("-", " ").split())
        return not _ACUTE.isdisjoint(words) and _DENIALS.isdisjoint(words)


def parse_scenario(record: Mapping[str, object]) -> Scenario:
    """Parse the scenario of a record: `scenario`, else `metadata.scenario`, `metadata` or the
    record itself.

    Strings, lists and objects are read as texts; other types are ignored. Never fails.
    """
    paths = ("scenario", "metadata.scenario", "metadata")
    places = [*(object_or_empty(field_at(record, path)) for path in paths), record]
    return Scenario(
        goal=" ".join(_first(places, "goal", "goals", "objective", "description")),
        constraints=_first(places, "hard_constraints", "constraints"),
        risk_level=" ".join(_first(places, "risk_level", "risk")),
        expected_outcomes=_first(places, "expected_outcomes", "outcomes")
        + _first(places, "tasks", "explicit_tasks"),
        client_profile=_first(places, "client_profile", "profile"),
    )


def render_scenario(record: Mapping[str, object]) -> str | None:
    """Render the scenario of a record for a judge; None if the record has none."""
    scenario = parse_scenario(record)
    parts = {
        "Goal": [scenario.goal] if scenario.goal else [],
        "Constraints": scenario.constraints,
        "Risk level": [scenario.risk_level] if scenario.risk_level else [],
        "Expected outcomes": scenario.expected_outcomes,
        "Client": scenario.client_profile,
    }
    lines = [f"{title}: {'; '.join(texts)}" for title, texts in parts.items() if texts]
    return "\n".join(lines) or None


def _first(places: Sequence[Mapping[str, object]], *names: str) -> tuple[str, ...]:
    found = (tuple(_iter_texts(place.get(name), _DEPTH)) for place in places for name in names)
    return next((texts for texts in found if texts), ())


def _iter_texts(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif depth > 0 and isinstance(value, (list, tuple)):
        for each in value:
            yield from _iter_texts(each, depth - 1)
    elif depth > 0 and isinstance(value, dict):
        for name, each in value.items():
            # A flag such as {"veteran": true} is named by its key.
            yield from _iter_texts(str(name) if each is True else each, depth - 1)
