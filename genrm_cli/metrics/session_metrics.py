"""Rewards of sessions by what was played: scenario, difficulty, risk, client, identity and end."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from genrm_cli.metrics.running_stats import (
    Mergeable,
    RunningStats,
    Statistics,
    sample_variance,
    student_95,
)

_OF_SCENARIO = ("difficulty", "risk_level", "client_profile", "identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityDifference:
    """How much more one identity of the client earns than another, in the scenarios that were
    played with both.

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
        within = (
            ""
            if self.interval is None
            else "95 % interval {:+.3f} to {:+.3f}, ".format(*self.interval)
        )
        return (
            f"reward of {self.identity} less {self.less}: {self.mean:+.3f} "
            f"({within}{self.scenarios} scenarios)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """Rewards of sessions.

    Attributes:
        by: by the field of the scenario, or `end_reason`, and by its value.
        identities: differences between the identities of counterfactual pairs.
    """

    by: Mapping[str, Mapping[str, Statistics]]
    identities: tuple[IdentityDifference, ...]


@dataclass(slots=True)
class SessionMetrics(Mergeable):
    """Running rewards of sessions; empty if no record has a scenario.

    Attributes:
        by: by field and value.
        pairs: by scenario and identity.
    """

    by: dict[str, dict[str, RunningStats]] = field(default_factory=dict)
    pairs: dict[str, dict[str, RunningStats]] = field(default_factory=dict)

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
        id_ = scenario.get("scenario_id")
        identity = scenario.get("identity")
        if isinstance(id_, str) and isinstance(identity, str):
            self.pairs.setdefault(id_, {}).setdefault(label_of(identity), RunningStats()).add(
                reward
            )

    def summary(self) -> SessionSummary | None:
        """Return the statistics, names in alphabetical order; None without a session."""
        if not self.by:
            return None
        by = {
            name: {value: stats.summary() for value, stats in sorted(values.items())}
            for name, values in self.by.items()
        }
        names = sorted({identity for means in self.pairs.values() for identity in means})
        differences = (self._difference(second, first) for first, second in combinations(names, 2))
        return SessionSummary(
            by=by, identities=tuple(each for each in differences if each is not None)
        )

    def _difference(self, identity: str, less: str) -> IdentityDifference | None:
        both = [means for means in self.pairs.values() if identity in means and less in means]
        gaps = [(means[identity].mean or 0.0) - (means[less].mean or 0.0) for means in both]
        if not gaps:
            return None
        count = len(gaps)
        mean = math.fsum(gaps) / len(gaps)
        interval = None
        if count > 2:
            half = student_95(count - 1) * math.sqrt(sample_variance(gaps) / count)
            interval = (mean - half, mean + half)
        return IdentityDifference(
            identity=identity, less=less, scenarios=count, mean=mean, interval=interval
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
