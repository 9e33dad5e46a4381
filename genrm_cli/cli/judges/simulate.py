"""`genrm simulate`: estimate reward accuracy for a call budget, on a simulated judge or on recorded
verdicts.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from genrm_cli.catalog import ESTIMATORS, STRATEGIES, listed
from genrm_cli.cli.console import counted, percent_text, print_json, working
from genrm_cli.cli.options import Invocation, with_settings
from genrm_cli.cli.tables import Table, names, numbers, print_parts
from genrm_cli.errors import UsageError
from genrm_cli.json_types import Record
from genrm_cli.settings.declare import setting
from genrm_cli.settings.kinds import INTEGER, TEXT

if TYPE_CHECKING:
    from genrm_cli.rewards.estimators.verdict_batch import Verdicts
    from genrm_cli.simulation.plan_metrics import Plan
    from genrm_cli.simulation.replay import DenseVerdicts, Estimated
    from genrm_cli.simulation.replay_goals import GoalReplay

_PLAN = (*names("strategy", "estimator"), *numbers("calls"))
_STRATEGIES = ("circular", "all_pairs", "ring")
_ESTIMATORS = ("simple_tiebreaker", "combined", "adaptive")
_LEGEND = (
    "Agreement: correlation of the rewards with the consensus of the verdicts that the plan does "
    "not use; its own "
    "noise lowers it, so compare only rows with the same number of calls. All: with the consensus "
    "of all verdicts. "
    "±: half of the 95 % interval, by bootstrap over groups."
)
_option = partial(setting, is_common=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """The plans to simulate, or to replay on recorded verdicts."""

    n: int | None = _option("Rollouts in a group, 2 to 128. Default: 16.", low=2, high=128)
    calls: tuple[str, ...] = _option(
        "Judge calls per group; each strategy uses its largest plan within them. Repeatable. "
        "Default: 1, 2, 3 and 4 per rollout, the number of pairs, and twice that.",
        (),
        kind=INTEGER,
        low=1,
        high=100_000,
    )
    strategy: tuple[str, ...] = _option(
        f"Which pairs to compare: {listed(STRATEGIES)}. Repeatable. Default: "
        f"{listed(_STRATEGIES)}.",
        (),
        choices=STRATEGIES,
    )
    estimator: tuple[str, ...] = _option(
        f"How verdicts become rewards: {listed(ESTIMATORS)}. Repeatable. Default: "
        f"{listed(_ESTIMATORS)}.",
        (),
        choices=ESTIMATORS,
    )
    groups: int | None = _option("Groups to simulate. Default: 4000.", low=2, high=1_000_000)
    seed: int = _option("Random seed; the same seed gives the same results.", 0, low=0)
    replay: str | None = _option(
        "Replay the plans on recorded verdicts instead of simulating: a *.comparisons.jsonl of a "
        "run with "
        "--strategy all_pairs --both-orders.",
        kind=replace(TEXT, metavar="FILE"),
    )
    goal: Literal["best", "pair"] | None = _option(
        "With --replay: best or pair. Compares the calls of this goal with those of rings that "
        "find as good a best, or "
        "as good a pair of the best and the worst."
    )
    price: tuple[str, ...] = _option(
        "With --replay: the price of one call of a judge. Repeatable. Shows what a cheaper judge "
        "on all pairs adds "
        "to a more expensive one.",
        (),
        kind=replace(TEXT, metavar="JUDGE=PRICE"),
    )


Shown = tuple[Record, list[str | Table]]
"""What a command prints: one JSON object, or texts and tables."""


@with_settings(names=("json_output",), reads_file=False)
def simulate(invocation: Invocation, options: SimulateOptions) -> int:
    """Estimate reward accuracy for a call budget.

    The simulated judge sees the true quality of each rollout with position bias, noise and ties.
    The table shows how the rewards correlate with the truth, and how often the best rollout ranks
    first. The judge is nearly linear: differences between plans transfer to a real judge better
    than absolute values do. Use --replay to compare plans on your own judge's verdicts.

    Example: genrm simulate

    Example: genrm simulate --n 8 --calls 16 --calls 28 --strategy ring --estimator combined

    Example: genrm simulate --replay run.comparisons.jsonl
    """
    uri = options.replay
    is_chosen = options.strategy or options.estimator
    if uri is None and options.price:
        raise UsageError("--price needs --replay, with the verdicts of several judges.")
    if uri is not None and (options.n or options.groups):
        raise UsageError("--replay uses recorded verdicts; omit the options of the simulation.")
    if options.goal is not None and (uri is None or options.price or is_chosen):
        raise UsageError("--goal needs --replay, and no --price, --strategy or --estimator.")
    if options.price and (is_chosen or options.calls):
        raise UsageError("--price sets the plans; omit --strategy, --calls and --estimator.")
    if uri is None:
        record, parts = _simulate(options)
    elif options.goal is not None:
        record, parts = _replay_goal(uri, options.goal, options)
    elif options.price:
        record, parts = _replay_shares(uri, dict(map(_price, options.price)), options.seed)
    else:
        record, parts = _replay(uri, options)
    if invocation.settings.output.json_output:
        print_json(record)
    else:
        print_parts(*parts)
    return 0


def _simulate(options: SimulateOptions) -> Shown:
    from genrm_cli.simulation.plan_metrics import simulate as iter_metrics
    from genrm_cli.simulation.world import JudgeModel

    n = options.n or 16
    groups = options.groups or 4000
    seed = options.seed
    estimators = _estimators(options)
    plans = _plans_of(n, options)
    found = iter_metrics(JudgeModel(), n, plans, estimators, groups=groups, seed=seed)
    rows = list(working(found, "simulating", len(plans) * len(estimators)))
    table = Table([*_PLAN, *numbers("correlation", "±", "best on top", "unscored")])
    for row in rows:
        figures = (f"{number:.3f}" for number in (row.correlation, row.correlation_error))
        shares = percent_text(row.top_1), percent_text(row.unscored)
        table.add(row.strategy, row.estimator, str(row.calls), *figures, *shares)
    given: Record = {"n": n, "groups": groups, "seed": seed, "judge": asdict(JudgeModel())}
    legend = f"\n{groups:,} groups of {n}, seed {seed}; ± is one standard error."
    return given | {"figures": list(map(asdict, rows))}, [table, legend]


def _replay(uri: str, options: SimulateOptions) -> Shown:
    """Replay plans on the judges of a file; return a table for each."""
    from genrm_cli.simulation.replay import replay

    judges, dense = _dense_judges(uri)
    estimators = _estimators(options)
    shown: list[Record] = []
    parts: list[str | Table] = []
    for name, found in dense.items():
        groups, n = found.shape
        # A plan asks no comparison twice, and leaves verdicts that connect the rollouts.
        most = n * (n - 1) - 2 * n
        plans = [plan for plan in _plans_of(n, options) if plan.repeats == 1 and plan.calls <= most]
        if not plans:
            raise UsageError(
                f"no plan leaves verdicts of {n} rollouts unused; choose fewer --calls."
            )
        found_rows = replay(name, found, plans, estimators, seed=options.seed)
        rows = list(working(found_rows, "replaying", len(plans) * len(estimators)))
        table = Table([*_PLAN, *numbers("agreement", "gain", "all", "reliability")])
        for row in rows:
            intervals = _interval_text(row.agreement), _interval_text(row.gain, sign="+")
            others = f"{row.agreement_all.value:.3f}", _reliability_text(row.reliability)
            table.add(row.strategy, row.estimator, str(row.calls), *intervals, *others)
        left_out = len(judges[name]) - groups
        figures = list(map(asdict, rows))
        shown.append(
            {
                "judge": name,
                "n": n,
                "groups": groups,
                "left_out_groups": left_out,
                "figures": figures,
            }
        )
        others_left_out = f"; {counted(left_out, 'other group')} left out" if left_out else ""
        parts += [f"{name}: {counted(groups, 'group')} of {n}{others_left_out}", table, ""]
    if sparse := [name for name in judges if name not in dense]:
        parts.append(
            f"Left out, without two groups judged in all pairs and both orders: {listed(sparse)}."
        )
    record = {"file": uri, "seed": options.seed, "judges": shown, "left_out_judges": sparse}
    return record, [*parts, _LEGEND]


def _dense_judges(uri: str) -> "tuple[dict[str, dict[str, Verdicts]], dict[str, DenseVerdicts]]":
    """Return the verdicts of each judge of a file by group, and the groups that judges compared in
    full.
    """
    from genrm_cli.simulation.recorded_verdicts import read_judges
    from genrm_cli.simulation.replay import dense_verdicts

    judges = read_judges(uri)
    dense = {
        name: found
        for name, kept in judges.items()
        if (found := dense_verdicts(list(kept.values()))) is not None
    }
    if not dense:
        raise UsageError(
            f"{uri} holds no two groups of three or more rollouts with all pairs in both orders, "
            "as "
            "`genrm score --strategy all_pairs --both-orders` makes them."
        )
    return judges, dense


def _replay_goal(uri: str, goal: str, options: SimulateOptions) -> Shown:
    """Return how many calls of rings find what a goal finds, for each judge of a file."""
    from genrm_cli.simulation.replay_goals import replay_goal

    rows: list[GoalReplay] = []
    for name, found in _dense_judges(uri)[1].items():
        n = found.shape[1]
        budgets = map(int, options.calls or (n, 3 * n // 2, 2 * n))
        most = n * (n - 1) // 2
        rows += replay_goal(
            name, found, goal, sorted({min(count, most) for count in budgets}), seed=options.seed
        )
    table = Table(
        [*names("judge"), *numbers("groups", "calls", "found", "rings with as much", "saved")]
    )
    for row in rows:
        equal = row.equal_calls
        texts = (
            f"{equal.value:.1f} [{equal.low:.1f}, {equal.high:.1f}]",
            percent_text(1 - row.calls / equal.value),
        )
        table.add(
            row.judge, f"{row.groups} × {row.n}", str(row.calls), _interval_text(row.found), *texts
        )
    legend = (
        "Found: quality of the rollout that comes out best, for pair less that of the worst, by "
        "the consensus of "
        "verdicts in orders that the plan does not use. Rings with as much: calls "
        "of rings that find as much, at most one on each pair. ±: half of the 95 % interval, [ ]: "
        "the interval, by "
        "bootstrap over groups."
    )
    record = {"file": uri, "seed": options.seed, "goal": goal, "figures": list(map(asdict, rows))}
    return record, [table, legend]


def _price(text: str) -> tuple[str, float]:
    name, _, price = text.rpartition("=")
    with suppress(ValueError):
        if name and 0 < float(price) < math.inf:
            return name, float(price)
    raise UsageError(
        f"--price {text!r} is not a judge with the price of one call, as in gpt-4=0.02."
    )


def _replay_shares(uri: str, prices: Mapping[str, float], seed: int) -> Shown:
    """Return the gain and the cost of adding a second, cheaper judge on all pairs to each judge."""
    from genrm_cli.simulation.recorded_verdicts import read_judges
    from genrm_cli.simulation.replay_shares import replay_shares

    if len(set(prices.values())) < 2:
        raise UsageError("--price needs two judges or more, of different prices.")
    judges = read_judges(uri)
    if unknown := [name for name in prices if name not in judges]:
        raise UsageError(
            f"{uri} holds no verdict of {unknown[0]!r}; it has those of {listed(judges)}."
        )
    rows = list(replay_shares({name: judges[name] for name in prices}, prices, seed=seed))
    if not rows:
        raise UsageError(
            f"{uri} holds no two groups of three or more rollouts that two judges of different "
            "prices compared in all "
            "pairs and both orders."
        )
    heads = numbers("rings", "cost", "agreement", "gain", "reliability")
    table = Table([*names("judge", "and on all pairs"), *heads])
    for row in rows:
        figures = (f"{row.rings:g}", f"{row.cost:g}", _interval_text(row.agreement))
        gain = _interval_text(row.gain, sign="+") if row.gain else ""
        table.add(row.judge, row.second or "", *figures, gain, _reliability_text(row.reliability))
    legend = (
        "Agreement: correlation of the rewards with the consensus of the first judge's verdicts "
        "that are not used. "
        "Gain: over the first judge alone with the most rings that cost no more. ±: half of the "
        "95 % interval, by "
        "bootstrap over groups. Cost: per group."
    )
    return {"file": uri, "seed": seed, "prices": prices, "figures": list(map(asdict, rows))}, [
        table,
        legend,
    ]


def _interval_text(number: "Estimated", sign: str = "") -> str:
    return f"{number.value:{sign}.3f} ±{(number.high - number.low) / 2:.3f}"


def _reliability_text(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _estimators(options: SimulateOptions) -> Sequence[str]:
    return tuple(dict.fromkeys(options.estimator)) or _ESTIMATORS


def _plans_of(n: int, options: SimulateOptions) -> list["Plan"]:
    """Return each plan once, ordered by strategy, then by calls."""
    from genrm_cli.simulation.plan_metrics import plan_within

    pairs = n * (n - 1) // 2
    strategies = options.strategy or _STRATEGIES
    budgets = sorted(set(map(int, options.calls or (n, 2 * n, 3 * n, 4 * n, pairs, 2 * pairs))))
    plans = [plan_within(name, n, budget) for name in strategies for budget in budgets]
    found = list(dict.fromkeys(plan for plan in plans if plan is not None))
    if not found:
        raise UsageError(
            f"{budgets[-1]} calls per group are too few for {', '.join(strategies)} with {n} "
            "rollouts."
        )
    return found
