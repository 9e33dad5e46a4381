"""Moments are estimates: one that ought to be a variance may be negative."""

import math
from dataclasses import replace

import pytest

from genrm_cli.catalog import ESTIMATORS
from genrm_cli.metrics.running_stats import odds_interval
from genrm_cli.pairing.pairs import Comparison, PairingPlan
from genrm_cli.rewards.estimators.calibration import Calibration
from genrm_cli.rewards.estimators.estimates import estimate_many
from genrm_cli.rewards.estimators.judge_noise import TYPICAL
from genrm_cli.verdicts import Verdict


def test_a_negative_variance_of_prompts_gives_errors_all_the_same():
    """All pairs show the first rollout first in every comparison, which multiplies the moment."""
    for estimator in sorted(ESTIMATORS):
        noise = replace(TYPICAL, prompt_bias=((-0.5, -0.5), (-0.5, -0.5)))
        pairs = PairingPlan("all_pairs").iter_pairs(16)
        verdicts = {Comparison(*pair): Verdict(4.0, 2.0, 2.0) for pair in pairs}
        (made,) = estimate_many(estimator, [(16, verdicts)], Calibration(noise=noise))
        assert all(error is None or math.isfinite(error) for error in made.standard_errors)


def test_an_error_without_bound_gives_the_whole_interval():
    """The logistic function does not overflow."""
    assert odds_interval(0.5, 1e12) == pytest.approx((0.0, 1.0))
