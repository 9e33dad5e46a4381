"""Verdicts of one group → one base score for each rollout, with its standard error.

The verdicts of a run are gathered in `JudgeStatistics`, whose `fit()` every estimator is given. `ESTIMATORS` work on
a `VerdictBatch` of many groups of one size, `estimate` on one group.
"""

from genrm_cli.rewards.estimators.estimate import ESTIMATORS, Estimate, estimate
from genrm_cli.rewards.estimators.judge_fit import JudgeFit, JudgeNoise, JudgeStatistics, Weights
from genrm_cli.rewards.estimators.simple_tiebreaker import estimate_simple_tiebreaker
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, JudgedPair, VerdictBatch, batch_of

__all__ = [
    "ESTIMATORS",
    "BatchEstimate",
    "Estimate",
    "JudgeFit",
    "JudgeNoise",
    "JudgeStatistics",
    "JudgedPair",
    "VerdictBatch",
    "Weights",
    "batch_of",
    "estimate",
    "estimate_simple_tiebreaker",
]
