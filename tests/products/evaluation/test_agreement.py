"""Agreement between raters: published examples, and what is undefined."""

import pytest

from genrm_cli.products.evaluation.agreement import (
    agreement_of,
    cohen_kappa,
    krippendorff_alpha,
)

# Cells of a published table of two raters: both yes, only the first, only the second, both no.
COHEN = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
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
    assert krippendorff_alpha(ALPHA) == pytest.approx(0.743, abs=5e-4)


@pytest.mark.parametrize("coefficient", [cohen_kappa, krippendorff_alpha])
def test_one_category_is_undefined(coefficient):
    """Raters that always say the same show no agreement beyond chance: null, and not 1."""
    assert coefficient([("y", "y")] * 30) is None
    assert agreement_of([("y", "y")] * 30, coefficient).value is None
    rare = agreement_of([("y", "y")] * 40 + [("n", "n")], coefficient)
    assert rare.value == pytest.approx(1)
    assert rare.low is None


def test_the_interval_holds_the_value_and_depends_on_the_seed_alone():
    """The same items have the same interval."""
    found = agreement_of(COHEN, cohen_kappa)
    assert found.low < found.value < found.high
    assert found == agreement_of(COHEN, cohen_kappa)
