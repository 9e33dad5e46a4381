"""Judges that write a label instead of scores: a win, a tie, a win by much."""

from dataclasses import dataclass

import numpy as np

from genrm_cli.rewards.estimators.verdict_batch import Floats, VerdictBatch
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE

# Gap and ranking of the verdicts that stand for labels: a tie, slightly better, better, much better.
LABELS = ((0.0, 0.0), (1.0, 0.5), (2.0, 1.5), (4.0, 2.5))
SIZES = len(LABELS)
MUCH = SIZES - 1
UNIT = 3.5  # (d + r) of `better`, which counts as half a win more than a tie
_MUCH_BETTER = sum(LABELS[MUCH]) / 2 / UNIT


@dataclass(frozen=True, slots=True)
class Choices:
    """A judge that chooses value v with probability proportional to weight_v exp(v (x_i - x_j + position)).

    Two values without weights are the Bradley-Terry model, three are Davidson's with ties, more the adjacent-category
    logit model.

    Attributes:
        values: of the choices, symmetric about 0; the log odds of the outer two of -0.5 and 0.5 are the advantage.
        log_weights: of the values.
        position: advantage of the first.
        spread: standard deviation of the normal prior of the strengths x.

    Source: R. R. Davidson, J. Am. Stat. Assoc. 65 (1970) 317; A. Agresti, Categorical Data Analysis (adjacent-category
    logits).
    """

    values: tuple[float, ...]
    log_weights: tuple[float, ...]
    position: float
    spread: float

    def moments(self, advantages: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the logarithm of the sum of all odds, the mean of the choice and its variance, for any array."""
        values = np.array(self.values)
        odds = advantages[..., None] * values + np.array(self.log_weights)
        top = odds.max(axis=-1, keepdims=True)
        odds = np.exp(odds - top)
        total = odds.sum(axis=-1)
        mean = odds @ values / total
        return np.log(total) + top[..., 0], mean, np.maximum(0.0, odds @ values**2 / total - mean**2)


LabelModel = tuple[tuple[float, ...], tuple[float, ...]]
"""The values of the labels of a judge, and the logarithms of their weights."""

# The judge of labels is fixed, as the kinds of judges of scores are: a fitted one moves with every label. It ties 12 %
# of the pairs of its prior and, if it writes `much better` at all, does so for two fifths.
THREE_LABELS: LabelModel = ((-0.5, 0.0, 0.5), (0.0, -0.81, 0.0))
FIVE_LABELS: LabelModel = ((-_MUCH_BETTER, -0.5, 0.0, 0.5, _MUCH_BETTER), (-1.2, 0.0, -0.81, 0.0, -1.2))


def values_of(batch: VerdictBatch) -> Floats:
    """Return [G, M] the value of each verdict: 0.5 for better, more for much better, 0 for a tie; on any verdict."""
    values: Floats = (batch.score_1 - batch.score_2 + MIDDLE_RANKING - batch.ranking) / 2 / UNIT
    return values


def sizes_of(batch: VerdictBatch) -> Floats:
    """Return [G, 4] the verdicts by the size of their label; others are not counted."""
    gaps, rankings = batch.score_1 - batch.score_2, MIDDLE_RANKING - batch.ranking
    is_centred = batch.score_1 + batch.score_2 == MIN_SCORE + MAX_SCORE
    found = [
        ((np.abs(gaps) == gap) & (rankings == np.sign(gaps) * ranking) & is_centred & batch.valid).sum(axis=1)
        for gap, ranking in LABELS
    ]
    return np.stack(found, axis=1).astype(np.float64)
