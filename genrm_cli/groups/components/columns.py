"""Components as columns: one value for each rollout of a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.rewards.diversity import cluster_sizes

Values = list[float | None]


@dataclass(slots=True)
class Column:
    """One component of all rollouts of a group.

    Attributes:
        values: values in the group's order; None for a missing value.
        notes: the evidence for each value (phrases, quotations); empty if there is none.
        failure: why values are missing; None if nothing failed.
    """

    values: Values
    notes: list[Any] = field(default_factory=list)
    failure: str | None = None

    def note(self, index: int) -> Any:
        """Return the evidence for a rollout's value; None if there is none."""
        return self.notes[index] if self.notes else None

    def spread(self, rows: Sequence[int], size: int) -> "Column":
        """Return the column of a group in which only some rollouts, in order, have values."""
        if len(rows) == size:
            return self
        values: Values = [None] * size
        notes = [None] * size if self.notes else []
        for row, index in enumerate(rows):
            values[index] = self.values[row]
            if notes:
                notes[index] = self.notes[row]
        return Column(values, notes, self.failure)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of near-duplicates in a group.

    Attributes:
        numbers: the cluster of each rollout; None without a response.
        sizes: size of each rollout's cluster; 1 without a response.
        failed: whether the judge gave no clusters, so that the fallback applies.
    """

    numbers: list[int | None]
    sizes: list[int]
    failed: bool = False


def clusters_of(found: Sequence[int] | None, answered: Sequence[int], size: int, *, uniform_fallback: bool) -> Clusters:
    """Spread the clusters of the answered rollouts over the whole group.

    Args:
        found: number of the cluster of each of `answered`; None if the judge gave none.
        answered: indices of the rollouts with a response.
        size: rollouts in the group.
        uniform_fallback: without clusters, treat all responses as one cluster instead of as unique.
    """
    numbers: list[int | None] = [None] * size
    sizes = [1] * size
    if found is None:
        fallback = len(answered) if uniform_fallback else 1
        return Clusters(numbers, [fallback] * size, failed=True)
    for index, number, members in zip(answered, found, cluster_sizes(found), strict=True):
        numbers[index], sizes[index] = number, members
    return Clusters(numbers, sizes)


def value_at(record: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path of a record; None if there is none."""
    value: Any = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
