"""Reward components: the values of one component for a group, and the kinds of components.

    >>> from genrm_cli.rewards.component import Column, LocalKind
    >>> from genrm_cli.rollouts.rollout import Rollout, Text
    >>> from genrm_cli.settings import checks
    >>> from genrm_cli.settings.components import Component

    >>> def compute(component, rollouts, records, ids):
    ...     most = int(component.option("words") or 100)
    ...     answers = [rollout.answer for rollout in rollouts]
    ...     return Column([None if text is None else min(1.0, most / len(text.split()))
    ...                    for text in answers])

    >>> BREVITY = LocalKind(
    ...     options={"words": checks.integer(1, 10_000)},
    ...     source="responses",
    ...     reads_record=lambda component: False,
    ...     compute=compute,
    ... )
    >>> rollouts = [Rollout((), (Text("Yes."),)), Rollout((), (Text("It is so."),))]
    >>> BREVITY.compute(Component("brevity", "brevity", (("words", 1),)), rollouts, [], []).values
    [1.0, 0.3333333333333333]

A kind is such an object in a module of `genrm_cli.rewards.components`, or an entry point of the
group `genrm.components` of an installed package."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from genrm_cli.errors import UsageError
from genrm_cli.json_types import JsonObject
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.rollouts.rollout import Rollout
from genrm_cli.settings.components import Component, ComponentKind, find_kind

Values = list[float | None]
RolloutId = tuple[str | None, int]
"""The key of a group, None for a rollout that belongs to none, and the index in it."""
Rollouts = Sequence[Rollout]
Lines = Sequence[JsonObject]
Ids = Sequence[RolloutId]

MOST = 1e9
"""The maximum value of a component: sums and squares of larger values would overflow."""


class Column(Struct):
    """One component of all rollouts of a group, in its order; None for a missing value, and
    `failure` why.

    `notes` are the evidence for each value (phrases, quotations); empty if there is none.
    """

    values: Values
    notes: list[Any] = []
    failure: str | None = None

    def note(self, index: int) -> Any:
        """Return the evidence for a rollout's value; None if there is none."""
        return self.notes[index] if self.notes else None

    def spread(self, rows: Sequence[int], size: int) -> "Column":
        """Return the column of a group in which only some rollouts, in order, have values."""
        row_of = {index: row for row, index in enumerate(rows)}
        return self._picked([row_of.get(index) for index in range(size)])

    def checked(self, size: int, component: str) -> "Column":
        """Check for `size` finite values or None, and for notes that JSON can hold.

        Raises:
            UsageError: it has not.
        """
        odd = [value for value in self.values if not _is_value(value)]
        if odd or len(self.values) != size:
            found = f"the value {odd[0]!r:.40}" if odd else f"{len(self.values)} values"
            raise UsageError(
                f"the component {component} returned {found}; expected {size} values: numbers up "
                f"to {MOST:g}, or None."
            )
        try:
            json.dumps(self.notes, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the component {component}: notes are not JSON: {error}.") from error
        # A number of numpy is a float that has no form in JSON.
        values = [float(value) if isinstance(value, float) else value for value in self.values]
        return Column(values, self.notes, self.failure)

    def with_copies(self, copies: Mapping[int, int]) -> "Column":
        """Return the column in which a rollout without a value has that of the one that it
        copies.
        """
        if not copies:
            return self
        rows = [
            copies.get(index, index) if value is None else index
            for index, value in enumerate(self.values)
        ]
        return self._picked(rows)

    def _picked(self, rows: Sequence[int | None]) -> "Column":
        def pick(cells: Sequence[Any]) -> list[Any]:
            return [None if row is None else cells[row] for row in rows]

        return Column(pick(self.values), pick(self.notes) if self.notes else [], self.failure)


def _is_value(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and -MOST <= value <= MOST)


class LocalKind(ComponentKind, frozen=True, kw_only=True):
    """A kind that needs neither judge nor verdict; if it is `of_a_group`, rollouts of different
    prompts have no values.

    `compute` takes the rollouts of a group, their lines and their ids. May be slow; runs in a
    thread."""

    compute: Callable[[Component, Rollouts, Lines, Ids], Column]
    reads_record: Callable[[Component], bool] = lambda _component: True
    of_a_group: bool = False


class GroupKind(ComponentKind, frozen=True, kw_only=True):
    """A kind that is computed from the verdicts on a group, or from other components of it
    (`inputs`).

    `compute` takes the component, the number of rollouts, the verdicts and the columns of `inputs`.
    It is called only where the rollouts answer one prompt."""

    compute: Callable[[Component, int, Verdicts, Mapping[str, Column]], Values]


def local_kind(component: Component) -> LocalKind | None:
    """Return the kind of a component that needs neither judge nor verdict; None for other
    components.
    """
    kind = find_kind(component.kind)
    return kind if isinstance(kind, LocalKind) else None


def reads_record(component: Component) -> bool:
    """Whether a component reads fields of the line."""
    kind = local_kind(component)
    return kind is not None and kind.reads_record(component)


def why_refused(found: Sequence[object], read: Sequence[object], expected: str) -> str | None:
    """Describe the first unreadable value; None if there is none."""
    refused = [
        given
        for given, value in zip(found, read, strict=True)
        if given is not None and value is None
    ]
    return f"{refused[0]!r:.40} is not a {expected}" if refused else None
