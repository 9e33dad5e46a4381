"""Adapt to the judge: to its labels or its scores, from the first group on."""

from dataclasses import fields
from typing import Any

import numpy as np

from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.labels import TYPICAL_LABELS, sizes_of, values_of
from genrm_cli.rewards.estimators.least_squares import QUALITY_POINTS, combine_adapted
from genrm_cli.rewards.estimators.strengths import fit_strengths
from genrm_cli.rewards.estimators.verdict_batch import BatchEstimate, VerdictBatch


def adapt(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    """Combine scores and rankings, or fit strengths to labels, as well as the judge's verdicts so far allow.

    What is assumed of the judge, from the first group on, is a typical one of its kind; each further verdict counts
    more. One standard deviation of quality within a group is 0.8 points with every judge, and base scores are shrunk
    towards the group's mean as far as the judge is noisy: this and the mean alone move their scale.
    """
    if calibration.groups:
        return combine_adapted(batch, calibration) if calibration.labels is None else _fit_labels(batch, calibration)
    _, has_labels = sizes_of(batch)
    pairs = zip(_columns(_fit_labels(batch, calibration)), _columns(combine_adapted(batch, calibration)), strict=True)
    return BatchEstimate(*(np.where(has_labels.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))


def _columns(estimate: BatchEstimate) -> list[Any]:
    return [getattr(estimate, each.name) for each in fields(estimate)]


def _fit_labels(batch: VerdictBatch, calibration: Calibration) -> BatchEstimate:
    choices = calibration.labels or TYPICAL_LABELS
    points = QUALITY_POINTS / choices.spread
    assessed = calibration.label_noise is not None
    return fit_strengths(batch, values_of(batch), choices, calibration.label_noise, points=points, assessed=assessed)
