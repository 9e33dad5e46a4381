"""The measurement of a group that metrics, report and eval share."""

import math
import statistics

import pytest
from scored_lines import totals_of

from genrm_cli.metrics.group_measures import NOISY_BELOW, GroupMeasures
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.metrics.running_stats import Z_95, ExpectedSignal


def test_rounding_is_no_spread():
    """Rewards that differ by rounding are flat, relative to the largest; one reward is neither flat
    nor spread.
    """
    assert GroupMeasures([0.1 + 0.2, 0.3]).is_flat
    assert GroupMeasures([1e12, 1e12 + 1]).is_flat
    assert not GroupMeasures([0.1, 0.1001]).is_flat
    assert GroupMeasures([1.0]).is_flat is False
    assert GroupMeasures([1.0]).spread is None


def test_a_run_counts_what_its_groups_measure():
    """Noisy, flat and unknown groups are counted as the report shows them."""
    metrics = RunMetrics()
    for group in (
        GroupMeasures([1, 2], reliability=NOISY_BELOW),
        GroupMeasures([2, 2], reliability=0.4),
    ):
        metrics.add_measures(group)
    metrics.add_measures(GroupMeasures())
    assert metrics.groups_noisy == 1
    assert metrics.groups_without_spread == 1
    assert metrics.reliability.count == 2


def test_length_and_reliability_have_intervals():
    """Of the mean over groups of three or more for the length effect; by the judge's noise and by
    the groups that there are for reliability.
    """
    metrics = RunMetrics()
    for lengths in ([1, 2, 3], [3, 2, 1], [1, 2, 3], [5, 5, 5], [1, 2]):
        expected = ExpectedSignal(0.5, 0.25)
        metrics.add_measures(GroupMeasures([1, 2, 3][: len(lengths)], lengths, 0.5, expected))
        metrics.group_sizes[len(lengths)] += 1
    summary = totals_of(metrics)
    assert summary.length_effect.count == 3
    assert summary.length_effect.mean == pytest.approx(1 / 3)
    half = Z_95 * statistics.stdev([1, -1, 1]) / math.sqrt(3)
    assert summary.length_effect_interval == pytest.approx((1 / 3 - half, 1.0))
    assert summary.reliability_interval == pytest.approx((0.25, 0.75))


def test_the_interval_of_a_run_holds_what_is_unknown_of_its_judge_and_of_its_groups():
    """Both add up in squares at each end, and it stays within 0 and 1."""
    metrics = RunMetrics()
    for reliability in (0.2, 0.8) * 50:
        metrics.add_measures(
            GroupMeasures(reliability=reliability, expected=ExpectedSignal(0.5, 0.04))
        )
    chance = Z_95 * 0.3 / math.sqrt(99)
    half = math.hypot(0.04, chance)
    found = metrics.expected_signal.interval_of_mean(metrics.reliability)
    assert found == pytest.approx((0.5 - half, 0.5 + half))
    sure = ExpectedSignal(0.99, 0.5).interval_of_mean(metrics.reliability)
    assert 0 <= sure[0] < sure[1] <= 1
    assert ExpectedSignal(0.5, 0.04).interval_of_mean(RunMetrics().reliability) is None


def test_the_interval_of_a_correlation_holds_none_that_cannot_be():
    """Two groups that disagree leave everything open, from -1 to 1, and no more."""
    metrics = RunMetrics()
    for lengths in ([1, 2, 3], [3, 2, 1]):
        metrics.add_measures(GroupMeasures([1, 2, 3], lengths))
    assert totals_of(metrics).length_effect_interval == (-1, 1)
