"""Figures and their intervals as they are printed, everywhere."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.metrics.figures import DIFFERENCE, PERCENT, POINTS, STRENGTH, WINS, FigureForm
from genrm_cli.metrics.group_measures import EFFECT, RELIABILITY
from genrm_cli.metrics.running_stats import Estimated
from genrm_cli.rewards.estimators.mode_agreement import AGREEMENT
from genrm_cli.scored.trust import SHARE

FORMS = (AGREEMENT, DIFFERENCE, EFFECT, PERCENT, POINTS, RELIABILITY, SHARE, STRENGTH, WINS)
# Both ends of an interval written by hand, in Python or a template.
BY_HAND = re.compile(r"\{[^{}]*\b(?:low|lo)\b[^{}]*\}+ to \{")


def sides(form: FigureForm, value: float) -> list[int]:
    """Return on which side of each number that decides a value is."""
    return [(value > each) - (value < each) for each in form.decisive]


@pytest.mark.parametrize("form", FORMS)
@given(value=st.floats(-1, 1).map(lambda each: round(each, 6)))
def test_what_is_printed_is_on_the_side_that_decided(form: FigureForm, value: float) -> None:
    """A number, and both ends of an interval, which holds the true one."""
    shown = [form.number(value), *form.ends(value, value).split(" to ")]
    number, low, high = (round(float(each) / form.unit, 9) for each in shown)
    assert low <= value <= high
    assert low <= number <= high
    for each in (number, low, high):
        assert sides(form, each) == sides(form, value)
    if not form.decisive:
        assert high - low <= 1.01 * 10**-form.digits / form.unit


def test_few_digits_are_enough_away_from_what_decides() -> None:
    """Two for a reliability, and more only where two would be another word."""
    assert RELIABILITY.text(0.823, 0.813, 0.8311) == "0.82 (0.81 to 0.84)"
    assert RELIABILITY.ends(0.29, 0.57) == "0.29 to 0.57"  # in binary, 100 times it is less
    assert RELIABILITY.number(0.7996) == "0.7996"
    assert RELIABILITY.ends(0.5, 0.799999999) == "0.50 to 0.799999999"
    assert AGREEMENT.number(0.898) == "0.898"
    assert WINS.text(0.5004, 0.4996, 0.6) == "50.04 (49.9 to 60.0)"
    assert DIFFERENCE.text(-0.0102, -0.02041, -0.0003) == "-0.010 (-0.021 to -0.0003)"
    assert DIFFERENCE.text(0.0, -0.1, 0.1) == "+0.000 (-0.100 to +0.100)"


def test_what_is_unknown_has_no_number() -> None:
    """Nor has a number without an interval one."""
    assert Estimated(None, None, None).text(RELIABILITY) == "-"
    assert RELIABILITY.ends(None, 0.5) == "-"
    assert Estimated(0.5, None, None).text(RELIABILITY) == "0.50"


def test_no_interval_is_written_in_another_way() -> None:
    """Others write bounds of a judge's scale, and of the bars of a chart."""
    package = Path(__file__).parents[2] / "genrm_cli"
    files = [*package.rglob("*.py"), *package.rglob("*.jinja")]
    by_hand = {path.name for path in files if BY_HAND.search(path.read_text(encoding="utf-8"))}
    assert by_hand == {"figures.py", "answer.py", "content.py"}
