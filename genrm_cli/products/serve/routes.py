"""The scorers of a server: one, or one for each value of a field.

Each route is a whole scorer, with its own judges, calibration, groups and counts, so that nothing
inside one knows about the others. They share the endpoints, the budget and the journal."""

from collections.abc import Mapping
from dataclasses import dataclass

from genrm_cli.json_types import JsonObject, field_at
from genrm_cli.products.serve.cohorts.rounds import RoundsService
from genrm_cli.rollouts.rollout import UnreadableRecordError


@dataclass(frozen=True, slots=True)
class Routes:
    """The services of a server by route; that of all other groups has the empty name.

    Attributes:
        field: path of the field that names the route; None with one service.
    """

    rounds: Mapping[str, RoundsService]
    field: str | None = None

    def rounds_for(self, record: JsonObject) -> RoundsService:
        """Return the service for a record; raise `UnreadableRecordError` if none takes it."""
        value = None if self.field is None else field_at(record, self.field)
        rounds = self.rounds.get(value if isinstance(value, str) else "") or self.rounds.get("")
        if rounds is None:
            names = ", ".join(sorted(self.rounds))
            raise UnreadableRecordError(f"{self.field} is {value!r}; expected one of {names}")
        return rounds

    def rounds_with(self, group: str, route: str) -> RoundsService:
        """Return the service of a route, or without one the service that knows a cohort.

        Raises:
            UnreadableRecordError: no such route, or none is named and nobody knows the cohort.
        """
        if route and route not in self.rounds:
            names = ", ".join(sorted(name for name in self.rounds if name))
            raise UnreadableRecordError(f"route is {route!r}; expected one of {names}")
        known = (each for each in self.rounds.values() if group in each.service.table.cohorts)
        return self.rounds[route] if route else next(known, None) or self.rounds_for({})
