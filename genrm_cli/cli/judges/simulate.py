"""`genrm simulate`: estimate reward accuracy for a call budget, on a simulated judge or on recorded verdicts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from genrm_cli.catalog import ESTIMATORS, STRATEGIES, listed
from genrm_cli.cli.console import counted, percent_text, print_json, working
from genrm_cli.cli.options import exits, option, switch
from genrm_cli.cli.tables import Table, names, numbers, print_parts
from genrm_cli.errors import UsageError
from genrm_cli.json_types import Record

if TYPE_CHECKING:
    from genrm_cli.rewards.estimators.verdict_batch import Verdicts
    from genrm_cli.simulation.plan_metrics import Plan
    from genrm_cli.simulation.replay import DenseVerdicts, Estimated, ReplayMetrics
    from genrm_cli.simulation.replay_goals import GoalReplay

_PLAN = (*names("strategy", "estimator"), *numbers("calls"))
_STRATEGIES = ("circular", "all_pairs", "ring")
_ESTIMATORS = ("simple_tiebreaker", "combined", "adaptive")
_LEGEND = (
    "Agreement: correlation of the rewards with the consensus of the verdicts that the plan does not use; its own "
    "noise lowers it, so compare only rows with the same number of calls. All: with the consensus of all verdicts. "
    "±: half of the 95 % interval, by bootstrap over groups."
)
_Calls = Annotated[
    list[int] | None,
    option(
        "N",
        "Judge calls per group; each strategy uses its largest plan within them. Repeatable. "
        "Default: 1, 2, 3 and 4 per rollout, the number of pairs, and twice that.",
        min=1,
        max=100_000,
    ),
]
_Strategy = Annotated[
    list[str] | None,
    option("NAME", f"Which pairs to compare: {listed(STRATEGIES)}. Repeatable. Default: {listed(_STRATEGIES)}."),
]
_Estimator = Annotated[
    list[str] | None,
    option("NAME", f"How verdicts become rewards: {listed(ESTIMATORS)}. Repeatable. Default: {listed(_ESTIMATORS)}."),
]
_Replay = Annotated[
    str | None,
    option(
        "FILE",
        "Replay the plans on recorded verdicts instead of simulating: a *.comparisons.jsonl of a run with "
        "--strategy all_pairs --both-orders.",
    ),
]
_Price = Annotated[
    list[str] | None,
    option(
        "JUDGE=PRICE",
        "With --replay: the price of one call of a judge. Repeatable. Shows what a cheaper judge on all pairs adds "
        "to a more expensive one.",
    ),
]


_Goal = Annotated[
    str | None,
    option(
        "NAME",
        "With --replay: best or pair. Compares the calls of this goal with those of rings that find as good a best, or "
        "as good a pair of the best and the worst.",
    ),
]


@exits
def simulate(
    n: Annotated[int | None, option("N", "Rollouts in a group, 2 to 128. Default: 16.", min=2, max=128)] = None,
    calls: _Calls = None,
    strategy: _Strategy = None,
    estimator: _Estimator = None,
    groups: Annotated[int | None, option("N", "Groups to simulate. Default: 4000.", min=2, max=1_000_000)] = None,
    seed: Annotated[int, option("N", "Random seed; the same seed gives the same results.", min=0)] = 0,
    replay: _Replay = None,
    goal: _Goal = None,
    price: _Price = None,
    as_json: Annotated[bool, switch("--json", "Print one JSON object.")] = False,
) -> None:
    """Estimate reward accuracy for a call budget.

    The simulated judge sees the true quality of each rollout with position bias, noise and ties. The table shows
    how the rewards correlate with the truth, and how often the best rollout ranks first. The judge is nearly linear:
    differences between plans transfer to a real judge better than absolute values do. Use --replay to compare plans on
    your own judge's verdicts.

    Example: genrm simulate

    Example: genrm simulate --n 8 --calls 16 --calls 28 --strategy ring --estimator combined

    Example: genrm simulate --replay run.comparisons.jsonl
    """
    if replay is None and price:
        raise UsageError("--price needs --replay, with the verdicts of several judges.")
    if replay is not None and (n or groups):
        raise UsageError("--replay uses recorded verdicts; omit the options of the simulation.")
    if goal is not None:
        if replay is None or price or strategy or estimator:
            raise UsageError("--goal needs --replay, and no --price, --strategy or --estimator.")
        (known,) = _known_names([goal], ("best", "pair"), "goal")
        _replay_goal(replay, known, calls, seed=seed, as_json=as_json)
        return
    if price and (strategy or calls or estimator):
        raise UsageError("--price sets the plans; omit --strategy, --calls and --estimator.")
    if price:
        _replay_shares(str(replay), dict(map(_price, price)), seed=seed, as_json=as_json)
        return
    estimators = _known_names(estimator or _ESTIMATORS, ESTIMATORS, "estimator")
    strategies = _known_names(strategy or _STRATEGIES, STRATEGIES, "strategy")
    if replay is not None:
        _replay(replay, strategies, calls, estimators, seed=seed, as_json=as_json)
    else:
        plans = _plans_of(n or 16, strategies, calls)
        _simulate(n or 16, plans, estimators, groups=groups or 4000, seed=seed, as_json=as_json)


def _simulate(
    n: int, plans: "Sequence[Plan]", estimators: Sequence[str], *, groups: int, seed: int, as_json: bool
) -> None:
    """Print the figures of each plan with each estimator."""
    from genrm_cli.simulation.plan_metrics import simulate as iter_metrics
    from genrm_cli.simulation.world import JudgeModel

    found = iter_metrics(JudgeModel(), n, plans, estimators, groups=groups, seed=seed)
    rows = list(working(found, "simulating", len(plans) * len(estimators)))
    if as_json:
        given = {"n": n, "groups": groups, "seed": seed, "judge": asdict(JudgeModel())}
        print_json(given | {"figures": [asdict(row) for row in rows]})
        return
    table = Table([*_PLAN, *numbers("correlation", "±", "best on top", "unscored")])
    for row in rows:
        figures = (f"{number:.3f}" for number in (row.correlation, row.correlation_error))
        shares = percent_text(row.top_1), percent_text(row.unscored)
        table.add(row.strategy, row.estimator, str(row.calls), *figures, *shares)
    print_parts(table, f"\n{groups:,} groups of {n}, seed {seed}; ± is one standard error.")


def _replay(
    uri: str,
    strategies: Sequence[str],
    calls: Sequence[int] | None,
    estimators: Sequence[str],
    *,
    seed: int,
    as_json: bool,
) -> None:
    """Replay plans on the judges of a file, and print a table for each."""
    from genrm_cli.simulation.replay import replay

    judges, dense = _dense_judges(uri)
    sparse = [name for name in judges if name not in dense]
    shown: list[Record] = []
    parts: list[str | Table] = []
    for name, found in dense.items():
        groups, n = found.shape
        # A plan asks no comparison twice, and leaves verdicts that connect the rollouts.
        most = n * (n - 1) - 2 * n
        plans = [plan for plan in _plans_of(n, strategies, calls) if plan.repeats == 1 and plan.calls <= most]
        if not plans:
            raise UsageError(f"no plan leaves verdicts of {n} rollouts unused; choose fewer --calls.")
        found_rows = replay(name, found, plans, estimators, seed=seed)
        rows = list(working(found_rows, "replaying", len(plans) * len(estimators)))
        left_out = len(judges[name]) - groups
        figures = list(map(asdict, rows))
        shown.append({"judge": name, "n": n, "groups": groups, "left_out_groups": left_out, "figures": figures})
        others = f"; {counted(left_out, 'other group')} left out" if left_out else ""
        parts += [f"{name}: {counted(groups, 'group')} of {n}{others}", _replay_table(rows), ""]
    if sparse:
        parts.append(f"Left out, without two groups judged in all pairs and both orders: {', '.join(sparse)}.")
    if as_json:
        print_json({"file": uri, "seed": seed, "judges": shown, "left_out_judges": sparse})
    else:
        print_parts(*parts, _LEGEND)


def _dense_judges(uri: str) -> "tuple[dict[str, dict[str, Verdicts]], dict[str, DenseVerdicts]]":
    """Return the verdicts of each judge of a file by group, and the groups that judges compared in full."""
    from genrm_cli.simulation.recorded_verdicts import read_judges
    from genrm_cli.simulation.replay import dense_verdicts

    judges = read_judges(uri)
    dense = {name: found for name, kept in judges.items() if (found := dense_verdicts(list(kept.values()))) is not None}
    if not dense:
        raise UsageError(
            f"{uri} holds no two groups of three or more rollouts with all pairs in both orders, as "
            "`genrm score --strategy all_pairs --both-orders` makes them."
        )
    return judges, dense


def _replay_goal(uri: str, goal: str, calls: Sequence[int] | None, *, seed: int, as_json: bool) -> None:
    """Print how many calls of rings find what a goal finds, for each judge of a file."""
    from genrm_cli.simulation.replay_goals import replay_goal

    rows: list[GoalReplay] = []
    for name, found in _dense_judges(uri)[1].items():
        n = found.shape[1]
        budgets = sorted({min(count, n * (n - 1) // 2) for count in calls or (n, 3 * n // 2, 2 * n)})
        rows += replay_goal(name, found, goal, budgets, seed=seed)
    if as_json:
        print_json({"file": uri, "seed": seed, "goal": goal, "figures": list(map(asdict, rows))})
        return
    table = Table([*names("judge"), *numbers("groups", "calls", "found", "rings with as much", "saved")])
    for row in rows:
        equal = row.equal_calls
        texts = f"{equal.value:.1f} [{equal.low:.1f}, {equal.high:.1f}]", percent_text(1 - row.calls / equal.value)
        table.add(row.judge, f"{row.groups} × {row.n}", str(row.calls), _interval_text(row.found), *texts)
    print_parts(
        table,
        "Found: quality of the rollout that comes out best, for pair less that of the worst, by the consensus of "
        "verdicts in orders that the plan does not use. Rings with as much: calls "
        "of rings that find as much, at most one on each pair. ±: half of the 95 % interval, [ ]: the interval, by "
        "bootstrap over groups.",
    )


def _price(text: str) -> tuple[str, float]:
    name, _, price = text.rpartition("=")
    with suppress(ValueError):
        if name and 0 < float(price) < math.inf:
            return name, float(price)
    raise UsageError(f"--price {text!r} is not a judge with the price of one call, as in gpt-4=0.02.")


def _replay_shares(uri: str, prices: Mapping[str, float], *, seed: int, as_json: bool) -> None:
    """Print the gain and the cost of adding a second, cheaper judge on all pairs to each judge."""
    from genrm_cli.simulation.recorded_verdicts import read_judges
    from genrm_cli.simulation.replay_shares import replay_shares

    if len(set(prices.values())) < 2:
        raise UsageError("--price needs two judges or more, of different prices.")
    judges = read_judges(uri)
    if unknown := [name for name in prices if name not in judges]:
        raise UsageError(f"{uri} holds no verdict of {unknown[0]!r}; it has those of {', '.join(judges)}.")
    rows = list(replay_shares({name: judges[name] for name in prices}, prices, seed=seed))
    if not rows:
        raise UsageError(
            f"{uri} holds no two groups of three or more rollouts that two judges of different prices compared in all "
            "pairs and both orders."
        )
    if as_json:
        print_json({"file": uri, "seed": seed, "prices": prices, "figures": list(map(asdict, rows))})
        return
    heads = numbers("rings", "cost", "agreement", "gain", "reliability")
    table = Table([*names("judge", "and on all pairs"), *heads])
    for row in rows:
        figures = (f"{row.rings:g}", f"{row.cost:g}", _interval_text(row.agreement))
        gain = _interval_text(row.gain, sign="+") if row.gain else ""
        table.add(row.judge, row.second or "", *figures, gain, _reliability_text(row.reliability))
    print_parts(
        table,
        "Agreement: correlation of the rewards with the consensus of the first judge's verdicts that are not used. "
        "Gain: over the first judge alone with the most rings that cost no more. ±: half of the 95 % interval, by "
        "bootstrap over groups. Cost: per group.",
    )


def _replay_table(rows: "Sequence[ReplayMetrics]") -> Table:
    table = Table([*_PLAN, *numbers("agreement", "gain", "all", "reliability")])
    for row in rows:
        intervals = _interval_text(row.agreement), _interval_text(row.gain, sign="+")
        others = f"{row.agreement_all.value:.3f}", _reliability_text(row.reliability)
        table.add(row.strategy, row.estimator, str(row.calls), *intervals, *others)
    return table


def _interval_text(number: "Estimated", sign: str = "") -> str:
    return f"{number.value:{sign}.3f} ±{(number.high - number.low) / 2:.3f}"


def _reliability_text(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _plans_of(n: int, strategies: Sequence[str], calls: Sequence[int] | None) -> list["Plan"]:
    """Return each plan once, ordered by strategy, then by calls."""
    from genrm_cli.simulation.plan_metrics import plan_within

    pairs = n * (n - 1) // 2
    budgets = sorted(set(calls or (n, 2 * n, 3 * n, 4 * n, pairs, 2 * pairs)))
    plans = [plan_within(name, n, budget) for name in strategies for budget in budgets]
    found = list(dict.fromkeys(plan for plan in plans if plan is not None))
    if not found:
        raise UsageError(f"{budgets[-1]} calls per group are too few for {', '.join(strategies)} with {n} rollouts.")
    return found


def _known_names(names: Sequence[str], known: Iterable[str], kind: str) -> list[str]:
    """Return each name once, with hyphens as underscores."""
    chosen = {name.replace("-", "_"): name for name in names}
    if unknown := set(chosen) - set(known):
        raise UsageError(f"unknown {kind} {chosen[min(unknown)]!r}; expected {', '.join(known)}.")
    return list(chosen)
