"""Agreement between raters: published examples, and what is undefined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.products.evaluation.agreement import (
    agreement_of,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
)

# Cells of a published table of two raters: both yes, only the first, only the second, both no.
COHEN = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
# Counts of 14 raters over five categories.
FLEISS = [
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
]
_ = None
# Four raters and twelve items, with labels missing.
ALPHA = [
    (1, 1, _, 1),
    (2, 2, 3, 2),
    (3, 3, 3, 3),
    (3, 3, 3, 3),
    (2, 2, 2, 2),
    (1, 2, 3, 4),
    (4, 4, 4, 4),
    (1, 1, 2, 1),
    (2, 2, 2, 2),
    (_, 5, 5, 5),
    (_, _, 1, 1),
    (_, _, 3, _),
]


def test_published_examples():
    """Each coefficient is that of its table in the literature."""
    assert cohen_kappa(COHEN) == pytest.approx(0.40)
    items = [
        [category for category, count in enumerate(row) for _ in range(count)] for row in FLEISS
    ]
    assert fleiss_kappa(items) == pytest.approx(0.210, abs=5e-4)
    assert krippendorff_alpha(ALPHA) == pytest.approx(0.743, abs=5e-4)


@pytest.mark.parametrize("coefficient", [cohen_kappa, fleiss_kappa, krippendorff_alpha])
def test_one_category_is_undefined(coefficient):
    """Raters that always say the same show no agreement beyond chance: null, and not 1."""
    assert coefficient([("y", "y")] * 30) is None
    assert agreement_of([("y", "y")] * 30, coefficient).value is None
    rare = agreement_of([("y", "y")] * 40 + [("n", "n")], coefficient)
    assert rare.value == pytest.approx(1)
    assert rare.low is None


@given(st.lists(st.tuples(st.sampled_from("abt"), st.sampled_from("abt")), min_size=2, max_size=30))
def test_coefficients_of_two_raters_are_near_each_other(items):
    """Alpha is above Fleiss' kappa by the correction for small samples, and none exceeds 1."""
    kappa = fleiss_kappa(items)
    alpha = krippendorff_alpha(items)
    if kappa is None:
        assert alpha is None
        return
    assert alpha <= 1 + 1e-9
    assert alpha - kappa == pytest.approx((1 - kappa) / (2 * len(items)))


def test_the_interval_holds_the_value_and_depends_on_the_seed_alone():
    """The same items have the same interval."""
    found = agreement_of(COHEN, cohen_kappa)
    assert found.low < found.value < found.high
    assert found == agreement_of(COHEN, cohen_kappa)
