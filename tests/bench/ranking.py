"""Measure `genrm rank` on recorded verdicts: `python tests/bench/ranking.py FILE SOURCE/JUDGE...`.

The file has verdicts of all pairs in both orders, in the form of tests/bench/recorded.py. Draws of
its prompts show how often an interval holds what all prompts say. Without a file, `--field K GAP`
simulates K policies whose neighbours are GAP Elo apart; with `--cycles`, it counts warnings of
cycles instead. `--looks` counts how often equal policies are called different if one looks after
every prompt, on GPT-4's verdicts in tests/ranking, and how many prompts show 5 points (simulated).
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from bench.recorded import RecordedVerdict, iter_recorded

from genrm_cli.products.ranking.board import Leaderboard
from genrm_cli.products.ranking.leaderboard import ELO, build_leaderboard
from genrm_cli.products.ranking.looks import (
    LEAST_PROMPTS,
    critical_z,
    prompts_to_show,
    share_interval,
)
from genrm_cli.products.ranking.outcomes import Outcomes, OutcomeTable


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


def read_recorded(path: str, judge: str) -> Outcomes:
    """Return the recorded verdicts of a judge."""
    prompts: dict[str, list[RecordedVerdict]] = {}
    for each in iter_recorded(path):
        if each.judge == judge and each.verdict is not None:
            prompts.setdefault(each.prompt, []).append(each)
    lines = [each for found in prompts.values() for each in found]
    table = OutcomeTable(sorted({each.first for each in lines} | {each.second for each in lines}))
    number_of = table.policies.index
    for found in prompts.values():
        pairs = [(number_of(each.first), number_of(each.second)) for each in found]
        table.begin_prompt({number: 0.0 for pair in pairs for number in pair})
        for (first, second), each in zip(pairs, found, strict=True):
            table.add(first, second, 0.0, each.verdict)
    return table.outcomes()


def held(board: Leaderboard, truth: Leaderboard) -> Iterator[tuple[str, float]]:
    """Yield what an interval is of, and whether it holds what all prompts say."""
    rows = {row.name: row for row in truth.policies}
    for row in board.pairs:
        found = truth.win_rate(row.a, row.b)
        if row.lo is not None and found is not None:
            yield "pairs", row.lo <= found[1] <= row.hi
    for place, row in enumerate(truth.policies, 1):
        own = next(each for each in board.policies if each.name == row.name)
        yield "Elo", own.elo_lo is None or own.elo_lo <= rows[row.name].elo <= own.elo_hi
        if own.lo is not None:
            yield "field", own.lo <= rows[row.name].win_rate <= own.hi
        if own.rank_lo is not None:
            yield "rank", own.rank_lo <= place <= own.rank_hi
    joint = [
        row.lo_sim <= found[1] <= row.hi_sim
        for row in board.pairs
        if row.lo_sim is not None and (found := truth.win_rate(row.a, row.b))
    ]
    yield "all pairs together", all(joint)
    wrong = [
        row for row in board.pairs if row.better is not None and row.better != _better(row, truth)
    ]
    yield "no wrong claim", not wrong


def _better(row: object, truth: Leaderboard) -> str:
    found = truth.win_rate(row.a, row.b)
    return row.a if found[1] > 0.5 else row.b


def coverage(outcomes: Outcomes, prompts: int, rounds: int, *, one_look: bool) -> dict[str, float]:
    """Return how often the intervals of so many drawn prompts hold what all prompts say."""
    generator = np.random.default_rng(0)
    truth = build_leaderboard(outcomes)
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        sample = drawn(outcomes, generator.integers(0, len(outcomes.chars), prompts))
        board = build_leaderboard(sample, one_look=one_look)
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


def claims(shares: np.ndarray, comparisons: int, *, one_look: bool) -> np.ndarray:
    """Return [N] whether a look after each prompt calls one of two policies better, by the shares
    [N] that the first won on each.
    """
    n = np.arange(1, len(shares) + 1)
    means = np.cumsum(shares) / n
    squares = np.cumsum(shares**2) / n - means**2
    told = np.zeros(len(shares), dtype=bool)
    for at in range(LEAST_PROMPTS - 1, len(shares)):
        error = max(0.0, squares[at] / at) ** 0.5
        z = critical_z(at + 1, comparisons, one_look=one_look)
        low, high = share_interval(means[at], error, at + 1, 2 * at + 2, z)
        told[at] = low > 0.5 or high < 0.5
    return told


def tell_looks(rounds: int) -> None:
    """Print how often equal policies are called different by a look after each of 1,000 prompts,
    and the prompts that show 5 points.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "products" / "ranking"))
    from recorded_systems import recorded_outcomes

    pairs, recorded = recorded_outcomes().win_shares()
    k = int(pairs.max()) + 1
    table = np.full((len(recorded), k, k), 0.5)
    for number, (a, b) in enumerate(pairs.tolist()):
        table[:, a, b] = recorded[:, number]
        table[:, b, a] = 1 - recorded[:, number]
    generator = np.random.default_rng(0)
    found: dict[str, list[bool]] = {}
    for _ in range(rounds):
        # Which policy is which is drawn anew on each prompt: none is better than another.
        prompt = generator.integers(0, len(table), 1_000)
        names = generator.permuted(np.tile(np.arange(k), (1_000, 1)), axis=1)
        for one_look in (True, False):
            kind = "one look" if one_look else "anytime"
            told = [
                claims(
                    table[prompt, names[:, a], names[:, b]], comparisons, one_look=one_look
                ).any()
                for a, b in pairs.tolist()
                for comparisons in (1, len(pairs))
            ]
            found.setdefault(f"{kind}, one pair", []).append(told[0])
            found.setdefault(f"{kind}, any of {len(pairs)} pairs", []).append(any(told[1::2]))
    for name, each in found.items():
        print(f"{name}: false claims in {np.mean(each):.3f} of {rounds} runs", flush=True)
    deviation = 0.38
    for comparisons in (1, 10):
        fixed = prompts_to_show(0.05, deviation, comparisons, one_look=True)
        advised = prompts_to_show(0.05, deviation, comparisons)
        told = [
            claims(generator.normal(0.55, deviation, advised), comparisons, one_look=False)
            for _ in range(rounds)
        ]
        by_then = np.mean([each.any() for each in told])
        print(
            f"5 points, {comparisons} comparisons: {fixed} prompts for one look; {advised} show "
            f"them in {by_then:.2f} of runs, {np.mean([each[-1] for each in told]):.2f} at that "
            "look",
            flush=True,
        )


def tell_cycles(name: str, outcomes: Outcomes, prompts: int, rounds: int) -> None:
    """Print how often draws of a field without cycles are called not transitive."""
    generator = np.random.default_rng(0)
    for one_look in (True, False):
        warned = 0
        for _ in range(rounds):
            sample = drawn(outcomes, generator.integers(0, len(outcomes.chars), prompts))
            board = build_leaderboard(sample, one_look=one_look)
            warned += any(each.startswith("not transitive") for each in board.warnings)
        kind = "one look" if one_look else "anytime"
        print(f"{name}, {prompts} prompts, {kind}: cycles in {warned} of {rounds}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("judges", nargs="*")
    parser.add_argument("--field", type=int, nargs=2, metavar=("K", "GAP"))
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--prompts", type=int, nargs="*", default=[20, 50])
    parser.add_argument("--one-look", action="store_true")
    parser.add_argument("--looks", action="store_true")
    parser.add_argument("--cycles", action="store_true")
    given = parser.parse_args()
    if given.looks:
        tell_looks(given.rounds)
    if given.field:
        outcomes = simulated(*given.field)
        for prompts in given.prompts if given.cycles else ():
            tell_cycles(f"{given.field[0]} policies", outcomes, prompts, given.rounds)
    for judge in given.judges:
        outcomes = read_recorded(given.file, judge)
        for prompts in given.prompts:
            print(
                judge,
                prompts,
                {
                    name: round(100 * each, 1)
                    for name, each in coverage(
                        outcomes, prompts, given.rounds, one_look=given.one_look
                    ).items()
                },
            )


if __name__ == "__main__":
    main()
