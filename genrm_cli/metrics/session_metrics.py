"""Rewards of sessions by what was played: scenario, difficulty, risk, client, identity and end."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from genrm_cli.metrics.running_stats import Mergeable, RunningStats, Statistics, student_95

_OF_SCENARIO = ("difficulty", "risk_level", "client_profile", "identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityDifference:
    """How much more one identity of clients earns than another, in the scenarios that were played
    with both.

    Attributes:
        mean: over scenarios of the difference of their mean rewards.
        interval: its 95 % interval by Student's t; None for fewer than three scenarios.
    """

    identity: str
    less: str
    scenarios: int
    mean: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        within = "no interval below 3 scenarios"
        if self.interval is not None:
            within = "95 % interval {:+.3f} to {:+.3f}".format(*self.interval)
        return (
            f"reward of {self.identity} less {self.less}: {self.mean:+.3f} ({within}; "
            f"scenarios: {self.scenarios})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """Rewards of sessions.

    Attributes:
        by: by the field of the scenario, or `end_reason`, and by its value.
        identities: differences between every two identities of counterfactual pairs.
    """

    by: Mapping[str, Mapping[str, Statistics]]
    identities: tuple[IdentityDifference, ...]


@dataclass(slots=True)
class SessionMetrics(Mergeable):
    """Running rewards of sessions by field and value, and by identity and scenario; empty if no
    record has a scenario.
    """

    by: dict[str, dict[str, RunningStats]] = field(default_factory=dict)
    identities: dict[str, dict[str, RunningStats]] = field(default_factory=dict)

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
        pairs = combinations(sorted(self.identities.items()), 2)
        differences = (_difference(*second, *first) for first, second in pairs)
        return SessionSummary(by=by, identities=tuple(filter(None, differences)))


def _difference(
    identity: str,
    more: Mapping[str, RunningStats],
    less: str,
    other: Mapping[str, RunningStats],
) -> IdentityDifference | None:
    """Return the difference paired by scenario; None if none was played with both."""
    gaps = RunningStats()
    for id_, stats in more.items():
        if id_ in other:
            gaps.add((stats.mean or 0.0) - (other[id_].mean or 0.0))
    count = gaps.count
    if gaps.mean is None:
        return None
    interval = None
    if count > 2:
        half = student_95(count - 1) * math.sqrt(gaps.squares / count / (count - 1))
        interval = (gaps.mean - half, gaps.mean + half)
    return IdentityDifference(
        identity=identity, less=less, scenarios=count, mean=gaps.mean, interval=interval
    )


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
        yield from ((name, text) for text in dict.fromkeys(texts))
