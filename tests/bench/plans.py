"""Compare plans and estimators, for the tables of `guide/evidence.md`.

    .venv/bin/python tests/bench/plans.py                          # on a simulated judge
    .venv/bin/python tests/bench/plans.py VERDICTS.jsonl           # on recorded verdicts
    .venv/bin/python tests/bench/plans.py VERDICTS.jsonl --goal best

Verdicts are recorded ones, or the *.comparisons.jsonl of `genrm score --strategy all_pairs
--both-orders`. Agreement is the correlation of the rewards with the consensus of the verdicts that
a plan does not use; its own noise lowers it, so compare only rows with the same number of calls.
± is a standard error on the simulated judge, and half of
a 95 % interval by bootstrap over groups on recorded verdicts. With --goal, `found` is the quality
of what the goal finds, and `rings` the calls of rings that find as much."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.simulation.judge_files import read_judges
from bench.simulation.plan_metrics import Plan, plan_within, simulate
from bench.simulation.replay import DenseVerdicts, Estimated, dense_verdicts, replay
from bench.simulation.replay_goals import replay_goal
from bench.simulation.world import JudgeModel

from genrm_cli.catalog import STRATEGIES

STRATEGIES_SHOWN = ("circular", "all_pairs", "ring")
GROUPS = 4_000  # with the simulated judge, of so many rollouts
SIZE = 16
SEED = 0
ESTIMATORS_SHOWN = ("simple_tiebreaker", "adaptive")


def plans_of(n: int, given: argparse.Namespace) -> list[Plan]:
    """Return each plan once, ordered by strategy, then by calls."""
    pairs = n * (n - 1) // 2
    budgets = given.calls or (n, 2 * n, 3 * n, 4 * n, pairs, 2 * pairs)
    plans = [
        plan_within(strategy, n, budget)
        for strategy in given.strategy
        for budget in sorted(set(budgets))
    ]
    return list(dict.fromkeys(plan for plan in plans if plan is not None))


def with_error(number: Estimated, sign: str = "") -> str:
    """Return a number with half of its interval."""
    return f"{number.value:{sign}.3f} ±{(number.high - number.low) / 2:.3f}"


def iter_simulated(given: argparse.Namespace) -> Iterator[str]:
    """Yield the table of the simulated judge."""
    yield f"{GROUPS:,} groups of {SIZE}"
    plans = plans_of(SIZE, given)
    for row in simulate(JudgeModel(), SIZE, plans, ESTIMATORS_SHOWN, groups=GROUPS, seed=SEED):
        yield (
            f"{row.strategy:10} {row.estimator:18} {row.calls:4}  correlation "
            f"{row.correlation:.3f} ±{row.correlation_error:.3f}"
        )


def iter_replayed(judge: str, dense: DenseVerdicts, given: argparse.Namespace) -> Iterator[str]:
    """Yield the table of a judge whose verdicts were recorded."""
    groups, n = dense.shape
    yield f"{judge}: {groups} groups of {n}"
    # A plan asks no comparison twice, and leaves verdicts that connect the rollouts.
    most = n * (n - 1) - 2 * n
    plans = [plan for plan in plans_of(n, given) if plan.repeats == 1 and plan.calls <= most]
    for row in replay(dense, plans, ESTIMATORS_SHOWN, seed=SEED):
        yield (
            f"{row.strategy:10} {row.estimator:18} {row.calls:4}  "
            f"agreement {with_error(row.agreement)}  gain {with_error(row.gain, '+')}"
        )


def iter_goal(judge: str, dense: DenseVerdicts, given: argparse.Namespace) -> Iterator[str]:
    """Yield the calls of rings that find what a goal finds."""
    groups, n = dense.shape
    yield f"{judge}: {groups} groups of {n}"
    most = n * (n - 1) // 2
    budgets = sorted({min(count, most) for count in given.calls or (n, 3 * n // 2, 2 * n)})
    for row in replay_goal(dense, given.goal, budgets, seed=SEED):
        equal = row.equal_calls
        yield (
            f"{given.goal} {row.calls:4} calls  found {with_error(row.found)}  rings "
            f"{equal.value:.1f} [{equal.low:.1f}, {equal.high:.1f}]"
        )


def iter_lines(given: argparse.Namespace) -> Iterator[str]:
    """Yield what is printed."""
    if given.file is None:
        yield from iter_simulated(given)
        return
    table = iter_replayed if given.goal is None else iter_goal
    for judge, verdicts in read_judges(given.file).items():
        dense = dense_verdicts(list(verdicts.values()))
        if dense is None:
            yield f"{judge}: no two groups with all pairs in both orders"
        else:
            yield from table(judge, dense, given)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?")
    parser.add_argument("--calls", type=int, nargs="+")
    parser.add_argument("--strategy", nargs="+", choices=STRATEGIES, default=STRATEGIES_SHOWN)
    parser.add_argument("--goal", choices=("best", "pair"))
    return parser.parse_args(arguments)


def main() -> None:
    """Print the tables."""
    for line in iter_lines(parse_arguments()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
