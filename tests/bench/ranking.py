"""Measure `genrm rank` on recorded verdicts: `python tests/bench/ranking.py FILE SOURCE/JUDGE...`.

The file has verdicts of all pairs in both orders, as `genrm rank --recorded` reads it. Draws of its
prompts show how often an interval holds what all prompts say, and budgets show what a plan saves
against all pairs on fewer prompts. Without a file, `--field K GAP` simulates K policies whose
neighbours are GAP Elo apart."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from genrm_cli.ranking.known_verdicts import read_recorded
from genrm_cli.ranking.leaderboard import ELO, Leaderboard, build_leaderboard
from genrm_cli.ranking.outcomes import Outcomes, OutcomeTable
from genrm_cli.ranking.pair_plan import PairPlan, near_pairs
from genrm_cli.ranking.strengths import fit_strengths

PILOT = 1 / 3


def drawn(outcomes: Outcomes, prompts: np.ndarray) -> Outcomes:
    """Return the outcomes on these prompts, each a prompt of its own even if it was drawn twice."""
    rows = [np.flatnonzero(outcomes.prompt == prompt) for prompt in prompts]
    at = np.concatenate(rows)
    number = np.repeat(np.arange(len(prompts)), [len(each) for each in rows])
    fields = {
        name: getattr(outcomes, name)[at]
        for name in ("first", "second", "won", "longer", "by_rule")
    }
    table = replace(outcomes.table, failed=type(outcomes.table.failed)(), contradicting=0)
    return replace(outcomes, table=table, chars=outcomes.chars[prompts], prompt=number, **fields)


def of_pairs(outcomes: Outcomes, plan: PairPlan) -> Outcomes:
    """Return the outcomes of the pairs that a plan chose."""
    chosen = np.array(
        [[prompt, a * outcomes.k + b] for prompt, pairs in plan.chosen.items() for a, b in pairs]
    )
    keys = outcomes.prompt * outcomes.k**2 + outcomes.pair
    at = np.flatnonzero(np.isin(keys, chosen[:, 0] * outcomes.k**2 + chosen[:, 1]))
    fields = {
        name: getattr(outcomes, name)[at]
        for name in ("prompt", "first", "second", "won", "longer", "by_rule")
    }
    return replace(outcomes, **fields)


def held(board: Leaderboard, truth: Leaderboard) -> Iterator[tuple[str, float]]:
    """Yield what an interval is of, and whether it holds what all prompts say."""
    rows = {row.name: row for row in truth.policies}
    for row in board.pairs:
        found = truth.win_rate(row.a, row.b)
        if row.lo is not None and found is not None:
            yield "pairs", row.lo <= found[1] <= row.hi
    for place, row in enumerate(truth.policies, 1):
        own = next(each for each in board.policies if each.name == row.name)
        yield "Elo", own.elo_lo <= rows[row.name].elo <= own.elo_hi
        yield "field", own.lo <= rows[row.name].win_rate <= own.hi
        if own.rank_lo is not None:
            yield "rank", own.rank_lo <= place <= own.rank_hi
    joint = [
        row.lo_sim <= found[1] <= row.hi_sim
        for row in board.pairs
        if (found := truth.win_rate(row.a, row.b))
    ]
    yield "all pairs together", all(joint)
    wrong = [
        row for row in board.pairs if row.better is not None and row.better != _better(row, truth)
    ]
    yield "no wrong claim", not wrong


def _better(row: object, truth: Leaderboard) -> str:
    found = truth.win_rate(row.a, row.b)
    return row.a if found[1] > 0.5 else row.b


def coverage(outcomes: Outcomes, prompts: int, rounds: int) -> dict[str, float]:
    """Return how often the intervals of so many drawn prompts hold what all prompts say."""
    generator = np.random.default_rng(0)
    truth = build_leaderboard(outcomes)
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        board = build_leaderboard(
            drawn(outcomes, generator.integers(0, len(outcomes.chars), prompts))
        )
        for name, each in held(board, truth):
            found.setdefault(name, []).append(each)
        order = [row.name for row in board.policies]
        expected = [row.name for row in truth.policies]
        pairs = list(combinations(expected, 2))
        found.setdefault("pairs in order", []).append(
            np.mean([order.index(a) < order.index(b) for a, b in pairs])
        )
        found.setdefault("first", []).append(order[0] == expected[0])
    return {name: float(np.mean(each)) for name, each in found.items()}


def simulated(k: int, gap: float, prompts: int = 4_000) -> Outcomes:
    """Return verdicts on all pairs in both orders; deviations and ties are those of the reference
    of the statistics.

    Policy x prompt and sample deviations are .8 and .6, the first position has .36, and equal
    responses tie in 14 % of cases (Davidson's model). Prompts bring the gaps of the fit nearer to 0
    than those of the qualities."""
    generator = np.random.default_rng(7)
    table = OutcomeTable([f"p{each}" for each in range(k)])
    first, second = np.nonzero(~np.eye(k, dtype=bool))
    quality = -gap / ELO * np.arange(k) + generator.normal(
        0, 1.0, (prompts, k)
    )  # .8 and .6 together
    odds = quality[:, first] - quality[:, second] + 0.36
    up = np.exp(odds / 2)
    tie = 2 * 0.14 / (1 - 0.14)
    down = np.exp(-odds / 2)
    draw = generator.random(odds.shape) * (up + tie + down)
    won = (draw < up) + 0.5 * ((draw >= up) & (draw < up + tie))
    prompt = np.repeat(np.arange(prompts), len(first))
    shown = (np.tile(first, prompts), np.tile(second, prompts))
    zeros = np.zeros(odds.size)
    return Outcomes(table, np.ones((prompts, k)), prompt, *shown, won.ravel(), zeros, zeros > 0)


def gap_errors(outcomes: Outcomes, truth: np.ndarray) -> tuple[float, float, float]:
    """Return the mean variance of gaps between strengths: stated, found against all prompts, stated
    of neighbours.
    """
    fit = fit_strengths(outcomes)
    place = np.argsort(np.argsort(-truth))
    if fit is None:
        return np.nan, np.nan, np.nan
    a, b = np.triu_indices(outcomes.k, 1)
    stated = fit.cov[a, a] + fit.cov[b, b] - 2 * fit.cov[a, b]
    real = (fit.theta[a] - fit.theta[b] - truth[a] + truth[b]) ** 2
    return (
        float(stated.mean()),
        float(real.mean()),
        float(stated[abs(place[a] - place[b]) == 1].mean()),
    )


def savings(
    outcomes: Outcomes, prompts: int, budget: int, rounds: int
) -> dict[str, tuple[float, ...]]:
    """Return the variances of `gap_errors` for three plans of the same calls, on drawn prompts."""
    generator = np.random.default_rng(1)
    k = outcomes.k
    every = list(combinations(range(k), 2))
    truth = fit_strengths(outcomes).theta
    found: dict[str, list[tuple[float, float, float]]] = {}
    for number in range(rounds):
        # A sample without repeats: the rest of a drawn prompt would be known.
        sample = drawn(outcomes, generator.permutation(len(outcomes.chars))[:prompts])
        offers = {prompt: [(pair, 2) for pair in every] for prompt in range(prompts)}
        few = PairPlan(k, number)
        few.spend(dict(list(offers.items())[: max(1, budget // (2 * len(every)))]), budget)
        spread = PairPlan(k, number)
        spread.spend(offers, budget)
        near = PairPlan(k, number)
        near.spend(offers, int(budget * PILOT))
        close = near_pairs(fit_strengths(of_pairs(sample, near)).theta.tolist())
        near.spend(
            {
                prompt: [each for each in found_ if each[0] in close]
                for prompt, found_ in offers.items()
            },
            budget,
        )
        for name, plan in (
            ("all pairs, fewer prompts", few),
            ("spread", spread),
            ("pilot, then near ranks", near),
        ):
            found.setdefault(name, []).append(gap_errors(of_pairs(sample, plan), truth))
    return {name: tuple(np.nanmean(each, axis=0)) for name, each in found.items()}


def tell_savings(name: str, outcomes: Outcomes, prompts: int, budget: int, rounds: int) -> None:
    """Print the standard errors of gaps in Elo for each plan, and the calls that it saves against
    all pairs.
    """
    plans = savings(outcomes, prompts, budget, rounds)
    for plan, found in plans.items():
        base = plans["all pairs, fewer prompts"]
        shown = [
            f"{what} {ELO * each**0.5:.1f} Elo ({100 * (1 - each / other):.0f} % of the calls "
            "saved)"
            for what, each, other in zip(
                ("stated", "found", "neighbours"), found, base, strict=True
            )
        ]
        print(f"{name}, {budget} calls, {plan}: {', '.join(shown)}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("judges", nargs="*")
    parser.add_argument("--field", type=int, nargs=2, metavar=("K", "GAP"))
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--prompts", type=int, nargs="*", default=[20, 50])
    parser.add_argument("--budget", type=int, nargs="+", default=[])
    given = parser.parse_args()
    if given.field:
        outcomes = simulated(*given.field)
        for budget in given.budget:
            tell_savings(
                f"{given.field[0]} policies", outcomes, given.prompts[0], budget, given.rounds
            )
    for judge in given.judges:
        outcomes = read_recorded(given.file, judge)
        for prompts in given.prompts:
            print(
                judge,
                prompts,
                {
                    name: round(100 * each, 1)
                    for name, each in coverage(outcomes, prompts, given.rounds).items()
                },
            )
        for budget in given.budget:
            tell_savings(judge, outcomes, len(outcomes.chars), budget, given.rounds)


if __name__ == "__main__":
    main()
