"""What the components of a run are worth to a trainer: their spread, where they tell rollouts apart, their overlap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from genrm_cli.metrics.running_stats import CoSpread, RunningStats

_LEAST_SPREAD = 1e-9  # what is below is rounding, not signal


@dataclass(slots=True)
class _Figure:
    """The figures of one component."""

    spread: RunningStats = field(default_factory=RunningStats)
    missing: int = 0
    groups: int = 0
    groups_with_spread: int = 0
    with_total: CoSpread = field(default_factory=CoSpread)

    def add(self, values: Sequence[float | None]) -> None:
        there = [value for value in values if value is not None]
        for value in there:
            self.spread.add(value)
        self.missing += len(values) - len(there)
        if len(there) > 1:
            self.groups += 1
            self.groups_with_spread += max(there) - min(there) > _LEAST_SPREAD


class ComponentMetrics:
    """Counts the values of components over the groups of a run, in constant memory."""

    def __init__(self) -> None:
        self._figures: dict[str, _Figure] = {}
        self._pairs: dict[frozenset[str], CoSpread] = {}

    def add_group(
        self, values: Mapping[str, Sequence[float | None]], totals: Sequence[float | None] | None = None
    ) -> None:
        """Take in the values of one group.

        Args:
            values: by the component's name, each in the group's order; None is a value that is missing.
            totals: what the components became, in the group's order.

        Raises:
            ValueError: the lengths differ.
        """
        for name, column in values.items():
            figure = self._figures.setdefault(name, _Figure())
            figure.add(column)
            if totals is not None:
                _add_pairs(figure.with_total, column, totals)
        for one, other in combinations(values, 2):
            pair = self._pairs.setdefault(frozenset((one, other)), CoSpread())
            _add_pairs(pair, *(values[name] for name in sorted((one, other))))

    def as_dict(self) -> dict[str, dict[str, object]]:
        """Return the figures of each component as a JSON-ready object.

        `discriminating_share` is the share of the groups with two values and more in which the values differ: in
        the others the component gives no gradient. Correlations are Pearson's, over rollouts that have both values;
        null where there are fewer than two of them, or one of the two does not vary.
        """
        return {name: self._as_dict(name, figure) for name, figure in self._figures.items()}

    def _as_dict(self, name: str, figure: _Figure) -> dict[str, object]:
        others = (other for other in self._figures if other != name)
        pairs = {other: self._pairs.get(frozenset((name, other)), CoSpread()) for other in others}
        return {
            **figure.spread.as_dict(),
            "missing": figure.missing,
            "groups": figure.groups,
            "discriminating_share": figure.groups_with_spread / figure.groups if figure.groups else None,
            "correlation_with_total": figure.with_total.correlation(_LEAST_SPREAD),
            "correlations": {other: pair.correlation(_LEAST_SPREAD) for other, pair in pairs.items()},
        }


def _add_pairs(pair: CoSpread, xs: Sequence[float | None], ys: Sequence[float | None]) -> None:
    for x, y in zip(xs, ys, strict=True):
        if x is not None and y is not None:
            pair.add(x, y)
