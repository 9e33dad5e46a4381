"""`genrm simulate`: estimate reward accuracy for a call budget, by plan and by estimator."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from genrm_cli.catalog import ESTIMATORS, STRATEGIES, listed
from genrm_cli.cli.console import add_row, new_table, percent_text, print_json, print_table, print_text
from genrm_cli.cli.judges.replay_tables import (
    DEFAULT_ESTIMATORS,
    DEFAULT_STRATEGIES,
    known_names,
    parse_integer,
    plans_of,
    replay_verdicts,
)
from genrm_cli.cli.options import ending, option
from genrm_cli.errors import UsageError

if TYPE_CHECKING:
    from genrm_cli.simulation.plan_metrics import JudgeMetrics, Plan, PlanMetrics

SIMULATION_EPILOG = (
    "The judge is simulated and nearly linear; the true qualities are generated. Differences between plans transfer "
    "to a real judge better than absolute values do. Use --replay to compare plans on your own judge's verdicts."
)
_MIN_SIZE, _MAX_SIZE, _MAX_GROUPS = 2, 128, 1_000_000

_SizeOption = Annotated[str | None, option("N", "Rollouts in a group, 2 to 128. Default: 16.", "--n")]
_CallsOption = Annotated[
    list[str] | None,
    option(
        "N",
        "Judge calls per group; each strategy uses its largest plan within them. Repeatable. "
        "Default: 1, 2, 3 and 4 per rollout, the number of pairs, and twice that.",
    ),
]
_StrategyOption = Annotated[
    list[str] | None,
    option("NAME", f"Which pairs to compare: {listed(STRATEGIES)}. Repeatable. Default: {listed(DEFAULT_STRATEGIES)}."),
]
_EstimatorOption = Annotated[
    list[str] | None,
    option(
        "NAME",
        f"How verdicts become rewards: {listed(ESTIMATORS)}. Repeatable. Default: {listed(DEFAULT_ESTIMATORS)}.",
    ),
]
_GroupsOption = Annotated[str | None, option("N", "Groups to simulate. Default: 4000.")]
_SeedOption = Annotated[str, option("N", "Random seed; the same seed gives the same results.")]
_JudgeOption = Annotated[
    str | None, option("NAME", "With --replay: the judge whose verdicts to use, if the file has several.")
]
_ReplayOption = Annotated[
    str | None,
    option(
        "FILE",
        "Replay the plans on recorded verdicts instead of simulating: a *.comparisons.jsonl of a run with "
        "--strategy all_pairs --both-orders.",
    ),
]
_PriceOption = Annotated[
    list[str] | None,
    option(
        "JUDGE=PRICE",
        "With --replay: the price of one call of a judge. Repeatable. Shows what a cheaper judge on all pairs adds to "
        "a more expensive one.",
    ),
]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def simulate(
    n: _SizeOption = None,
    calls: _CallsOption = None,
    strategy: _StrategyOption = None,
    estimator: _EstimatorOption = None,
    groups: _GroupsOption = None,
    seed: _SeedOption = "0",
    judge: _JudgeOption = None,
    replay: _ReplayOption = None,
    price: _PriceOption = None,
    as_json: _JsonOption = False,
) -> None:
    """Estimate reward accuracy for a call budget.

    The simulated judge sees the true quality of each rollout with position bias, noise and ties. The table shows
    how the rewards correlate with the truth, how often the best rollout ranks first, and whether a plan favours an
    index in the group (index bias).

    Example: genrm simulate

    Example: genrm simulate --n 8 --calls 16 --calls 28 --strategy ring --estimator combined

    Example: genrm simulate --replay rollouts.comparisons.jsonl
    """

    with ending():
        start = parse_integer(seed, "--seed", 0, 2**63 - 1)
        if replay is not None:
            if n or groups:
                raise UsageError("--replay uses recorded verdicts; omit the options of the simulation.")
            replay_verdicts(replay, judge, strategy, calls, estimator, price, seed=start, as_json=as_json)
            return
        if judge or price:
            flag = "--judge" if judge else "--price"
            raise UsageError(f"{flag} needs --replay, with the verdicts of several judges.")
        size = parse_integer(n or "16", "--n", _MIN_SIZE, _MAX_SIZE)
        count = parse_integer(groups or "4000", "--groups", 2, _MAX_GROUPS)
        plans = plans_of(size, strategy or DEFAULT_STRATEGIES, calls)
        estimators = known_names(estimator or DEFAULT_ESTIMATORS, ESTIMATORS, "estimator")
        _simulate(size, plans, estimators, groups=count, seed=start, as_json=as_json)


def _simulate(
    n: int, plans: "Sequence[Plan]", estimators: Sequence[str], *, groups: int, seed: int, as_json: bool
) -> None:
    """Print the figures of each plan with each estimator, and what the judge is like."""
    from genrm_cli.simulation.plan_metrics import describe_judge
    from genrm_cli.simulation.plan_metrics import simulate as iter_metrics
    from genrm_cli.simulation.world import JudgeModel

    rows = list(iter_metrics(JudgeModel(), n, plans, estimators, groups=groups, seed=seed))
    judge = describe_judge(JudgeModel(), seed)
    if as_json:
        given = {"n": n, "groups": groups, "seed": seed, "judge": asdict(JudgeModel())}
        print_json(given | {"judge_figures": asdict(judge), "figures": [asdict(row) for row in rows]})
        return
    print_table(_metrics_table(rows))
    print_text()
    print_text(f"{groups:,} groups of {n}, seed {seed}; ± is one standard error. {_judge_text(judge)}")


def _metrics_table(rows: "Sequence[PlanMetrics]") -> Table:
    heads = ("calls", "correlation", "±", "Spearman", "best on top", "index bias", "unscored")
    table = new_table("strategy", "estimator", *heads, texts=2)
    for row in rows:
        numbers = (f"{number:.3f}" for number in (row.correlation, row.correlation_error, row.spearman))
        shares = percent_text(row.top_1), f"{row.index_bias:+.3f}", percent_text(row.unscored)
        add_row(table, row.strategy, row.estimator, str(row.calls), *numbers, *shares)
    return table


def _judge_text(judge: "JudgeMetrics") -> str:
    return (
        f"The judge: right on {percent_text(judge.accuracy)} of the pairs in one call, position 1 chosen in "
        f"{percent_text(judge.first_place)}, swapping flips {percent_text(judge.flips)}, scores tie in "
        f"{percent_text(judge.ties)}."
    )
