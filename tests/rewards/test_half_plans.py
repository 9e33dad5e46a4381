"""The reliability by two halves of the verdicts: a check that assumes nothing of the judge."""

import math
from dataclasses import replace

import numpy as np
import pytest
from bench.calibration import Cell, as_labels, conclude, judged, part_of
from bench.simulation.plan_metrics import indices_of, plan_within
from bench.simulation.world import JudgeModel, draw_world
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from genrm_cli.metrics.half_plans import HalfPlans, HalfPlanSummary, HalfSums
from genrm_cli.rewards.estimators.estimates import half_sums

SIZES = (4, 5, 6, 8, 16)
KINDS = ("scores", "labels")
CELLS = [Cell(n, kind, rings) for n in SIZES for kind in KINDS for rings in (1.0, 1.5, 2.0)]


def halves_of(sums):
    """Return the sums of some groups together."""
    halves = HalfPlans()
    for each in sums:
        halves.add(each)
    return halves


def test_equal_halves_are_perfectly_reliable():
    """And halves that say the opposite, not at all."""
    groups = [HalfSums(2.0 + k, 2.0 + k, 2.0 + k) for k in range(20)]
    summary = halves_of(groups).summary()
    assert (summary.reliability, summary.low, summary.high) == (1.0, 1.0, 1.0)
    assert halves_of([HalfSums(2.0, 2.0, -2.0)] * 20).summary().reliability == 0.0


def test_a_correlation_of_a_half_is_two_thirds_of_the_whole():
    """Spearman and Brown's 2 r / (1 + r)."""
    summary = halves_of([HalfSums(4.0, 1.0, 1.0)] * 10).summary()
    assert summary.reliability == pytest.approx(2 / 3)
    assert summary.groups == 10


def test_too_few_groups_and_halves_without_spread_are_unknown():
    """Neither is 0."""
    assert halves_of([HalfSums(1.0, 1.0, 0.5)] * 9).summary() is None
    assert halves_of([HalfSums(0.0, 1.0, 0.0)] * 20).summary() is None


@given(
    st.lists(st.tuples(*[st.floats(0.1, 9.0)] * 2, st.floats(-1.0, 1.0)), min_size=10, max_size=30),
    st.integers(0, 30),
)
def test_the_halves_of_two_inputs_are_merged(groups, cut):
    """As if they had been one, to rounding."""
    sums = [HalfSums(a, b, c * math.sqrt(a * b)) for a, b, c in groups]
    merged = halves_of(sums[:cut])
    merged.merge(halves_of(sums[cut:]))
    one, whole = merged.summary(), halves_of(sums).summary()
    assert one.reliability == pytest.approx(whole.reliability)
    assert one.high == pytest.approx(whole.high)


def test_only_a_reliability_that_is_surely_too_high_is_contradicted():
    """A tenth and both intervals are allowed, and halves may agree more."""
    halves = HalfPlanSummary(100, 0.5, 0.45, 0.55)
    assert not halves.contradicts((0.64, 0.7))
    assert not halves.contradicts((0.2, 0.3))
    assert halves.contradicts((0.66, 0.7))


def in_both_orders(n, groups):
    """Return what is shown of groups of n: a ring, each pair in both orders."""
    first = np.array([each for i in range(n) for each in (i, (i + 1) % n)])
    second = np.array([each for i in range(n) for each in ((i + 1) % n, i)])
    return tuple(np.broadcast_to(each, (groups, 2 * n)) for each in (first, second))


def test_an_error_about_a_pair_is_in_one_half():
    """It recurs in both orders: were they shared out to the halves, it would look like signal."""
    rng = np.random.default_rng(3)
    world = draw_world(JudgeModel(intransitivity=1.5), 300, 6, rng)
    batch = judged(world, in_both_orders(6, 300), "scores", rng)
    run = conclude(batch)
    found = halves_of(half_sums("adaptive", batch, run.calibration)).summary()
    assert found.reliability == pytest.approx(run.reliability, abs=0.1)
    for half in batch.halves():
        pairs = np.sort(np.stack([half.first, half.second]), axis=0)[:, half.valid].T
        assert len(pairs) == 300 * 6
        assert len(np.unique(pairs[:6], axis=0)) == 3


def contradictions(cell, groups, runs):
    """Return in how many runs of so many groups the halves contradict the reliability."""
    n, kind, rings = cell
    rng = np.random.default_rng([5, n, groups])
    world = draw_world(JudgeModel(), groups * runs, n, rng)
    plan = plan_within("ring", n, int(rings * n))
    batch = judged(world, indices_of(plan, n, range(groups * runs), 0), kind, rng)
    found = 0
    for start in range(0, groups * runs, groups):
        part = part_of(batch, slice(start, start + groups))
        run = conclude(part)
        halves = halves_of(half_sums("adaptive", part, run.calibration) or []).summary()
        if run.interval is not None and halves is not None:
            found += halves.contradicts(run.interval)
    return found


def run_of(world, n, kind, rng, sizes=None):
    """Return a run with two rings and its halves.

    Args:
        sizes: of the errors of two servers about a rollout, which take turns; none by default.
    """
    groups = len(world.truth)
    plan = plan_within("ring", n, 2 * n)
    batch = judged(world, indices_of(plan, n, range(groups), 0), "scores", rng)
    if sizes is not None:
        # The pairs of each group in order go to one server and the other.
        codes = np.minimum(batch.first, batch.second) * n + np.maximum(batch.first, batch.second)
        server = codes.argsort(axis=1).argsort(axis=1) % 2
        errors = sizes * rng.standard_normal((2, groups, n))
        rows = np.arange(groups)[:, None]
        lead = errors[server, rows, batch.first] - errors[server, rows, batch.second]
        score_1 = np.clip(batch.score_1 + lead / 2, 1, 5)
        score_2 = np.clip(batch.score_2 - lead / 2, 1, 5)
        ranking = np.clip(3.5 - (score_1 - score_2) / 2, 1, 6)
        batch = structs.replace(batch, score_1=score_1, score_2=score_2, ranking=ranking)
    batch = as_labels(batch) if kind == "labels" else batch
    run = conclude(batch)
    return run, halves_of(half_sums("adaptive", batch, run.calibration)).summary()


@pytest.mark.parametrize("kind", KINDS)
def test_errors_that_the_verdicts_of_a_half_share_are_seen(kind):
    """Two servers that err about a rollout each in its own way: what one repeats is not signal. The
    halves are nearer to the share of the spread that is the judge's opinion.
    """
    rng = np.random.default_rng(3)
    world = draw_world(JudgeModel(), 300, 6, rng)
    run, halves = run_of(world, 6, kind, rng, sizes=2.0)
    assert halves.contradicts(run.interval)
    scores = run.made.base_scores - run.made.base_scores.mean(axis=1, keepdims=True)
    quality = world.quality - world.quality.mean(axis=1, keepdims=True)
    signal = np.corrcoef(scores.ravel(), quality.ravel())[0, 1] ** 2
    assert abs(halves.reliability - signal) < abs(run.reliability - signal)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_that_differ_in_spread_are_not_accused(kind):
    """Where most groups are all alike, halves agree in the others, and that is no error."""
    rng = np.random.default_rng(3)
    world = draw_world(JudgeModel(), 300, 6, rng)
    spread = np.where(rng.random(300) < 0.4, 2.0, 0.1)[:, None]
    run, halves = run_of(replace(world, quality=spread * world.quality), 6, kind, rng)
    assert not halves.contradicts(run.interval)


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "runs"), [(30, 20), (300, 4)])
def test_a_judge_with_independent_errors_is_not_accused(groups, runs):
    """In 30 cells of group size, kind of judge and rings, at most one run of each is, and one in a
    hundred of all.
    """
    found = {str(cell): contradictions(cell, groups, runs) for cell in CELLS}
    assert max(found.values()) <= 1, found
    assert sum(found.values()) <= 0.01 * runs * len(CELLS), found
