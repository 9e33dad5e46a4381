"""Compare judges, the ways to ask them, and their prices on the same labelled pairs.

The verdicts of both orders give two options for each cell of a grid: to ask in one order, or in
both at twice the price."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from statistics import fmean
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import counted
from genrm_cli.metrics.figures import WINS, rounded
from genrm_cli.metrics.running_stats import Estimated, paired_difference
from genrm_cli.products.evaluation.accuracy import (
    EVEN,
    JudgeQuality,
    PairShare,
    means_by_item,
    pairs_to_tell,
    share_of_items,
    values_of,
)
from genrm_cli.products.evaluation.evaluate import EvalResult
from genrm_cli.products.evaluation.grid_file import GridCell
from genrm_cli.products.evaluation.pair_records import PairRecord
from genrm_cli.rewards.estimators.mode_agreement import AGREEMENT, DISAGREE_BELOW, agreement_of_sums

# Less is not worth accuracy that may be lost: prices and lengths of replies vary as much.
_LEAST_SAVING = 0.1

CostUnit = Literal["cost", "tokens", "calls"]
Orders = Literal[1, 2]
_UNITS: tuple[tuple[CostUnit, Callable[[JudgeQuality], float]], ...] = (
    ("cost", lambda figures: figures.cost_per_judgement or 0.0),
    (
        "tokens",
        lambda figures: (
            (figures.prompt_tokens_per_judgement or 0.0)
            + (figures.completion_tokens_per_judgement or 0.0)
        ),
    ),
    ("calls", lambda figures: figures.calls_per_judgement or 0.0),
)
# What a pair earns by the number of orders it is asked in.
_CREDITS: tuple[tuple[Orders, Callable[[PairRecord], float | None]], ...] = (
    (1, attrgetter("credit")),
    (2, attrgetter("joint_credit")),
)


class GridOption(Struct, frozen=True, kw_only=True):
    """One way to judge a pair: a cell, asked in one order or in both.

    Attributes:
        accuracy: of one order, the mean over both; of both, that of their joint preference: where
            they disagree, the stronger one counts.
        cost: per pair, in the unit of the grid.
        behind: how much more often the most accurate option is right, paired by line, with an
            interval that holds for all options together; None for that option itself.
        is_coin: whether the interval of the accuracy is not above a half.
        on_pareto_line: whether no option is both cheaper and more accurate.
    """

    cell: str
    orders: Orders
    accuracy: PairShare
    cost: float
    behind: Estimated | None
    is_coin: bool
    on_pareto_line: bool


class CellRecord(Struct, frozen=True, kw_only=True):
    """One cell: its settings, its figures, and what it took, as in the result of `genrm eval`."""

    name: str
    settings: Mapping[str, Any]
    figures: JudgeQuality
    by_category: Mapping[str, JudgeQuality]
    calls: int
    journal_hits: int
    prompt_tokens: int
    completion_tokens: int
    wall_time_s: float


class FailedCell(Struct, frozen=True, kw_only=True):
    """A cell without figures, and why."""

    name: str
    settings: Mapping[str, Any]
    reason: str
    exit_code: int


class GridResult(Struct, frozen=True, kw_only=True):
    """All cells on the same pairs.

    Attributes:
        failed: cells that are not compared.
        cost_unit: money if every cell has prices, else tokens, else calls.
        options: the most accurate first.
        more_pairs: about how many more would tell the recommended option from the most accurate
            one; None if these are the same, or if it is unknown.
        agreement: of a judge asked in two modes, beyond the noise of both; None for other cells.
        answer: the result as a sentence.
    """

    format: Literal[1] = 1
    pairs: int
    items: int
    cells: tuple[CellRecord, ...]
    failed: tuple[FailedCell, ...]
    cost_unit: CostUnit
    options: tuple[GridOption, ...]
    more_pairs: int | None
    agreement: Estimated | None
    answer: str


def compare_cells(
    found: Sequence[tuple[GridCell, EvalResult]], failed: Sequence[FailedCell] = ()
) -> GridResult:
    """Compare the results of cells on the same pairs, at least one."""
    unit, costs = _costs_of([result for _, result in found])
    options: list[tuple[GridOption, Mapping[str, float]]] = []  # each with the mean of each line
    for (cell, result), cost in zip(found, costs, strict=True):
        for orders, credit in _CREDITS:
            earned = values_of(result.pairs, credit)
            accuracy = share_of_items(earned)
            option = GridOption(
                cell=cell.name,
                orders=orders,
                accuracy=accuracy,
                cost=rounded(cost * orders),
                behind=None,
                is_coin=accuracy.low is None or accuracy.low <= EVEN,
                on_pareto_line=True,
            )
            options.append((option, means_by_item(earned)))
    # Of equal options, the cheapest is first, and one order before both.
    options.sort(
        key=lambda each: (-rounded(each[0].accuracy.value or 0.0), each[0].cost, each[0].orders),
    )
    (best, best_means), *others = options
    ranked = [best]
    for option, means in others:
        behind = paired_difference(best_means, means, len(others), 1.0)
        is_cheaper = all(option.cost < each.cost for each in ranked)
        ranked.append(replace(option, behind=behind, on_pareto_line=is_cheaper))
    answer, more = _answer_of(ranked, unit)
    figures = found[0][1].figures
    return GridResult(
        pairs=figures.pairs,
        items=figures.items,
        cells=tuple(
            CellRecord(
                name=cell.name,
                settings=cell.values,
                **{name: getattr(result, name) for name in CellRecord.__struct_fields__[2:]},
            )
            for cell, result in found
        ),
        failed=tuple(failed),
        cost_unit=unit,
        options=tuple(ranked),
        more_pairs=more,
        agreement=_agreement(found),
        answer=answer,
    )


def _costs_of(results: Sequence[EvalResult]) -> tuple[CostUnit, list[float]]:
    """Return the unit of cost that all cells have, and what each pays for one order of a pair."""
    unit, cost_of = next(
        (each for each in _UNITS if all(each[1](result.figures) for result in results)),
        _UNITS[-1],
    )
    return unit, [cost_of(each.figures) * _paid_share(each.pairs) for each in results]


def _paid_share(pairs: Sequence[PairRecord]) -> float:
    """Return the share of judgements that took calls: a list is one call for all of its pairs."""
    orders = [order for pair in pairs for order in pair.orders if order.was_asked]
    return sum(order.attempts > 0 for order in orders) / max(1, len(orders))


def _agreement(found: Sequence[tuple[GridCell, EvalResult]]) -> Estimated | None:
    modes = [cell.settings.judge.judging for cell, _ in found]
    if len(modes) != 2 or modes[0] == modes[1]:
        return None
    return pair_agreement(found[0][1].pairs, found[1][1].pairs)


def pair_agreement(one: Sequence[PairRecord], other: Sequence[PairRecord]) -> Estimated:
    """Return the correlation of the leads of the chosen responses, without the noise of both ways,
    with its 95 % interval; unknown for fewer than three lines with all verdicts, or without signal.

    The two orders of a pair are two measurements of its lead: what they share is signal.

    Source: correction for attenuation, C. Spearman, American Journal of Psychology 15 (1904) 72.
    """
    leads = _leads_of(one)
    others = _leads_of(other)
    sums = defaultdict[str, list[tuple[float, float, float]]](list)
    for key, (a, b) in leads.items():
        if key in others:
            c, d = others[key]
            sums[key[0]].append((a * b, c * d, (a + b) * (c + d) / 4))
    return agreement_of_sums([tuple(np.sum(each, axis=0).tolist()) for each in sums.values()])


def agreement_text(found: Estimated) -> str:
    """Return what an agreement says, as a sentence."""
    if found.value is None or found.high is None:
        return "Whether the two ways agree beyond their noise is unknown: too few pairs."
    beyond = f"The two ways agree by {found.text(AGREEMENT)} beyond their noise"
    if found.high < DISAGREE_BELOW:
        return f"{beyond}: they disagree, and only the labels tell which is right."
    if found.value < DISAGREE_BELOW:
        return f"{beyond}: too few pairs to tell whether they agree."
    return f"{beyond}."


def _leads_of(
    pairs: Sequence[PairRecord],
) -> dict[tuple[str, tuple[int, int]], tuple[float, float]]:
    """Return the lead of the chosen response in both orders, without the preference for a position,
    by the key of the pair; those with both verdicts.
    """
    known = {}
    for pair in pairs:
        first, second = pair.leads
        if first is not None and second is not None:
            known[pair.key] = first, second
    lean = fmean(a - b for a, b in known.values()) / 2 if known else 0.0
    return {name: (a - lean, b + lean) for name, (a, b) in known.items()}


def _answer_of(options: Sequence[GridOption], unit: CostUnit) -> tuple[str, int | None]:
    """Return which option to take, and how many more pairs would tell."""
    best = options[0]
    name = _name_of(best)
    pairs = counted(best.accuracy.pairs, "pair")
    if best.is_coin:
        return (
            f"{name} is the most accurate, but may be no better than chance: its interval is not "
            f"above 50 % on {pairs}.",
            None,
        )
    top = rounded(best.accuracy.value or 0.0)
    share = f"{WINS.number(top)}% of {pairs}"
    tied = sum(rounded(option.accuracy.value or 0.0) == top for option in options[1:])
    if tied:
        share += f", tied with {counted(tied, 'other')}"
    by_cost = sorted(options, key=lambda option: option.cost)
    saving = [option for option in by_cost if option.cost < (1 - _LEAST_SAVING) * best.cost]
    like = [option for option in saving if not _is_behind(option)]
    coins = [_coin_text(option) for option in like if option.is_coin]
    coin = "".join(f"; {text}" for text in coins[:1])
    sound = [option for option in like if not option.is_coin]
    if not sound:
        why = f"nothing costs over {_LEAST_SAVING:.0%} less"
        if saving:
            why = f"no option that costs over {_LEAST_SAVING:.0%} less is as good"
        return f"{name} is right most often ({share}), and {why}{coin}.", None
    cheapest = sound[0]
    less = f"costs {1 - cheapest.cost / best.cost:.0%} less ({unit})"
    needed = None
    if cheapest.behind is not None:
        needed = pairs_to_tell(cheapest.behind, 0.0, cheapest.accuracy)
    more = None if needed is None else needed - cheapest.accuracy.pairs
    told = "" if more is None else f"; at this difference, about {more:,} more pairs would tell"
    return (
        f"{_name_of(cheapest)} {less} and cannot be told from {name}, the most accurate "
        f"({share}){told}{coin}.",
        more,
    )


def _is_behind(option: GridOption) -> bool:
    """Return whether an option is surely right less often than the most accurate one."""
    return option.behind is not None and option.behind.low is not None and option.behind.low > 0


def _coin_text(option: GridOption) -> str:
    """Return why an option that costs less is not recommended."""
    needed = pairs_to_tell(option.accuracy, EVEN, option.accuracy)
    told = "" if needed is None else f": about {needed:,} pairs would tell"
    return f"{_name_of(option)} may be no better than chance{told}"


def _name_of(option: GridOption) -> str:
    return f"{option.cell!r} in {'both orders' if option.orders == 2 else 'one order'}"
