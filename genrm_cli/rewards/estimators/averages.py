"""Averages over the verdicts on each rollout, opponents not considered."""

import numpy as np

from genrm_cli.rewards.estimators.judge_fit import JudgeFit
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, Flags, Floats, VerdictBatch


def average_scores(batch: VerdictBatch, fit: JudgeFit) -> BatchEstimate:
    """Average each rollout's scores, moved apart by the ranking where they are equal: `simple_tiebreaker`.

    Source: NVIDIA NeMo Gym, `genrm_compare`, `aggregate_scores`, method `simple_tiebreaker`.
    """
    shifts = np.where(batch.score_1 == batch.score_2, 3.5 - batch.ranking, 0.0)
    return _average(batch, batch.score_1 + shifts, batch.score_2 - shifts, fit.score_variance)


def average_wins(batch: VerdictBatch, fit: JudgeFit) -> BatchEstimate:
    """Return 1 + 4 times the share of its comparisons that a rollout won: 1 for none, 3 for half, 5 for all.

    So length and style terms, made for scores of 1 to 5, keep their weight. The higher score wins, of equal scores
    the ranking decides; an even verdict is half a win for both.
    """
    wins = 3 + 2 * np.sign(batch.leads())
    variance = None if fit.win_variance is None else 16 * fit.win_variance
    return _average(batch, wins, 6 - wins, variance)


def _average(batch: VerdictBatch, of_first: Floats, of_second: Floats, variance: float | None) -> BatchEstimate:
    counts = batch.counts()
    scored = counts > 0
    base_scores = batch.sum_by_rollout(of_first, of_second) / np.maximum(counts, 1)
    own = (variance or 0.0) / np.maximum(counts, 1)
    variances = _centred_variances(own, scored)
    return BatchEstimate(
        base_scores=base_scores,
        scored=scored,
        variances=variances,
        known=np.full(batch.groups, variance is not None),
        reliabilities=_reliabilities(base_scores, variances, scored),
        converged=np.ones(batch.groups, dtype=np.bool_),
    )


def _centred_variances(own: Floats, scored: Flags) -> Floats:
    """Return the variance of each mean less the mean of all means, whose errors are independent."""
    n = np.maximum(scored.sum(axis=1, keepdims=True), 1)
    whole = np.where(scored, own, 0.0).sum(axis=1, keepdims=True)
    centred: Floats = own * (1 - 2 / n) + whole / n**2
    return np.where(n > 1, centred, own)


def _reliabilities(base_scores: Floats, variances: Floats, scored: Flags) -> Floats:
    """Return [G] 1 - errors / spread, not below 0; 0 without a spread.

    Source: the reliability of observed scores in classical test theory, F. M. Lord and M. R. Novick, Statistical
    Theories of Mental Test Scores (1968) §3.
    """
    n = np.maximum(scored.sum(axis=1, keepdims=True), 1)
    means = np.where(scored, base_scores, 0.0).sum(axis=1, keepdims=True) / n
    spread = np.where(scored, (base_scores - means) ** 2, 0.0).sum(axis=1)
    errors = np.where(scored, variances, 0.0).sum(axis=1)
    noise = np.divide(errors, spread, out=np.ones_like(spread), where=spread > 0)
    shares: Floats = np.maximum(0.0, 1 - noise)
    return shares
