"""The rank of each value of a group."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Literal

from genrm_cli.metrics.figures import rounded
from genrm_cli.rewards.component import Column, GroupKind, Values
from genrm_cli.rewards.estimators.verdict_batch import Verdicts
from genrm_cli.settings import checks
from genrm_cli.settings.components import GENRM, Component


def rank_values(
    values: Sequence[float | None], ties: Literal["mean", "order"] = "mean"
) -> list[float | None]:
    """Return each value's position in ascending order, divided by n - 1: 0.0 the least, 1.0 the
    greatest.

    n counts the values that are not None; a single value gets 1.0. Equal values have the mean of
    their positions, so all are 0.5 in a group without spread; with `order`, the first in the group
    has the lower position."""
    order = sorted(
        (rounded(value), index) for index, value in enumerate(values) if value is not None
    )
    numbers = [value for value, _ in order]
    ranks: list[float | None] = [None] * len(values)
    for position, (value, index) in enumerate(order):
        if ties == "mean":
            of_equals = bisect_left(numbers, value) + bisect_right(numbers, value) - 1
            ranks[index] = of_equals / 2 / (len(order) - 1) if len(order) > 1 else 1.0
        else:
            ranks[index] = position / (len(order) - 1) if len(order) > 1 else 1.0
    return ranks


def _of(component: Component) -> str:
    return component.option("of") or GENRM


def _compute(
    component: Component, _n: int, _verdicts: Verdicts, columns: Mapping[str, Column]
) -> Values:
    return rank_values(
        columns[_of(component)].values, "order" if component.option("ties") == "order" else "mean"
    )


KIND = GroupKind(
    options={"of": checks.text, "ties": checks.one_of(("mean", "order"))},
    short="of",
    inputs=lambda component: (_of(component),),
    compute=_compute,
)
"""The source is that of the ranked component."""
