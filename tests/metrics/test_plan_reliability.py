"""How many comparisons make rewards reliable, predicted from a run."""

import pytest

from genrm_cli.metrics.plan_reliability import (
    LISTS,
    RingsNeeded,
    expected_reliability,
    remedy_text,
    repeats_needed,
    rings_needed,
    typical_size,
    unmeasured_text,
)
from genrm_cli.pairing.pairs import PairingPlan


def test_every_plan_of_complete_pairs_has_its_closed_form():
    """All pairs of n rollouts have n - 1 equal modes, so the reliability is s n / (1 + s n)."""
    assert expected_reliability(PairingPlan("all_pairs"), 6, 0.5) == pytest.approx(3 / 4)


def test_a_better_judge_needs_fewer_rings():
    """The ends of the interval enclose the expected rings; a useless judge has none that
    suffice.
    """
    needed = rings_needed(PairingPlan("ring", 1), 8, 0.55, (0.45, 0.65))
    assert needed == RingsNeeded(expected=2.75, at_best=2.0, at_worst=5.25)
    useless = rings_needed(PairingPlan("ring", 1), 8, 0.0, (0.0, 0.1))
    assert useless == RingsNeeded(expected=None, at_best=None, at_worst=None)


def test_the_remedy_fits_what_is_known():
    """More rings are advised by number, and only where they help."""
    cases = [
        (None, 0.5, "raise ring_k"),
        (RingsNeeded(expected=2.75, at_best=2.0, at_worst=4.75), 0.5, "ring_k 2.75 (2 to 4.75)"),
        (RingsNeeded(expected=2.75, at_best=2.0, at_worst=None), 0.5, "(2 to more than all)"),
        (
            RingsNeeded(expected=None, at_best=3.0, at_worst=None),
            0.3,
            "would not be expected to reach",
        ),
        (RingsNeeded(expected=None, at_best=None, at_worst=None), 0.0, "no number of calls"),
        (RingsNeeded(expected=1.0, at_best=1.0, at_worst=1.5), 0.85, "ring_k 1.5"),
        (RingsNeeded(expected=1.0, at_best=1.0, at_worst=None), 0.85, "score more groups"),
    ]
    for needed, mean, says in cases:
        assert says in remedy_text(needed, mean)
    assert "genrm eval" in remedy_text(None, 0.5, is_panel=True)


def test_small_groups_are_not_told_to_be_compared_more():
    """Groups of two and three have no two comparisons without a common rollout at any ring_k."""
    assert "raise ring_k" in unmeasured_text([2, 4], "ring", 1)
    assert "ring_k" not in unmeasured_text([2, 3], "ring", 1)


def test_the_typical_group_is_that_of_the_median_rollout():
    """Groups of one do not count, and a few large groups weigh by their rollouts."""
    assert typical_size({1: 500, 4: 10, 16: 5}) == 16
    assert typical_size({4: 10, 1000: 10}) == 48
    assert typical_size({1: 3}) is None


def test_lists_need_repeats():
    """By the formula of Spearman and Brown: .5 with two orders takes eight for .8."""
    needed = repeats_needed(2, 0.5, (0.3, 0.7))
    assert needed == RingsNeeded(expected=8, at_best=4, at_worst=19, setting="repeats")
    assert "repeats 8 (4 to 19) would reach 0.80" in remedy_text(needed, 0.5)
    assert "no number of calls" in remedy_text(repeats_needed(1, 0.0, (0.0, 0.05)), 0.0)
    assert "set repeats to 2" in unmeasured_text([8], LISTS, 1)
    assert "raise repeats" in unmeasured_text([3], LISTS, 2)
