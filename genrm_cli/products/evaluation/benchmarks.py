"""Scores by the rules of published benchmarks, of labelled lines with several pairs.

Three wrong responses to a prompt are three pairs for `accuracy`, but one choice for a benchmark.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import fmean

import numpy as np
from msgspec import Struct

from genrm_cli.products.evaluation.accuracy import PairShare, share_of_items
from genrm_cli.products.evaluation.pair_records import PairRecord
from genrm_cli.rewards.estimators.verdict_batch import Floats

# [right, wrong] 1 where the right response of the row beats the wrong one of the column, else 0 or,
# for a tie, 0.5. RewardBench 2 (arXiv 2506.01937): a shared top score is a share of the prompt.
_CHOICE: dict[str, Callable[[Floats], float]] = {
    "RewardBench 2": lambda won: 0.0 if won.min() < 0.5 else 1 / (1 + (won == 0.5).sum()),
}
# RM-Bench (arXiv 2410.16184): rows and columns are styles from plain to rich; a tie is wrong.
_STYLES: dict[str, Callable[[Floats], float]] = {
    "RM-Bench, hard": lambda won: float((won[np.triu_indices(len(won), 1)] == 1).mean()),
    "RM-Bench, normal": lambda won: float((won.diagonal() == 1).mean()),
    "RM-Bench, easy": lambda won: float((won[np.tril_indices(len(won), -1)] == 1).mean()),
}


class BenchmarkScore(Struct, frozen=True, kw_only=True):
    """A score by one rule; `of_categories` is the unweighted mean over categories."""

    share: PairShare
    of_categories: float


def benchmark_scores(records: Iterable[PairRecord]) -> dict[str, BenchmarkScore]:
    """Score lines by the names of their rules; those that lack a verdict are left out."""
    lines: dict[str, list[PairRecord]] = defaultdict(list)
    for record in records:
        lines[record.item].append(record)
    earned: dict[str, dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for item, pairs in lines.items():
        shape = tuple(1 + max(each) for each in zip(*(pair.places for pair in pairs), strict=True))
        won = np.full(shape, np.nan)
        for pair in pairs:
            won[pair.places] = pair.result
        is_choice = shape[0] == 1 < shape[1]
        rules = _CHOICE if is_choice else _STYLES
        if (is_choice or shape[0] == shape[1] > 1) and not np.isnan(won).any():
            for name, rule in rules.items():
                earned[name][pairs[0].category or ""].append((item, rule(won)))
    scores = {}
    for name, of_name in earned.items():
        share = share_of_items(value for each in of_name.values() for value in each)
        means = [fmean(value for _, value in each) for each in of_name.values()]
        scores[name] = BenchmarkScore(share=share, of_categories=fmean(means))
    return scores
