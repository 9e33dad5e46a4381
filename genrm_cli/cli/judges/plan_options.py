"""Options of `genrm simulate` for the plans and estimators to try."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from genrm_cli.catalog import ESTIMATORS, STRATEGIES, listed
from genrm_cli.cli.options import option
from genrm_cli.errors import UsageError

if TYPE_CHECKING:
    from genrm_cli.simulation.plans import Plan

DEFAULT_STRATEGIES = ("circular", "all_pairs", "ring")
DEFAULT_ESTIMATORS = ("simple_tiebreaker", "combined", "adaptive")
_MAX_CALLS = 100_000

SizeOption = Annotated[str | None, option("N", "Rollouts in a group, 2 to 128. Default: 16.", "--n")]
CallsOption = Annotated[
    list[str] | None,
    option(
        "N",
        "Judge calls per group; each strategy uses its largest plan within them. Repeatable. "
        "Default: 1, 2, 3 and 4 per rollout, the number of pairs, and twice that.",
    ),
]
StrategyOption = Annotated[
    list[str] | None,
    option("NAME", f"Which pairs to compare: {listed(STRATEGIES)}. Repeatable. Default: {listed(DEFAULT_STRATEGIES)}."),
]
EstimatorOption = Annotated[
    list[str] | None,
    option(
        "NAME",
        f"How verdicts become rewards: {listed(ESTIMATORS)}. Repeatable. Default: {listed(DEFAULT_ESTIMATORS)}.",
    ),
]


def plans_of(n: int, strategies: Sequence[str], calls: Sequence[str] | None) -> list["Plan"]:
    """Return each plan once, ordered by strategy, then by calls."""
    from genrm_cli.simulation.plans import plan_within

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
