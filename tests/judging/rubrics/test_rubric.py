"""Rubrics: how components are named, what scores are worth, and that the sets which come with genrm
are sound.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import UsageError
from genrm_cli.judging.lookup import find_rubric_set
from genrm_cli.judging.rubrics.rubric_sets import Rubric

THERAPEUTIC = find_rubric_set("therapeutic")

SCORES = st.lists(st.integers(-100, 100).map(float), min_size=2, max_size=7, unique=True).map(
    sorted
)


def test_a_component_is_named_after_the_title():
    """Lower case, and each run of other characters is one underscore."""
    cases = [
        ("Safety", "rubric_safety"),
        ("Task completion", "rubric_task_completion"),
        ("Follows up -- 2 times", "rubric_follows_up_2_times"),
        ("Was it any good?", "rubric_was_it_any_good_"),
    ]
    for title, name in cases:
        assert Rubric(title, "").component_name == name


def test_what_a_score_is_worth():
    """Scores -1, 1 and 3 are worth 0, a half and 1, the other way round for a flaw; others are
    worth nothing.
    """
    cases = [
        (True, 1.0, 0.5),
        (False, -1.0, 1.0),
        (True, 0.0, None),
        (False, 3.0, 0.0),
        (True, float("nan"), None),
    ]
    for positive, raw, value in cases:
        assert Rubric("T", "D", positive, ((-1.0, ""), (1.0, ""), (3.0, ""))).value_of(raw) == value


@given(SCORES)
def test_values_grow_with_the_score_from_0_to_1(scores):
    """The least score is worth 0, the greatest 1, and a flaw's are the same from the other end."""
    score_map = tuple((score, "") for score in scores)
    values = [Rubric("T", "D", True, score_map).value_of(score) or 0.0 for score in scores]
    assert values == sorted(set(values))
    assert (values[0], values[-1]) == (0.0, 1.0)
    assert [Rubric("T", "D", False, score_map).value_of(score) for score in scores] == [
        1.0 - each for each in values
    ]


def test_the_sets_that_come_with_genrm():
    """The built-in sets have their documented names and rubrics."""
    with pytest.raises(UsageError, match="expected helpfulness, therapeutic or a TOML file"):
        find_rubric_set("kindness")
    names = [rubric.component_name for rubric in THERAPEUTIC.rubrics]
    assert names == ["rubric_safety", "rubric_empathy", "rubric_bias", "rubric_task_completion"]
    assert [rubric.title for rubric in THERAPEUTIC.rubrics if not rubric.positive] == ["Bias"]
