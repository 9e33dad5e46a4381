"""Weigh scores and ranking as the kind of judge deserves, from the first group on."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.judge_noise import COMPARING, LEVEL_FLOOR
from genrm_cli.rewards.estimators.least_squares import combine_by_kind
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, VerdictBatch


def adapt(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Combine scores and rankings with the weights for this kind of judge.

    Without a calibration each group shows whether its judge only compares, as a judge of labels does; else the typical
    weights are used.
    """
    if calibration.groups:
        return combine_by_kind(batch, calibration)
    means = (batch.score_1 + batch.score_2) / 2
    compares = ((means - batch.means(means)) ** 2 * batch.valid).sum(axis=1) <= LEVEL_FLOOR * batch.valid.sum(axis=1)
    kinds = (replace(calibration, kind=COMPARING), calibration)
    pairs = zip(*(_columns(combine_by_kind(batch, each)) for each in kinds), strict=True)
    return BatchEstimate(*(np.where(compares.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))


def _columns(estimate: BatchEstimate) -> list[Any]:
    return [getattr(estimate, each.name) for each in fields(estimate)]
