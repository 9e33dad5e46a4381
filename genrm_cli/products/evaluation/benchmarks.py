"""Scores by the rules of published benchmarks, of labelled lines with several pairs.

The rules differ from that of `accuracy`: three wrong responses to a prompt are three pairs, but one
choice. A rule reads [right, wrong] 1 where the right response of the row beats the wrong one of the
column, 0.5 for a tie and 0 where it loses.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from genrm_cli.products.evaluation.accuracy import (
    PairRecord,
    PairShare,
    pair_result,
    share_of_items,
)
from genrm_cli.rewards.estimators.verdict_batch import Floats

# RewardBench 2 (arXiv 2506.01937): a prompt counts once; a shared top score is a share of it.
# RM-Bench (arXiv 2410.16184): rows and columns are styles from plain to rich; a tie is wrong.
_Rule = Callable[[Floats], float]
_CHOICE: dict[str, _Rule] = {
    "RewardBench 2": lambda won: 0.0 if won.min() < 0.5 else 1 / (1 + (won == 0.5).sum()),
}
_STYLES: dict[str, _Rule] = {
    "RM-Bench, hard": lambda won: float((won[np.triu_indices(len(won), 1)] == 1).mean()),
    "RM-Bench, normal": lambda won: float((won.diagonal() == 1).mean()),
    "RM-Bench, easy": lambda won: float((won[np.tril_indices(len(won), -1)] == 1).mean()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkScore:
    """A score by one rule; `of_categories` is the unweighted mean over categories."""

    share: PairShare
    of_categories: float


def benchmark_scores(records: Iterable[PairRecord]) -> dict[str, BenchmarkScore]:
    """Score the lines with one right response among several, and those with as many right as wrong
    ones, by the names of their rules; lines that lack a verdict are left out.
    """
    lines: dict[str, list[PairRecord]] = defaultdict(list)
    for record in records:
        lines[record.item].append(record)
    earned: dict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for item, pairs in lines.items():
        shape = tuple(1 + max(each) for each in zip(*(pair.places for pair in pairs), strict=True))
        won = np.full(shape, np.nan)
        for pair in pairs:
            won[pair.places] = pair_result(pair)
        rules = _CHOICE if shape[0] == 1 < shape[1] else {}
        if shape[0] == shape[1] > 1:
            rules = _STYLES
        if np.isnan(won).any():
            continue
        for name, rule in rules.items():
            earned[name][pairs[0].category or ""].append((item, rule(won)))
    return {
        name: BenchmarkScore(
            share=share_of_items(one for each in by_category.values() for one in each),
            of_categories=fmean(fmean(value for _, value in each) for each in by_category.values()),
        )
        for name, by_category in earned.items()
    }
