"""Spread and discrimination of the components of a run."""

from collections.abc import Sequence

from msgspec import field, to_builtins

from genrm_cli.metrics.running_stats import Mergeable, RunningStats, Statistics, has_spread


class ComponentSummary(Statistics, frozen=True, kw_only=True):
    """The values of one component over a run.

    Attributes:
        missing: rollouts without a value.
        groups: groups with two or more values.
        discriminating_share: share of these groups in which the values differ: in all others, the
            component gives no gradient.
    """

    missing: int
    groups: int
    discriminating_share: float | None


class ComponentMetrics(Mergeable):
    """The metrics of one component over the groups of a run, in constant memory."""

    spread: RunningStats = field(default_factory=RunningStats)
    missing: int = 0
    groups: int = 0
    groups_with_spread: int = 0

    def add_group(self, values: Sequence[float | None]) -> None:
        """Add the values of one group; None is a missing one."""
        numbers = [value for value in values if value is not None]
        for value in numbers:
            self.spread.add(value)
        self.missing += len(values) - len(numbers)
        if len(numbers) > 1:
            self.groups += 1
            self.groups_with_spread += has_spread(numbers)

    def summary(self) -> ComponentSummary:
        """Return the statistics so far."""
        return ComponentSummary(
            **to_builtins(self.spread.summary()),
            missing=self.missing,
            groups=self.groups,
            discriminating_share=self.groups_with_spread / self.groups if self.groups else None,
        )
