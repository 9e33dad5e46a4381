"""Rewards of sessions by what was played: scenario, difficulty, risk, client, identity and end."""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

from msgspec import Struct

from genrm_cli.metrics.running_stats import (
    Estimated,
    Mergeable,
    RunningStats,
    Statistics,
    paired_difference,
)

_OF_SCENARIO = ("difficulty", "risk_level", "client_profile", "identity")


class SessionSummary(Struct, frozen=True, kw_only=True):
    """Rewards of sessions.

    Attributes:
        by: by the field of the scenario, or `end_reason`, and by its value.
        identities: differences of every two identities, such as `woman less man`, over the
            scenarios that were played with both.
    """

    by: Mapping[str, Mapping[str, Statistics]]
    identities: Mapping[str, Estimated]


class SessionMetrics(Mergeable):
    """Running rewards of sessions by field and value, and by identity and scenario; empty if no
    record has a scenario.
    """

    by: dict[str, dict[str, RunningStats]] = {}
    identities: dict[str, dict[str, RunningStats]] = {}

    def add(
        self,
        record: Mapping[str, object],
        reward: float | None,
        label_of: Callable[[str], str] = lambda value: value,
    ) -> None:
        """Count the reward of a session, as its record describes it; other records and None are
        ignored.

        Args:
            label_of: returns the name under which a value is counted, for example with private data
                masked.
        """
        scenario = record.get("scenario")
        if reward is None or not isinstance(scenario, dict):
            return
        for name, value in _iter_fields(scenario, record.get("metadata")):
            self.by.setdefault(name, {}).setdefault(label_of(value), RunningStats()).add(reward)
        if isinstance(identity := scenario.get("identity"), str):
            means = self.identities.setdefault(label_of(identity), {})
            means.setdefault(str(scenario.get("scenario_id")), RunningStats()).add(reward)

    def summary(self) -> SessionSummary | None:
        """Return the statistics, names in alphabetical order; None without a session."""
        if not self.by:
            return None
        by = {
            name: {value: stats.summary() for value, stats in sorted(values.items())}
            for name, values in self.by.items()
        }
        means = {
            identity: {id_: stats.mean or 0.0 for id_, stats in of.items()}
            for identity, of in self.identities.items()
        }
        pairs = list(combinations(sorted(means), 2))
        identities = {
            f"{more} less {less}": paired_difference(means[more], means[less], len(pairs))
            for less, more in pairs
        }
        return SessionSummary(by=by, identities=identities)


def _iter_fields(scenario: Mapping[str, object], metadata: object) -> Iterator[tuple[str, str]]:
    """Yield the fields of a session by which rewards are broken down, a list once for each
    value.
    """
    named = {
        "scenario": scenario.get("scenario_id"),
        **{name: scenario.get(name) for name in _OF_SCENARIO},
    }
    if isinstance(metadata, dict):
        named["end_reason"] = metadata.get("end_reason")
    for name, value in named.items():
        texts = (
            each
            for each in (value if isinstance(value, list) else (value,))
            if isinstance(each, str) and each
        )
        # A list that names a value twice is still one session.
        yield from ((name, text) for text in dict.fromkeys(texts))
