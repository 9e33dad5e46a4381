"""What a panel is worth, from labels."""

import numpy as np
import pytest
from judged_pairs import judged_pair

from genrm_cli.products.evaluation.accuracy import PairRecord, Preference
from genrm_cli.products.evaluation.panel_quality import PanelQuality, panel_quality
from genrm_cli.verdicts import FailureKind


def judged(right: np.ndarray) -> list[PairRecord]:
    """Return the records of a judge that is right on these pairs, in both orders."""
    results = {True: Preference.RIGHT, False: Preference.WRONG}
    return [
        judged_pair(results[bool(each)], results[bool(each)], str(item))
        for item, each in enumerate(right)
    ]


def panel_of(rights: list[np.ndarray]) -> PanelQuality:
    """Measure judges of equal weights."""
    return panel_quality([judged(each) for each in rights], [1.0] * len(rights))


def simulate(accuracies: list[float], copied: float = 0.0, pairs: int = 2_000) -> list[np.ndarray]:
    """Return on which pairs judges are right; each copies a common draw in a share of them."""
    generator = np.random.default_rng(0)
    common = generator.random(pairs)
    found = []
    for accuracy in accuracies:
        own = np.where(generator.random(pairs) < copied, common, generator.random(pairs))
        found.append(own < accuracy)
    return found


@pytest.mark.parametrize(("copied", "correlation"), [(0.0, 0.0), (0.7, 0.49), (1.0, 1.0)])
def test_the_effective_number_is_that_of_independent_judges(copied, correlation) -> None:
    """Three judges are worth 3 / (1 + 2 rho): three if they err apart, one if they err together."""
    found = panel_of(simulate([0.75] * 3, copied))
    expected = 3 / (1 + 2 * correlation)
    assert found.error_correlation.value == pytest.approx(correlation, abs=0.04)
    assert found.effective_judges.value == pytest.approx(expected, abs=0.25)
    assert found.effective_judges.low <= expected <= found.effective_judges.high + 1e-9
    one = found.reliability_of_one.value
    together = found.effective_judges.value * one
    assert found.reliability.value == pytest.approx(together / (1 + together - one), abs=0.01)


@pytest.mark.parametrize("accuracy", [0.5, 0.3])
def test_a_useless_judge_lowers_the_reliability(accuracy) -> None:
    """Beside a good judge, one that guesses or prefers the wrong answer makes the panel worse, also
    within the error of fifty pairs.
    """
    for pairs in (50, 2_000):
        good, bad = simulate([0.8, accuracy], pairs=pairs)
        alone = panel_of([good, good]).reliability
        assert panel_of([good, bad]).reliability.value < alone.value


def test_what_labels_cannot_tell_is_unknown() -> None:
    """Judges that never err have no correlation of errors; few lines have no interval; failures
    leave a pair out.
    """
    perfect = panel_of([np.ones(30, bool)] * 2)
    assert (perfect.error_correlation.value, perfect.effective_judges.value) == (None, None)
    assert perfect.reliability.value == 1.0
    few = panel_of(simulate([0.75, 0.75], pairs=10))
    assert (few.pairs, few.effective_judges.low) == (10, None)
    failed = [judged_pair(Preference.RIGHT, FailureKind.NO_VERDICT, "x")]
    none = panel_quality([failed, failed], [1.0, 1.0])
    assert (none.pairs, none.items, none.reliability.value) == (0, 0, None)


def test_wrong_labels_look_like_errors_in_common() -> None:
    """With 15 % of the labels wrong, three judges that err apart seem to correlate by .15 and to be
    worth 2.3.
    """
    wrong = np.random.default_rng(1).random(4_000) < 0.15
    found = panel_of([right ^ wrong for right in simulate([0.75] * 3, pairs=4_000)])
    assert found.error_correlation.value == pytest.approx(0.15, abs=0.02)
    assert found.effective_judges.value == pytest.approx(2.3, abs=0.1)
