"""Spread, discrimination and overlap of the components of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations

from genrm_cli.metrics.running_stats import (
    CoSpread,
    Mergeable,
    RunningStats,
    Statistics,
    has_spread,
)

_Column = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSummary(Statistics):
    """The values of one component over a run.

    Attributes:
        missing: rollouts without a value.
        groups: groups with two or more values.
        discriminating_share: share of these groups in which the values differ: in all others, the
            component gives no gradient.
        correlation_with_total: Pearson's, over rollouts that have both values; None for fewer than
            two rollouts, or if one of the two does not vary. Likewise `correlations` with other
            components.
    """

    missing: int
    groups: int
    discriminating_share: float | None
    correlation_with_total: float | None
    correlations: Mapping[str, float | None]


@dataclass(slots=True)
class _OneComponent(Mergeable):
    """The metrics of one component."""

    spread: RunningStats = field(default_factory=RunningStats)
    missing: int = 0
    groups: int = 0
    groups_with_spread: int = 0
    with_total: CoSpread = field(default_factory=CoSpread)

    def add(self, values: _Column) -> None:
        numbers = [value for value in values if value is not None]
        for value in numbers:
            self.spread.add(value)
        self.missing += len(values) - len(numbers)
        if len(numbers) > 1:
            self.groups += 1
            self.groups_with_spread += has_spread(numbers)


@dataclass(slots=True)
class ComponentMetrics(Mergeable):
    """Metrics of components over the groups of a run, in constant memory."""

    _by_name: dict[str, _OneComponent] = field(default_factory=dict)
    _pairs: dict[frozenset[str], CoSpread] = field(default_factory=dict)

    def add_group(self, values: Mapping[str, _Column], totals: _Column | None = None) -> None:
        """Add the components of one group, by name, and their totals, all of one length; None is a
        missing value.
        """
        for name, column in values.items():
            one = self._by_name.setdefault(name, _OneComponent())
            one.add(column)
            if totals is not None:
                _add_pairs(one.with_total, column, totals)
        for names in combinations(sorted(values), 2):
            pair = self._pairs.setdefault(frozenset(names), CoSpread())
            _add_pairs(pair, *(values[name] for name in names))

    def summary(self) -> dict[str, ComponentSummary] | None:
        """Return the statistics of each component; None without any."""
        return {name: self._summary(name, one) for name, one in self._by_name.items()} or None

    def _summary(self, name: str, one: _OneComponent) -> ComponentSummary:
        others = (other for other in self._by_name if other != name)
        pairs = {other: self._pairs.get(frozenset((name, other)), CoSpread()) for other in others}
        return ComponentSummary(
            **asdict(one.spread.summary()),
            missing=one.missing,
            groups=one.groups,
            discriminating_share=one.groups_with_spread / one.groups if one.groups else None,
            correlation_with_total=one.with_total.correlation(),
            correlations={other: pair.correlation() for other, pair in pairs.items()},
        )


def _add_pairs(pair: CoSpread, xs: _Column, ys: _Column) -> None:
    for x, y in zip(xs, ys, strict=True):
        if x is not None and y is not None:
            pair.add(x, y)
