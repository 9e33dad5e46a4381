"""Measure the accuracy and the cost of every subset of a panel.

All figures come from the verdicts that were asked anyway. A subset's preference on a pair is that
of the weighted mean of its judges' preferences, over both orders, so that a strong one counts more
than a weak one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from statistics import fmean

from genrm_cli.metrics.figures import rounded
from genrm_cli.metrics.running_stats import Estimated, paired_difference
from genrm_cli.products.evaluation.accuracy import (
    PairRecord,
    PairShare,
    credit_of_lead,
    means_by_item,
    share_of_items,
)
from genrm_cli.products.evaluation.panel_quality import panel_quality

_MOST_JUDGES = 6  # of which there are 63 subsets; of more, only single judges and all but one


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSubset:
    """Some judges of a panel.

    Attributes:
        accuracy: on the pairs that all judges of the panel decided.
        effective_judges: judges with independent errors that would err as little; None for one, and
            if it is unknown.
        tokens: of one order of a pair, of all its judges.
        behind: how much more often the whole panel is right, paired by line, with an interval that
            holds for all subsets together; None for the whole panel.
    """

    judges: tuple[str, ...]
    accuracy: PairShare
    effective_judges: float | None
    tokens: float
    behind: Estimated | None


def panel_subsets(
    by_judge: Mapping[str, Sequence[PairRecord]], weights: Sequence[float]
) -> tuple[PanelSubset, ...]:
    """Return the subsets of a panel, the most accurate first; empty for a single judge."""
    names = list(by_judge)
    rows = [
        row for row in zip(*by_judge.values(), strict=True) if all(each.has_both for each in row)
    ]
    if len(names) < 2 or not rows:
        return ()
    places = range(len(names))
    sizes = [*range(1, len(names) + 1)]
    if len(names) > _MOST_JUDGES:
        sizes = [1, *sizes[-2:]]
    chosen = [*chain.from_iterable(combinations(places, size) for size in sizes)]
    earned = {subset: _credits_of(rows, subset, weights) for subset in chosen}
    whole = means_by_item(earned[tuple(places)])
    found = []
    for subset in chosen:
        columns = [[row[place] for row in rows] for place in subset]
        own_weights = [weights[place] for place in subset]
        quality = panel_quality(columns, own_weights, with_intervals=False)
        found.append(
            PanelSubset(
                judges=tuple(names[place] for place in subset),
                accuracy=share_of_items(earned[subset]),
                effective_judges=quality.effective_judges.value if len(subset) > 1 else None,
                tokens=_tokens_of(columns),
                behind=None
                if len(subset) == len(names)
                else paired_difference(whole, means_by_item(earned[subset]), len(chosen) - 1, 1.0),
            )
        )
    # Rounded: the last bit of a mean must not decide the order.
    found.sort(key=lambda each: (-rounded(each.accuracy.value or 0.0), each.tokens))
    return tuple(found)


def _credits_of(
    rows: Sequence[Sequence[PairRecord]], subset: Sequence[int], weights: Sequence[float]
) -> list[tuple[str, float]]:
    """Return the joint credit of a subset for each pair, with the line of the pair."""
    return [
        (row[0].item, credit_of_lead(math.fsum(weights[k] * row[k].lead for k in subset)))
        for row in rows
    ]


def _tokens_of(columns: Sequence[Sequence[PairRecord]]) -> float:
    """Return the tokens that one order of a pair takes, over all judges."""
    return math.fsum(
        fmean(
            order.prompt_tokens + order.completion_tokens
            for pair in column
            for order in pair.orders
        )
        for column in columns
    )
