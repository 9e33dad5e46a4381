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


# --- interim, until the estimators take mappings ---
from collections.abc import Mapping, Sequence
import numpy as np
from genrm_cli.pairing import Comparison
from genrm_cli.rewards.estimators import estimate as _e
from genrm_cli.verdicts import Verdict

Verdicts = Mapping[Comparison, Verdict]
Calibration = JudgeFit


def _pairs(v):
    return [JudgedPair(c[0], c[1], x.score_1, x.score_2, x.ranking) for c, x in v.items()]


def verdict_array(verdicts):
    return np.array(_pairs(verdicts), dtype=np.float64).reshape(-1, 5)


class CalibrationStatistics(JudgeStatistics):
    def add_group(self, n, verdicts):
        super().add_group(n, _pairs(verdicts))

    def add_arrays(self, n, a):
        super().add_group(n, [JudgedPair(int(r[0]), int(r[1]), *r[2:]) for r in a.tolist()])


_estimate = estimate


def estimate(name, n, verdicts, fit):
    return _estimate(name, n, _pairs(verdicts), fit)


def estimate_many(name, groups, fit):
    return [estimate(name, n, v, fit) for n, v in groups]
