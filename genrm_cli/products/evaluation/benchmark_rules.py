"""Score a judge by the rules of published benchmarks, from its scores of each prompt's responses.

Compare these numbers with published ones. The rules differ from those of `accuracy`:
RewardBench 2 counts a prompt, not its pairs, and chance is one in four.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Weights of the five parts of the Ties subset of RewardBench 2.
_TIES_WEIGHTS = (0.3, 0.3, 0.2, 0.2, 0.01)


def best_of(scores: Sequence[float], right: int = 0) -> float:
    """Return the credit for choosing among responses: 1 if the right one has the top score alone,
    1/k if it shares it with k - 1 others, else 0.

    Source: RewardBench 2 (arXiv 2506.01937), `process_single_model` of its code.
    """
    top = max(scores)
    return 1 / scores.count(top) if scores[right] == top else 0.0


def best_of_pairs(results: Sequence[float]) -> float:
    """Return our credit for a prompt that was judged in pairs only: 0 if the right response lost
    any, else 1 / (1 + ties).

    Args:
        results: of the right response against each other one: 1 won, 0.5 tied, 0 lost.
    """
    return 0.0 if any(result < 0.5 for result in results) else 1 / (1 + results.count(0.5))


class TiesPrompt(NamedTuple):
    """Scores of a prompt of the Ties subset: of its correct responses, and of its wrong ones."""

    correct: Sequence[float]
    wrong: Sequence[float]

    @property
    def margin(self) -> float:
        """How far the worst correct response is above the best wrong one."""
        return min(self.correct) - max(self.wrong)

    @property
    def spread(self) -> float:
        """How far correct responses are apart."""
        return max(self.correct) - min(self.correct)


def ties_score(pairs: Sequence[tuple[TiesPrompt, TiesPrompt]]) -> float:
    """Return the score of the Ties subset, at most 1.01, from pairs of a reference prompt with one
    correct response and a tied prompt with several.

    Source: RewardBench 2, `process_single_model` of its code.
    """
    parts = []
    for reference, tied in pairs:
        least = min(reference.margin, tied.margin)
        # Any margin is infinitely many times a spread of 0.
        relative = math.copysign(math.inf, least) if least else 0.0
        if tied.spread:
            relative = least / tied.spread - 1
        parts.append(
            (
                float(tied.margin > 0),
                float(reference.margin > 0),
                float(tied.margin > tied.spread),
                float(least > tied.spread),
                math.tanh(relative),
            )
        )
    means = [fmean(column) for column in zip(*parts, strict=True)]
    return math.fsum(weight * mean for weight, mean in zip(_TIES_WEIGHTS, means, strict=True))


@dataclass(frozen=True, slots=True)
class StyleAccuracy:
    """Accuracy on RM-Bench: `hard` where the right response has the plainer style, `normal` where
    styles are equal, `easy` where it has the richer one.
    """

    hard: float
    normal: float
    easy: float

    @property
    def mean(self) -> float:
        """Mean of the three."""
        return fmean((self.hard, self.normal, self.easy))


def style_accuracy(wins: NDArray[np.bool_]) -> StyleAccuracy:
    """Return the accuracy by style of one prompt.

    Args:
        wins: whether the right response in the style of the row beats the wrong one in that of the
            column, in the order concise, detailed, markdown; a tie does not.

    Source: RM-Bench (arXiv 2410.16184), the README of its code.
    """
    rows, columns = np.indices(wins.shape)
    return StyleAccuracy(
        hard=float(wins[rows < columns].mean()),
        normal=float(wins.diagonal().mean()),
        easy=float(wins[rows > columns].mean()),
    )


def mean_style(found: Sequence[StyleAccuracy]) -> StyleAccuracy:
    """Return the mean of each accuracy."""
    rows = [(each.hard, each.normal, each.easy) for each in found]
    return StyleAccuracy(*np.mean(rows, axis=0).tolist())


def best_of_k_curve(scores: Sequence[float], truths: Sequence[float]) -> list[float]:
    """Return the expected truth of the response with the top score among k, for k from 1 to n.

    Every set of k responses is equally likely; equal scores are in the order given.

    Source: PPE (arXiv 2410.14872), best-of-k; hypergeometric weights of order statistics.
    """
    n = len(scores)
    ranked = [truth for _, truth in sorted(zip(scores, truths, strict=True), key=lambda e: -e[0])]
    return [
        math.fsum(
            truth * math.comb(n - 1 - place, k - 1) / math.comb(n, k)
            for place, truth in enumerate(ranked)
        )
        for k in range(1, n + 1)
    ]
