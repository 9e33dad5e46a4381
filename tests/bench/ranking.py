"""Measure `genrm rank` on recorded verdicts: `python tests/bench/ranking.py FILE SOURCE/JUDGE...`.

The file has verdicts of all pairs in both orders, as `genrm rank --recorded` reads it. Draws of its prompts show how
often an interval holds what all prompts say, and budgets show what a plan saves against all pairs on fewer prompts.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from genrm_cli.ranking.known_verdicts import read_recorded
from genrm_cli.ranking.leaderboard import ELO, Leaderboard, build_leaderboard
from genrm_cli.ranking.outcomes import Outcomes
from genrm_cli.ranking.pair_plan import PairPlan, near_pairs
from genrm_cli.ranking.strengths import fit_strengths

PILOT = 1 / 3


def drawn(outcomes: Outcomes, prompts: np.ndarray) -> Outcomes:
    """Return the outcomes on these prompts, each a prompt of its own even if it was drawn twice."""
    rows = [np.flatnonzero(outcomes.prompt == prompt) for prompt in prompts]
    at, number = np.concatenate(rows), np.repeat(np.arange(len(prompts)), [len(each) for each in rows])
    fields = {name: getattr(outcomes, name)[at] for name in ("first", "second", "won", "longer", "by_rule")}
    table = replace(outcomes.table, failed=type(outcomes.table.failed)(), contradicting=0)
    return replace(outcomes, table=table, chars=outcomes.chars[prompts], prompt=number, **fields)


def of_pairs(outcomes: Outcomes, plan: PairPlan) -> Outcomes:
    """Return the outcomes of the pairs that a plan chose."""
    chosen = np.array([[prompt, a * outcomes.k + b] for prompt, pairs in plan.chosen.items() for a, b in pairs])
    keys = outcomes.prompt * outcomes.k**2 + outcomes.pair
    at = np.flatnonzero(np.isin(keys, chosen[:, 0] * outcomes.k**2 + chosen[:, 1]))
    fields = {name: getattr(outcomes, name)[at] for name in ("prompt", "first", "second", "won", "longer", "by_rule")}
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
    joint = [row.lo_sim <= found[1] <= row.hi_sim for row in board.pairs if (found := truth.win_rate(row.a, row.b))]
    yield "all pairs together", all(joint)
    wrong = [row for row in board.pairs if row.better is not None and row.better != _better(row, truth)]
    yield "no wrong claim", not wrong


def _better(row: object, truth: Leaderboard) -> str:
    found = truth.win_rate(row.a, row.b)
    return row.a if found[1] > 0.5 else row.b


def coverage(outcomes: Outcomes, prompts: int, rounds: int) -> dict[str, float]:
    """Return how often the intervals of so many drawn prompts hold what all prompts say."""
    generator, truth = np.random.default_rng(0), build_leaderboard(outcomes)
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        board = build_leaderboard(drawn(outcomes, generator.integers(0, len(outcomes.chars), prompts)))
        for name, each in held(board, truth):
            found.setdefault(name, []).append(each)
        order = [row.name for row in board.policies]
        expected = [row.name for row in truth.policies]
        pairs = list(combinations(expected, 2))
        found.setdefault("pairs in order", []).append(np.mean([order.index(a) < order.index(b) for a, b in pairs]))
        found.setdefault("first", []).append(order[0] == expected[0])
    return {name: float(np.mean(each)) for name, each in found.items()}


def gap_errors(outcomes: Outcomes, truth: np.ndarray) -> tuple[float, float]:
    """Return the mean variance of a gap between two strengths, as stated and as found against all prompts."""
    fit, k = fit_strengths(outcomes), outcomes.k
    if fit is None:
        return np.nan, np.nan
    stated, real = [], []
    for a, b in combinations(range(k), 2):
        stated.append(fit.cov[a, a] + fit.cov[b, b] - 2 * fit.cov[a, b])
        real.append((fit.theta[a] - fit.theta[b] - truth[a] + truth[b]) ** 2)
    return float(np.mean(stated)), float(np.mean(real))


def savings(outcomes: Outcomes, prompts: int, budget: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Return stated and found variances of gaps for three plans of the same calls, on drawn prompts."""
    generator, k = np.random.default_rng(1), outcomes.k
    every = list(combinations(range(k), 2))
    truth = fit_strengths(outcomes).theta
    found: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        # A sample without repeats: the rest of a drawn prompt would be known.
        sample = drawn(outcomes, generator.permutation(len(outcomes.chars))[:prompts])
        offers = {prompt: [(pair, 2) for pair in every] for prompt in range(prompts)}
        few = PairPlan(k, number)
        few.spend(dict(list(offers.items())[: budget // (2 * len(every))]), budget)
        spread = PairPlan(k, number)
        spread.spend(offers, budget)
        near = PairPlan(k, number)
        near.spend(offers, int(budget * PILOT))
        close = near_pairs(fit_strengths(of_pairs(sample, near)).theta.tolist())
        near.spend({prompt: [each for each in found_ if each[0] in close] for prompt, found_ in offers.items()}, budget)
        for name, plan in (("all pairs, fewer prompts", few), ("spread", spread), ("pilot, then near ranks", near)):
            found.setdefault(name, []).append(gap_errors(of_pairs(sample, plan), truth))
    return {name: tuple(np.nanmean(each, axis=0)) for name, each in found.items()}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("judges", nargs="+")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--prompts", type=int, nargs="*", default=[20, 50])
    parser.add_argument("--budget", type=int, nargs="+", default=[])
    given = parser.parse_args()
    for judge in given.judges:
        outcomes = read_recorded(given.file, judge)
        for prompts in given.prompts:
            print(
                judge,
                prompts,
                {name: round(100 * each, 1) for name, each in coverage(outcomes, prompts, given.rounds).items()},
            )
        for budget in given.budget:
            plans = savings(outcomes, len(outcomes.chars), budget, given.rounds)
            base = plans["all pairs, fewer prompts"]
            for name, (stated, real) in plans.items():
                saved = [f"{100 * (1 - one / other):.0f} %" for one, other in zip((stated, real), base, strict=True)]
                print(f"{judge}, {budget} calls, {name}: ± {ELO * stated**0.5:.1f} Elo, found {ELO * real**0.5:.1f}")
                print(f"  calls saved at the same width {saved[0]}, at the same error {saved[1]}")


if __name__ == "__main__":
    main()
