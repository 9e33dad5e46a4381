"""Average the verdicts on each rollout, regardless of the opponents."""

import math

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.least_squares import signal_share
from genrm_cli.rewards.estimators.verdict_batch import (
    BatchEstimate,
    Floats,
    Variances,
    VerdictBatch,
    scored_means,
    scores_given,
    wins_given,
)


def average_scores(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Average each rollout's scores; where the two scores of a verdict are equal, its ranking moves them apart.

    A tie adds 3.5 - ranking to the first and takes it from the second; otherwise the ranking is ignored. On the scale
    of the scores, but a tie can leave it: (3, 3, 1) counts as 5.5 and 0.5.

    Source: NVIDIA NeMo Gym, `genrm_compare`, `aggregate_scores`, method `simple_tiebreaker`.
    """
    return _average(batch, *scores_given(batch), calibration.scores)


def average_wins(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Return 1 + 4 times the share of its comparisons that a rollout won: 1 for none, 3 for half, 5 for all.

    On this scale length and style terms, designed for scores of 1 to 5, keep their weight. The higher score wins; on
    equal scores the ranking decides; an even verdict is half a win for both.
    """
    return _average(batch, *wins_given(batch), calibration.wins)


def _average(batch: VerdictBatch, of_first: Floats, of_second: Floats, run: Variances | None) -> BatchEstimate:
    counts = batch.counts()
    scored = counts > 0
    base_scores = batch.sum_by_rollout(of_first, of_second) / np.maximum(counts, 1)
    known = np.full(batch.groups, run is not None)
    run = run or Variances(0.0, 0.0, 0.0)
    ones = np.ones_like(of_first)
    favours = run.position * batch.sum_by_rollout(ones, -ones) / np.maximum(counts, 1)
    # Each mean minus the mean of all means, whose errors are independent.
    own, n = run.within / np.maximum(counts, 1), np.maximum(scored.sum(axis=1, keepdims=True), 1)
    variances = own * (1 - 2 / n) + np.where(scored, own, 0.0).sum(axis=1, keepdims=True) / n**2
    variances += (favours - scored_means(favours, scored)) ** 2
    # The variance between rollouts is that of the whole run: that of a single group is too small if errors cancel.
    total, deviations = run.between + variances, base_scores - scored_means(base_scores, scored)
    kept = np.divide(run.between, total, out=np.zeros_like(variances), where=total > 0)
    errors = np.where(scored, kept * variances, 0.0).sum(axis=1)
    return BatchEstimate(
        base_scores=base_scores,
        scored=scored,
        variances=variances,
        known=known,
        qualities=kept * deviations / math.sqrt(run.between or 1.0),
        assessed=known,
        reliabilities=signal_share(np.where(scored, (kept * deviations) ** 2, 0.0).sum(axis=1), errors),
        converged=np.ones(batch.groups, dtype=np.bool_),
    )
