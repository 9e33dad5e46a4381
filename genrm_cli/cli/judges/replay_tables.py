"""`genrm simulate --replay`: plans and estimators on the recorded verdicts of real judges."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from genrm_cli.catalog import ESTIMATORS, STRATEGIES
from genrm_cli.cli.console import add_row, counted, new_table, print_json, print_table, print_text
from genrm_cli.errors import UsageError

if TYPE_CHECKING:
    from genrm_cli.simulation.plan_metrics import Plan
    from genrm_cli.simulation.replay import Estimated, ReplayMetrics

DEFAULT_STRATEGIES = ("circular", "all_pairs", "ring")
DEFAULT_ESTIMATORS = ("simple_tiebreaker", "combined", "adaptive")
_MAX_CALLS = 100_000
_LEGEND = (
    "Agreement: correlation of the rewards with the consensus of the verdicts that the plan does not use; its own "
    "noise lowers it, so compare only rows with the same number of calls. All: with the consensus of all verdicts. "
    "±: half of the 95 % interval, by bootstrap over groups. Predicted: the reliability as a run of the strategy's "
    "first plan predicts it. Measured: the correlation of two such plans."
)


@dataclass(frozen=True, slots=True)
class _Replayed:
    """The plans replayed on the verdicts of one judge, and the groups that were left out."""

    judge: str
    n: int
    groups: int
    left_out_groups: int
    figures: "list[ReplayMetrics]"


def replay_verdicts(
    uri: str,
    judge: str | None,
    strategies: Sequence[str] | None,
    calls: Sequence[str] | None,
    estimators: Sequence[str] | None,
    prices: Sequence[str] | None,
    *,
    seed: int,
    as_json: bool,
) -> int:
    """Replay plans on the judges of a file, or on one of them, and print a table for each.

    With prices, replay judges that share the pairs.
    """
    if prices:
        if judge or strategies or calls or estimators:
            raise UsageError("--price sets judges and plans; omit --judge, --strategy, --calls and --estimator.")
        return _replay_shares(uri, dict(map(_price, prices)), seed=seed, as_json=as_json)
    from genrm_cli.simulation.recorded_verdicts import read_judges
    from genrm_cli.simulation.replay import dense_verdicts, replay

    names = known_names(estimators or DEFAULT_ESTIMATORS, ESTIMATORS, "estimator")
    judges = read_judges(uri)
    if judge is not None:
        judges = {judge: judges[_known(judge, judges, uri)]}
    dense = {name: found for name, kept in judges.items() if (found := dense_verdicts(list(kept.values()))) is not None}
    if not dense:
        raise UsageError(
            f"{uri} holds no two groups{'' if judge is None else f' of {judge!r}'} of three or more rollouts with all "
            "pairs in both orders, as `genrm score --strategy all_pairs --both-orders` makes them."
        )
    results = []
    for name, found in dense.items():
        groups, n = found.shape
        plans = [plan for plan in plans_of(n, strategies or DEFAULT_STRATEGIES, calls) if _leaves_verdicts(plan, n)]
        if not plans:
            raise UsageError(f"no plan leaves verdicts of {n} rollouts unused; choose fewer --calls.")
        rows = list(replay(name, found, plans, names, seed=seed))
        results.append(_Replayed(name, n, groups, len(judges[name]) - groups, rows))
    sparse = [name for name in judges if name not in dense]
    if as_json:
        print_json({"file": uri, "seed": seed, "judges": list(map(asdict, results)), "left_out_judges": sparse})
    else:
        for result in results:
            _print_judge(result)
        if sparse:
            print_text(
                f"Left out, without two groups judged in all pairs and both orders: {', '.join(map(str, sparse))}."
            )
        print_text(_LEGEND)
    return 0


def _known(judge: str, judges: Mapping[str, object], uri: str) -> str:
    if judge not in judges:
        raise UsageError(f"{uri} holds no verdict of {judge!r}; it has those of {', '.join(map(str, judges))}.")
    return judge


def _price(text: str) -> tuple[str, float]:
    name, _, price = text.rpartition("=")
    with suppress(ValueError):
        if name and 0 < float(price) < math.inf:
            return name, float(price)
    raise UsageError(f"--price {text!r} is not a judge with the price of one call, as in gpt-4=0.02.")


def _replay_shares(uri: str, prices: Mapping[str, float], *, seed: int, as_json: bool) -> int:
    """Print what a second, cheaper judge on all pairs adds to each judge, and what it costs."""
    from genrm_cli.simulation.recorded_verdicts import read_judges
    from genrm_cli.simulation.replay_shares import replay_shares

    if len(set(prices.values())) < 2:
        raise UsageError("--price needs two judges or more, of different prices.")
    judges = read_judges(uri)
    priced = {_known(name, judges, uri): judges[name] for name in prices}
    rows = list(replay_shares(priced, prices, seed=seed))
    if not rows:
        raise UsageError(
            f"{uri} holds no two groups of three or more rollouts that two judges of different prices compared in all "
            "pairs and both orders."
        )
    if as_json:
        print_json({"file": uri, "seed": seed, "prices": prices, "figures": list(map(asdict, rows))})
        return 0
    table = new_table("judge", "and on all pairs", "rings", "cost", "agreement", "gain", "reliability", texts=2)
    for row in rows:
        numbers = (f"{row.rings:g}", f"{row.cost:g}", _interval_text(row.agreement))
        gain = _interval_text(row.gain, sign="+") if row.gain else ""
        add_row(table, row.judge, row.second or "", *numbers, gain, _number_text(row.reliability))
    print_table(table)
    print_text(
        "Agreement: correlation of the rewards with the consensus of the first judge's verdicts that are not used. "
        "Gain: over the first judge alone with the most rings that cost no more. ±: half of the 95 % interval, by "
        "bootstrap over groups. Cost: per group."
    )
    return 0


def _leaves_verdicts(plan: "Plan", n: int) -> bool:
    """Return whether a plan asks no comparison twice and leaves verdicts that connect the rollouts."""
    return plan.repeats == 1 and plan.calls <= n * (n - 1) - 2 * n


def _print_judge(result: "_Replayed") -> None:
    left_out = f"; {counted(result.left_out_groups, 'other group')} left out" if result.left_out_groups else ""
    print_text(f"{result.judge}: {counted(result.groups, 'group')} of {result.n}{left_out}")
    print_table(_table(result.figures))
    print_text()


def _table(rows: "Sequence[ReplayMetrics]") -> Table:
    heads = ("calls", "agreement", "gain", "all", "reliability", "predicted", "measured")
    table = new_table("strategy", "estimator", *heads, texts=2)
    for row in rows:
        add_row(
            table,
            row.strategy,
            row.estimator,
            str(row.calls),
            _interval_text(row.agreement),
            _interval_text(row.gain, sign="+"),
            f"{row.agreement_all.value:.3f}",
            _number_text(row.reliability),
            _number_text(row.reliability_predicted),
            _number_text(None if row.reliability_measured is None else row.reliability_measured.value),
        )
    return table


def _interval_text(number: "Estimated", sign: str = "") -> str:
    return f"{number.value:{sign}.3f} ±{(number.high - number.low) / 2:.3f}"


def _number_text(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def plans_of(n: int, strategies: Sequence[str], calls: Sequence[str] | None) -> list["Plan"]:
    """Return each plan once, ordered by strategy, then by calls."""
    from genrm_cli.simulation.plan_metrics import plan_within

    strategies = known_names(strategies, STRATEGIES, "strategy")
    pairs = n * (n - 1) // 2
    budgets = [parse_integer(text, "--calls", 1, _MAX_CALLS) for text in calls or ()]
    budgets = sorted(set(budgets or (n, 2 * n, 3 * n, 4 * n, pairs, 2 * pairs)))
    plans = [plan_within(name, n, budget) for name in strategies for budget in budgets]
    found = list(dict.fromkeys(plan for plan in plans if plan is not None))
    if not found:
        raise UsageError(f"{budgets[-1]} calls per group are too few for {', '.join(strategies)} with {n} rollouts.")
    return found


def known_names(names: Sequence[str], known: Iterable[str], kind: str) -> list[str]:
    """Return each name once, with hyphens as underscores."""
    chosen = {name.replace("-", "_"): name for name in names}
    if unknown := set(chosen) - set(known):
        raise UsageError(f"unknown {kind} {chosen[min(unknown)]!r}; expected {', '.join(known)}.")
    return list(chosen)


def parse_integer(text: str, flag: str, low: int, high: int) -> int:
    """Parse the integer value of a flag.

    Raises:
        UsageError: it is not an integer, or is out of range.
    """
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not an integer.") from None
    if not low <= number <= high:
        raise UsageError(f"{flag} is {number}; expected {low} to {high}.")
    return number
