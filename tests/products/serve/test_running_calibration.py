"""The running calibration: every group once, kept in the journal, the same as that of a file."""

import random

import numpy as np
import pytest
from bench.calibration import Cell, judged, part_of
from bench.simulation.plan_metrics import indices_of, plan_within
from bench.simulation.world import JudgeModel, draw_world

from genrm_cli.judging.journal import Journal
from genrm_cli.pairing.pairs import Comparison, PairingPlan
from genrm_cli.products.serve.served_scorer import RunningCalibration
from genrm_cli.rewards.estimators.calibration import CalibrationStatistics
from genrm_cli.rewards.estimators.estimates import ESTIMATORS
from genrm_cli.verdicts import Verdict

SIZE = 8
NEVER = 1e12


def verdicts_of(number):
    """Return the verdicts on a group, by a judge that prefers the first response."""
    generator = random.Random(number)
    qualities = [generator.gauss(0, 1) for _ in range(SIZE)]
    verdicts = {}
    for comparison in PairingPlan("ring", ring_k=1.5).iter_pairs(SIZE, str(number)):
        gap = qualities[comparison.i] - qualities[comparison.j] + generator.gauss(0.5, 0.5)
        verdicts[comparison] = Verdict(3 + gap / 2, 3 - gap / 2, min(6.0, max(1.0, 3.5 - gap)))
    return verdicts


@pytest.fixture
def begin(tmp_path):
    """Begin a running calibration on the same journal, as a server does that begins again."""
    with Journal(str(tmp_path / "j.sqlite")) as journal:
        yield lambda judge="judge", half_life=NEVER: RunningCalibration(
            journal.sums, judge, half_life
        )


def add_groups(running, groups):
    """Add groups, and return the calibration after the last."""
    for number in groups:
        running.add(bytes([number]), SIZE, verdicts_of(number))
        running.refitted()
    return running


def test_it_is_that_of_a_file_with_the_same_groups(begin):
    """Over a restart, too; the record says how many groups and comparisons it rests on."""
    add_groups(begin(), range(30)).flush()
    record = add_groups(begin(), range(30, 48))
    statistics = CalibrationStatistics()
    for number in range(48):
        statistics.add_group(SIZE, verdicts_of(number))
    wanted = statistics.fit()
    assert (record.groups, record.comparisons) == (48, 48 * 12)
    assert record.fitted.gap_bias == pytest.approx(wanted.gap_bias)
    assert record.fitted.weights == pytest.approx(wanted.weights)
    assert record.fitted.noise.slope == pytest.approx(wanted.noise.slope)


def test_variances_of_rewards_count_from_the_next_group_on(begin):
    """A group's rewards are known only after its verdicts were added; a repeated group has none to
    add.
    """
    running = begin()
    assert running.add(b"1", SIZE, verdicts_of(1))
    running.add_variance(0.5)
    running.refitted()
    assert running.fitted.reward_variance is None
    assert not running.add(b"1", SIZE, verdicts_of(1))
    running.add(b"2", SIZE, verdicts_of(2))
    running.add_variance(1.5)
    running.refitted()
    assert running.fitted.reward_variance == pytest.approx(0.5)
    add_groups(running, [3])
    assert running.fitted.reward_variance == pytest.approx(1.0)


def test_a_group_counts_once(begin):
    """However often it is judged, before and after a restart; under another name it counts anew."""
    add_groups(begin(), [1, 1, 2]).flush()
    assert add_groups(begin(), [2, 1, 3]).groups == 3
    assert add_groups(begin("another judge"), [2]).groups == 1


def test_it_is_fitted_again_as_it_grows():
    """Without a journal, too: never staler than one part in twenty of its groups."""
    running = RunningCalibration(None, "judge", NEVER)
    for number in range(60):
        record = add_groups(running, [number])
        assert record.groups >= (number + 1) / 1.051


def test_a_judge_that_changes_is_noticed(begin):
    """Its verdicts before the change fade: by a half with each half-life, also over a restart."""
    half_life = 120.0  # 10 groups
    before, after = (
        dict.fromkeys(verdicts_of(0), verdict) for verdict in (Verdict(5, 1, 1), Verdict(1, 5, 6))
    )
    for life in range(5):
        running = begin(half_life=half_life)
        for number in range(20):
            running.add(bytes([life, number]), SIZE, before)
        running.flush()
    assert running.comparisons == pytest.approx(12 / (1 - 0.5**0.1), rel=0.01)
    for number in range(50):
        running.add(bytes([number]), SIZE, after)
    running.flush()
    assert begin(half_life=half_life).fitted.gap_bias < -2


def moved(cell, groups=400):
    """Return [groups] how far the reward that moves most is, in each group as it is served, from
    that of a file with all of them.
    """
    n, kind, rings = cell
    rng = np.random.default_rng([5, n])
    plan = plan_within("ring", n, int(rings * n))
    world = draw_world(JudgeModel(), groups, n, rng)
    batch = judged(world, indices_of(plan, n, range(groups), 0), kind, rng)
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    of_file = ESTIMATORS["adaptive"](batch, statistics.fit()).base_scores
    running = RunningCalibration(None, "judge")
    found = []
    for number in range(groups):
        alone = part_of(batch, slice(number, number + 1))
        columns = (alone.first, alone.second, alone.score_1, alone.score_2, alone.ranking)
        rows = zip(*(each[0].tolist() for each in columns), strict=True)
        verdicts = {Comparison(i, j, 0): Verdict(*verdict) for i, j, *verdict in rows}
        running.add(str(number).encode(), n, verdicts)
        served = ESTIMATORS["adaptive"](alone, running.refitted()).base_scores[0]
        found.append(float(np.abs(served - of_file[number]).max()))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "first", "later"),
    [
        (Cell(4, "scores", 1.0), 0.135, 0.17),
        (Cell(8, "scores", 1.0), 0.125, 0.045),
        (Cell(16, "scores", 1.0), 0.235, 0.05),
        (Cell(8, "labels", 1.0), 0.055, 0.02),
    ],
)
def test_served_rewards_are_near_those_of_a_file(cell, first, later):
    """The guide says how near, in the first 125 groups and after them."""
    found = moved(cell)
    assert found[:125].max() < first
    assert found[125:].max() < later
