"""Large groups: the iterative solutions against the dense ones."""

import numpy as np
import pytest
from drawn_verdicts import linear_judge, pairs_of
from verdict_rows import verdicts_of

from genrm_cli.pairing import STRATEGIES, plan_comparisons
from genrm_cli.rewards.estimators import CalibrationStatistics, estimate, least_squares, strengths
from genrm_cli.rewards.estimators.sparse import EXACT, PairMatrix

NAMES = ["adaptive", "combined", "combined_fitted", "bradley_terry"]


@pytest.fixture(scope="module")
def calibration():
    """Return the calibration from 150 small groups."""
    batch, _ = linear_judge(150, 8, [(i, j) for i, j, _ in plan_comparisons(8, "ring")])
    statistics = CalibrationStatistics()
    statistics.add_batch(batch)
    return statistics.fit()


def both_ways(monkeypatch, name, n, verdicts, calibration):
    """Return the dense and the iterative estimate."""
    made = []
    for limit in (n, 0):
        for module in (least_squares, strengths):
            monkeypatch.setattr(module, "MAX_DENSE", limit)
        made.append(estimate(name, n, verdicts, calibration))
    return made


def numbers_of(values):
    """Return the values that are not None."""
    return np.array([value for value in values if value is not None])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("strategy", "n", "ring_k"),
    [
        *((each, 100, 1) for each in STRATEGIES),
        ("ring", 2, 1),
        ("ring", 150, 2.5),
        pytest.param("ring", 300, 3, marks=pytest.mark.slow),
    ],
)
def test_iterative_estimates_are_the_dense_ones(monkeypatch, calibration, name, strategy, n, ring_k):
    """Base scores to 1e-9; standard errors to 3 % in the root mean square without bias, reliability to 0.005."""
    plan = [(i, j) for i, j, _ in plan_comparisons(n, strategy, ring_k=ring_k)]
    batch, _ = linear_judge(1, n, plan, failures=0.1 if n > 2 else 0.0)
    dense, iterative = both_ways(monkeypatch, name, n, verdicts_of(pairs_of(batch, 0)), calibration)
    assert [score is None for score in dense.base_scores] == [score is None for score in iterative.base_scores]
    assert numbers_of(iterative.base_scores) == pytest.approx(numbers_of(dense.base_scores), abs=1e-9)
    errors = numbers_of(iterative.standard_errors) / numbers_of(dense.standard_errors) - 1
    assert np.sqrt((errors**2).mean()) < 0.03
    assert abs(errors.mean()) < 0.005
    assert iterative.reliability == pytest.approx(dense.reliability, abs=0.005)
    assert iterative.converged


@pytest.mark.parametrize("name", NAMES)
def test_a_large_group_without_verdicts_has_no_numbers(calibration, name):
    """None of its rollouts is scored."""
    assert set(estimate(name, 200, {}, calibration).base_scores) == {None}


def test_large_estimates_are_the_same_in_every_run(calibration):
    """The probing vectors are seeded."""
    plan = [(i, j) for i, j, _ in plan_comparisons(200, "ring", ring_k=1)]
    batch, _ = linear_judge(1, 200, plan)
    verdicts = verdicts_of(pairs_of(batch, 0))
    assert estimate("combined", 200, verdicts, calibration) == estimate("combined", 200, verdicts, calibration)


def test_a_pair_matrix_multiplies_and_solves_as_its_dense_form():
    """Products and solutions for several right sides, with repeated pairs and a rank-one part."""
    generator = np.random.default_rng(2)
    first, second = generator.integers(0, 20, 60), generator.integers(0, 20, 60)
    first, second = first[first != second], second[first != second]
    weights, rank_one = generator.random(len(first)) / 10, generator.random(20) / 5
    matrix = PairMatrix(3.0 + generator.random(20), first, second, weights, rank_one)
    dense = np.diag(matrix.diagonal) - np.outer(rank_one, rank_one)
    np.add.at(dense, (first, second), weights)
    np.add.at(dense, (second, first), weights)
    right = generator.standard_normal((20, 3))
    assert matrix @ right == pytest.approx(dense @ right)
    assert matrix.solve(right, EXACT) == pytest.approx(np.linalg.solve(dense, right), abs=1e-12)
