"""The measurement of a group that metrics, report and eval share."""

from genrm_cli.metrics.group_measures import NOISY_BELOW, GroupMeasures
from genrm_cli.metrics.run_metrics import RunMetrics


def test_rounding_is_no_spread() -> None:
    """Rewards that differ by rounding are flat, relative to the largest; one reward is neither flat nor spread."""
    assert GroupMeasures([0.1 + 0.2, 0.3]).is_flat
    assert GroupMeasures([1e12, 1e12 + 1]).is_flat
    assert not GroupMeasures([0.1, 0.1001]).is_flat
    assert (GroupMeasures([1.0]).is_flat, GroupMeasures([1.0]).spread) == (False, None)


def test_a_run_counts_what_its_groups_measure() -> None:
    """Noisy, flat and unknown groups are counted as the report shows them."""
    metrics = RunMetrics()
    for group in (GroupMeasures([1, 2], reliability=NOISY_BELOW), GroupMeasures([2, 2], reliability=0.4)):
        metrics.add_measures(group)
    metrics.add_measures(GroupMeasures())
    assert (metrics.groups_noisy, metrics.groups_without_spread, metrics.reliabilities.count) == (1, 1, 2)
