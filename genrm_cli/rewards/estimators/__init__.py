"""Turn the verdicts of one group into a base score of each rollout, with its standard error.

`CalibrationStatistics` collects the verdicts of a run, and its `fit()` gives the `Calibration` that every estimator
takes. `estimate` works on one group, `estimate_many` on many, `ESTIMATORS` on a `VerdictBatch`.
"""

from genrm_cli.rewards.estimators.calibration import Calibration, CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import ESTIMATORS, Estimate, estimate, estimate_many
from genrm_cli.rewards.estimators.judge_noise import JudgeNoise, Weights
from genrm_cli.rewards.estimators.least_squares import weigh_alone
from genrm_cli.rewards.estimators.shared_pairs import RunStatistics, estimate_panel
from genrm_cli.rewards.estimators.verdict_batch import (
    BatchEstimate,
    Floats,
    VerdictBatch,
    Verdicts,
    batch_of,
    verdict_array,
)

__all__ = [
    "ESTIMATORS",
    "BatchEstimate",
    "Calibration",
    "CalibrationStatistics",
    "Estimate",
    "Floats",
    "JudgeNoise",
    "RunStatistics",
    "VerdictBatch",
    "Verdicts",
    "Weights",
    "batch_of",
    "estimate",
    "estimate_many",
    "estimate_panel",
    "verdict_array",
    "weigh_alone",
]
