"""Judges that write a label instead of scores: a win, a tie, a win by much."""

import numpy as np

from genrm_cli.rewards.estimators.verdict_batch import Floats, VerdictBatch
from genrm_cli.verdicts import MAX_SCORE, MIDDLE_RANKING, MIN_SCORE

# Gap and ranking of the verdicts that stand for labels: a tie, slightly better, better, much
# better.
LABELS = ((0.0, 0.0), (1.0, 0.5), (2.0, 1.5), (4.0, 2.5))
SIZES = len(LABELS)
MUCH = SIZES - 1
UNIT = 3.5  # (d + r) of `better`, which counts as half a win more than a tie
_MUCH_BETTER = sum(LABELS[MUCH]) / 2 / UNIT


LabelModel = tuple[tuple[float, ...], tuple[float, ...]]
"""The values of the labels of a judge, and the logarithms of their weights."""

# The judge of labels is fixed, as the kinds of judges of scores are: a fitted one moves with every
# label. It ties 12 % of the pairs of its prior and, if it writes `much better` at all, does so for
# two fifths.
THREE_LABELS: LabelModel = ((-0.5, 0.0, 0.5), (0.0, -0.81, 0.0))
FIVE_LABELS: LabelModel = (
    (-_MUCH_BETTER, -0.5, 0.0, 0.5, _MUCH_BETTER),
    (-1.2, 0.0, -0.81, 0.0, -1.2),
)


def values_of(batch: VerdictBatch) -> Floats:
    """Return [G, M] the value of each verdict: 0.5 for better, more for much better, 0 for a tie;
    on any verdict.
    """
    values: Floats = (batch.score_1 - batch.score_2 + MIDDLE_RANKING - batch.ranking) / 2 / UNIT
    return values


def sizes_of(batch: VerdictBatch) -> Floats:
    """Return [G, 4] the verdicts by the size of their label; others are not counted."""
    gaps = batch.score_1 - batch.score_2
    rankings = MIDDLE_RANKING - batch.ranking
    is_centred = batch.score_1 + batch.score_2 == MIN_SCORE + MAX_SCORE
    found = [
        (
            (np.abs(gaps) == gap) & (rankings == np.sign(gaps) * ranking) & is_centred & batch.valid
        ).sum(axis=1)
        for gap, ranking in LABELS
    ]
    return np.stack(found, axis=1).astype(np.float64)
