"""Compare judges, the ways to ask them, and their prices on the same labelled pairs.

    [axes]                          # every combination is a cell
    model = ["small", "large"]
    repeats = [1, 4]
    criteria = [false, true]        # without and with the [criteria] of the settings

    [[cell]]                        # or cells of their own
    name = "large, thinking"
    model = "large"
    request_field = ["reasoning_effort=high"]
    price_in = 2.0
    price_out = 8.0

A cell sets what changes a judge's verdicts on a pair, or their price. All cells use one journal:
cells share the requests that they have in common, such as the first of four repeats, and a run that
was interrupted goes on. The verdicts of both orders give two options for each cell: to ask in one
order, or in both at twice the price."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import product
from statistics import NormalDist, fmean
from typing import Any, Literal

from genrm_cli.errors import GenrmError, UsageError, counted
from genrm_cli.metrics.figures import WINS, rounded
from genrm_cli.metrics.running_stats import POWER, Estimated, joint_z_95, paired_difference
from genrm_cli.products.evaluation.accuracy import (
    JudgeQuality,
    PairRecord,
    PairShare,
    lead_of,
    means_by_item,
    pairs_to_tell,
    share_of_items,
)
from genrm_cli.products.evaluation.evaluate import EvalResult
from genrm_cli.rewards.estimators.mode_agreement import AGREEMENT, DISAGREE_BELOW, agreement_of_sums
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.table import all_settings, setting_named
from genrm_cli.typed_json import from_json

_COIN = 0.5
_MOST_CELLS = 200  # each asks about every pair; more are a mistake in the axes
# What a cell may set beside the settings of the judge itself: what changes its verdicts on a pair,
# or their price.
_CELL_KEYS = (
    *("repeats", "retries", "concurrency", "call_timeout"),
    *("price_in", "price_out"),
)
_LEAST_ITEMS = 10  # fewer say too little about a difference to plan by
# Less is not worth accuracy that may be lost: prices and lengths of replies vary as much.
_LEAST_SAVING = 0.1

# What `--compare-modes` compares.
MODES_GRID = {"axes": {"judging": ["pairwise", "listwise"]}}

CostUnit = Literal["cost", "tokens", "calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOption:
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
    orders: Literal[1, 2]
    accuracy: PairShare
    cost: float
    behind: Estimated | None
    is_coin: bool
    on_pareto_line: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCell:
    """A cell without figures, and why."""

    name: str
    settings: Mapping[str, Any]
    reason: str
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GridResult:
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


@dataclass(frozen=True, slots=True)
class GridCell:
    """What a cell of the file sets, and the settings that result."""

    name: str
    values: Mapping[str, Any]
    settings: Settings


@dataclass(frozen=True, slots=True)
class _GridFile:
    axes: Mapping[str, list[Any]] = field(default_factory=dict)
    cell: tuple[dict[str, Any], ...] = ()


def parse_grid(table: Mapping[str, Any], where: str, base: Settings) -> list[GridCell]:
    """Return the cells of a grid; see the top of this module."""
    unknown = table.keys() - {"axes", "cell"}
    if unknown:
        raise UsageError(f"{where}: unknown key {min(unknown)!r}; expected [axes] and [[cell]].")
    try:
        grid = from_json(_GridFile, table)
    except ValueError as error:
        raise UsageError(f"{where}: {error}.") from error
    if "name" in grid.axes:
        raise UsageError(f"{where}: axes has a name; only a [[cell]] has one.")
    count = len(grid.cell) + (math.prod(map(len, grid.axes.values())) if grid.axes else 0)
    if count > _MOST_CELLS:
        raise UsageError(f"{where}: {count:,} cells; at most {_MOST_CELLS}.")
    cells: dict[str, GridCell] = {}
    for given in (*_of_axes(grid.axes), *grid.cell):
        values = {key: value for key, value in given.items() if key != "name"}
        name = given.get("name", f"cell {len(cells) + 1}")
        if not isinstance(name, str) or not name:
            raise UsageError(f"{where}: the name {name!r} of a cell is not text.")
        if name in cells:
            raise UsageError(f"{where}: two cells are named {name!r}; rename one.")
        cells[name] = GridCell(name, values, _settings_of(values, base, f"{where}: {name}"))
    if not cells:
        raise UsageError(f"{where}: no cell; expected [axes] or [[cell]].")
    return list(cells.values())


def _of_axes(axes: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    if axes:
        for values in product(*axes.values()):
            cell = dict(zip(axes, values, strict=True))
            names = [f"{key} {_text_of(cell[key])}" for key in axes if len(axes[key]) > 1]
            yield {"name": ", ".join(names) or "the only cell", **cell}


def _settings_of(values: Mapping[str, Any], base: Settings, where: str) -> Settings:
    flat: dict[str, Any] = {}
    # Files name a setting by its key, and `Settings` by its name.
    names = {each.key: each.name for each in all_settings()}
    keys = {
        each.key for each in all_settings() if each.subject == "judge" or each.key in _CELL_KEYS
    }
    for key, value in values.items():
        if key == "criteria":
            if not isinstance(value, bool):
                raise UsageError(f"{where}: criteria is true or false, not {value!r}.")
            if value and base.judge.criteria is None:
                raise UsageError(f"{where}: the settings have no [criteria] to use; add the table.")
            flat["criteria"] = base.judge.criteria if value else None
        elif key in keys:
            flat[names[key]] = setting_named(names[key]).convert(value, f"{where}: {key}")
        elif key in names:
            raise UsageError(
                f"{where}: {key} is the same for all cells; a cell sets "
                f"{', '.join(sorted((*keys, 'criteria')))}."
            )
        else:
            raise UsageError(
                f"{where}: unknown setting {key!r}; a cell sets "
                f"{', '.join(sorted((*keys, 'criteria')))}."
            )
    return changed(base, **flat)


def _text_of(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def naming_cell(cell: GridCell) -> Iterator[None]:
    """Let an error begin with the name of the cell that it is about, if it has one."""
    try:
        yield
    except GenrmError as error:
        if not cell.name:
            raise
        raise type(error)(f"{cell.name}: ", error.message) from error


def failed_cell(cell: GridCell, error: GenrmError) -> FailedCell:
    """Return the record of a cell that ended in an error."""
    return FailedCell(
        name=cell.name, settings=cell.values, reason=str(error), exit_code=error.exit_code
    )


def compare_cells(
    found: Sequence[tuple[GridCell, EvalResult]], failed: Sequence[FailedCell] = ()
) -> GridResult:
    """Compare the results of cells on the same pairs, at least one."""
    cells = tuple(
        CellRecord(
            name=cell.name,
            settings=cell.values,
            **{each.name: getattr(result, each.name) for each in fields(CellRecord)[2:]},
        )
        for cell, result in found
    )
    unit, costs = _costs_of(cells)
    for cell, result in found:
        costs[cell.name] *= _paid_share(result.pairs)
    earned: dict[tuple[str, Literal[1, 2]], list[tuple[str, float]]] = {}
    for cell, result in found:
        earned[cell.name, 1] = _known(result.pairs, [pair.credit for pair in result.pairs])
        earned[cell.name, 2] = _known(result.pairs, [pair.joint_credit for pair in result.pairs])
    accuracies = {option: share_of_items(each) for option, each in earned.items()}
    prices = {option: rounded(costs[option[0]] * option[1]) for option in earned}
    shares = {option: means_by_item(each) for option, each in earned.items()}
    # Of equal options, the cheapest is first, and one order before both.
    ranked = sorted(
        accuracies,
        key=lambda option: (
            -rounded(accuracies[option].value or 0.0),
            prices[option],
            option[1],
        ),
    )
    best = ranked[0]
    options: list[GridOption] = []
    for option in ranked:
        accuracy = accuracies[option]
        cost = prices[option]
        low = accuracy.low
        options.append(
            GridOption(
                cell=option[0],
                orders=option[1],
                accuracy=accuracy,
                cost=cost,
                behind=None
                if option == best
                else paired_difference(shares[best], shares[option], len(ranked) - 1, 1.0),
                is_coin=low is None or low <= _COIN,
                on_pareto_line=all(cost < each.cost for each in options),
            )
        )
    first = found[0][1].figures
    answer, more = _answer_of(options, unit)
    return GridResult(
        pairs=first.pairs,
        items=first.items,
        cells=cells,
        failed=tuple(failed),
        cost_unit=unit,
        options=tuple(options),
        more_pairs=more,
        agreement=_agreement(found),
        answer=answer,
    )


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
    items = defaultdict[str, list[str]](list)
    for pair in one:
        if pair.id in leads and pair.id in others:
            items[pair.item].append(pair.id)
    sums = [
        (
            sum(leads[pair][0] * leads[pair][1] for pair in pairs),
            sum(others[pair][0] * others[pair][1] for pair in pairs),
            sum(sum(leads[pair]) * sum(others[pair]) / 4 for pair in pairs),
        )
        for pairs in items.values()
    ]
    return agreement_of_sums(sums)


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


def _leads_of(pairs: Sequence[PairRecord]) -> dict[str, tuple[float, float]]:
    """Return the lead of the chosen response in both orders, without the preference for a position,
    by the id of the pair; those with both verdicts.
    """
    found = {}
    for pair in pairs:
        first, second = (order.verdict for order in pair.orders)
        if first is not None and second is not None:
            found[pair.id] = (lead_of(first), -lead_of(second))
    if not found:
        return {}
    lean = fmean(first - second for first, second in found.values()) / 2
    return {name: (first - lean, second + lean) for name, (first, second) in found.items()}


def _paid_share(pairs: Sequence[PairRecord]) -> float:
    """Return the share of judgements that took calls: a list is one call for all of its pairs."""
    orders = [order for pair in pairs for order in pair.orders if order.was_asked]
    return sum(order.attempts > 0 for order in orders) / max(1, len(orders))


def _known(pairs: Sequence[PairRecord], values: Sequence[float | None]) -> list[tuple[str, float]]:
    """Return the values that are known, each with the line of its pair."""
    both = zip(pairs, values, strict=True)
    return [(pair.item, value) for pair, value in both if value is not None]


def _costs_of(cells: Sequence[CellRecord]) -> tuple[CostUnit, dict[str, float]]:
    """Return the unit of cost that all cells have, and that of one order of a pair by cell."""
    money = {cell.name: cell.figures.cost_per_judgement for cell in cells}
    tokens = {
        cell.name: (cell.figures.prompt_tokens_per_judgement or 0.0)
        + (cell.figures.completion_tokens_per_judgement or 0.0)
        for cell in cells
    }
    known = {name: cost for name, cost in money.items() if cost is not None}
    if len(known) == len(cells):
        return "cost", known
    if all(tokens.values()):
        return "tokens", tokens
    return "calls", {cell.name: cell.figures.calls_per_judgement or 0.0 for cell in cells}


def _answer_of(options: Sequence[GridOption], unit: CostUnit) -> tuple[str, int | None]:
    """Return which option to take, and how many more pairs would tell."""
    best = options[0]
    name = _name_of(best)
    accuracy = best.accuracy
    if best.is_coin or accuracy.value is None:
        return (
            f"{name} is the most accurate, but may be no better than chance: its interval is not "
            f"above 50 % on {counted(accuracy.pairs, 'pair')}.",
            None,
        )
    top = rounded(accuracy.value)
    tied = sum(rounded(option.accuracy.value or 0.0) == top for option in options[1:])
    share = f"{WINS.number(accuracy.value)}% of {counted(accuracy.pairs, 'pair')}"
    if tied:
        share += f", tied with {counted(tied, 'other')}"
    saving = [option for option in options if option.cost < (1 - _LEAST_SAVING) * best.cost]
    like = [
        option
        for option in saving
        if option.behind is None or option.behind.low is None or option.behind.low <= 0
    ]
    sound = [option for option in like if not option.is_coin]
    coins = [option for option in like if option.is_coin]
    coin = f"; {_coin_text(min(coins, key=lambda option: option.cost))}" if coins else ""
    if not sound:
        why = f"nothing costs over {_LEAST_SAVING:.0%} less"
        if saving:
            why = f"no option that costs over {_LEAST_SAVING:.0%} less is as good"
        return f"{name} is right most often ({share}), and {why}{coin}.", None
    cheapest = min(sound, key=lambda option: option.cost)
    less = f"costs {1 - cheapest.cost / best.cost:.0%} less ({unit})"
    more = _more_pairs(cheapest)
    told = "" if more is None else f"; at this difference, about {more:,} more pairs would tell"
    return (
        f"{_name_of(cheapest)} {less} and cannot be told from {name}, the most accurate "
        f"({share}){told}{coin}.",
        more,
    )


def _coin_text(option: GridOption) -> str:
    """Return why an option that costs less is not recommended."""
    needed = pairs_to_tell(option.accuracy)
    told = "" if needed is None else f": about {needed:,} pairs would tell"
    return f"{_name_of(option)} may be no better than chance{told}"


def _more_pairs(option: GridOption) -> int | None:
    """Return about how many more pairs would show the difference in 80 % of cases."""
    gap = option.behind
    if gap is None or gap.value is None or gap.low is None or gap.value <= 0:
        return None
    if option.accuracy.items < _LEAST_ITEMS:
        return None
    # Half of an interval at the joint level, and what more it takes for the power. It narrows with
    # the root of the number of pairs.
    z = joint_z_95(1)
    wider = (gap.value - gap.low) * (1 + NormalDist().inv_cdf(POWER) / z) / gap.value
    return max(0, math.ceil(option.accuracy.pairs * (wider**2 - 1)))


def _name_of(option: GridOption) -> str:
    return f"{option.cell!r} in {'both orders' if option.orders == 2 else 'one order'}"
