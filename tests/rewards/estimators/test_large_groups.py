"""Large groups: the estimators stay exact, in bounded memory."""

import tracemalloc

import numpy as np
import pytest
from drawn_verdicts import fit_of, linear_judge, pairs_of
from verdict_rows import verdicts_of

from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rewards.estimators.estimate_errors import laplacian_of
from genrm_cli.rewards.estimators.estimates import estimate
from genrm_cli.rewards.estimators.verdict_batch import invert


@pytest.fixture(scope="module")
def calibration():
    """Return the calibration from 150 small groups."""
    batch, _ = linear_judge(
        150, 8, [(i, j) for i, j, _ in PairingPlan("ring", ring_k=2.0).iter_pairs(8)]
    )
    return fit_of(batch)


def test_a_group_takes_memory_by_the_square_of_its_size(calibration):
    """At most 18 arrays of n × n numbers: 600 MB for the largest group that can be compared."""
    name = "adaptive"
    n = 260
    batch, _ = linear_judge(
        1, n, [(i, j) for i, j, _ in PairingPlan("ring", ring_k=2).iter_pairs(n)]
    )
    verdicts = verdicts_of(pairs_of(batch, 0))
    tracemalloc.start()
    made = estimate(name, n, verdicts, calibration)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert None not in made.base_scores
    assert peak < 18 * 8 * n * n


def test_a_large_system_is_inverted_as_exactly():
    """By blocks, of uneven sizes."""
    n = 257
    batch, _ = linear_judge(1, n, [(i, j) for i, j, _ in PairingPlan("ring").iter_pairs(n)])
    systems = np.eye(n) + 3 * laplacian_of(batch)
    inverses = systems.copy()
    invert(inverses)
    np.testing.assert_allclose(inverses @ systems, [np.eye(n)], atol=1e-12)
