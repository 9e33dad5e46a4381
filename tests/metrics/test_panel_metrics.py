"""How far judges agree: Krippendorff's alpha, and the counts of a panel."""

import math
import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.panel_metrics import Alpha, PanelMetrics
from genrm_cli.pairing.pairs import Comparison
from genrm_cli.scored.json_form import to_json
from genrm_cli.verdicts import Verdict

FIRST = Verdict(4, 2, 2)
SECOND = Verdict(2, 4, 5)
TIE = Verdict(3, 3, 3.5)

UNITS = st.lists(st.lists(st.integers(-1, 1).map(float), max_size=4), max_size=8)


def alpha_of(units):
    """Compute alpha with the class under test."""
    alpha = Alpha()
    for unit in units:
        alpha.add(unit)
    return alpha.value()


def alpha_by_definition(units):
    """Compute alpha from all ordered pairs: disagreement within the units over that of all
    values.
    """
    pairable = [unit for unit in units if len(unit) > 1]
    values = [value for unit in pairable for value in unit]
    n = len(values)
    if len(pairable) < 2 or len(set(values)) < 2:
        return None
    observed = (
        sum((a - b) ** 2 / (len(unit) - 1) for unit in pairable for a, b in permutations(unit, 2))
        / n
    )
    expected = sum((a - b) ** 2 for a, b in permutations(values, 2)) / (n * (n - 1))
    return 1 - observed / expected


@given(UNITS)
def test_alpha_is_that_of_all_pairs(units):
    """Sums of one pass give what the definition over all pairs of values gives; 1 is the most."""
    alpha = alpha_of(units)
    expected = alpha_by_definition(units)
    assert alpha == (None if expected is None else pytest.approx(expected))
    assert alpha is None or alpha <= 1 + 1e-12


def test_the_figures_of_a_panel_are_counts():
    """Verdicts, missing ones and preferences for the first place by judge."""
    figures = PanelMetrics(("a", "b", "c"))
    figures.add_comparison([FIRST, FIRST, None])
    figures.add_comparison([FIRST, SECOND, TIE])
    figures.add_comparison([TIE, TIE, None])
    figures.add_comparison([None, SECOND, None])
    shown = to_json(figures.summary())
    assert shown["judges"] == [
        {
            "judge": "a",
            "verdicts": 3,
            "failures": 1,
            "first_place_win_rate": 1.0,
        },
        {
            "judge": "b",
            "verdicts": 4,
            "failures": 0,
            "first_place_win_rate": 1 / 3,
        },
        {
            "judge": "c",
            "verdicts": 1,
            "failures": 3,
            "first_place_win_rate": None,
        },
    ]
    assert shown["krippendorff_alpha"] == pytest.approx(
        alpha_of([[1, 1], [1, -1, 0], [0, 0], [-1]]) or math.nan
    )


def panel_of(judges, groups=60, size=6):
    """Judge groups along a ring; each judge has a weight of the rollouts' quality in its leads, and
    one of a taste of its own that no other judge shares.
    """
    generator = random.Random(0)
    metrics = PanelMetrics(tuple(map(str, range(len(judges)))))
    for _ in range(groups):
        quality = [generator.gauss() for _ in range(size)]
        own = [[generator.gauss() for _ in range(size)] for _ in judges]
        verdicts = {}
        for i in range(size):
            j = (i + 1) % size
            given = []
            for (signal, whim), tastes in zip(judges, own, strict=True):
                lead = generator.gauss() + signal * (quality[i] - quality[j])
                lead += whim * (tastes[i] - tastes[j])
                given.append(Verdict(3 + lead, 3, 3.5 - lead))
            verdicts[Comparison(i, j, 0)] = given
        metrics.add_leads(verdicts)
    return metrics


@pytest.mark.parametrize("noise", [(0.0, 0.0), (0.0, 1.0), (0.0, 3.0)])
def test_a_judge_that_adds_nothing_does_not_raise_the_reliability(noise):
    """Two good judges are more reliable than each; a third without signal, however consistent in a
    taste of its own, makes them less so.
    """
    good = (1.0, 0.3)
    pair = panel_of([good, good]).reliability()
    assert panel_of([good, good, good]).reliability() > pair > 0.6
    assert panel_of([good, good, noise]).reliability() < pair
    assert panel_of([good, noise]).reliability() < 0.2


def test_the_reliability_of_a_panel_is_its_correlation_with_the_quality():
    """Of like judges with independent errors it is the squared correlation of their mean score with
    the quality: 2 r / (1 + r).
    """
    # Variances of a mean lead over two neighbours: quality and taste 1.5, noise .5.
    one = 1.5 / (1.5 + 1.5 * 0.25 + 0.5)
    found = panel_of([(1.0, 0.5), (1.0, 0.5)], groups=800)
    assert found.correlation() == pytest.approx(one, abs=0.03)
    assert found.reliability() == pytest.approx(2 * one / (1 + one), abs=0.02)
    assert PanelMetrics(("a", "b")).reliability() is None
