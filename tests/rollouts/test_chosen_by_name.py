"""What a line has for its judge under the names of the user: reference, rubric and category."""

import pytest

from genrm_cli.rollouts.reading.chosen_fields import (
    criteria_at,
    principle_by_category,
    principle_of,
    reference_at,
)
from genrm_cli.rollouts.rollout import UnreadableRecordError


def test_a_reference_of_any_type_is_text():
    """A list of one value is that value; a blank text is none."""
    cases = [
        ("42", "42"),
        (42, "42"),
        (["42"], "42"),
        (["4", "2"], '["4", "2"]'),
        ({"a": 1}, '{"a": 1}'),
        (" ", None),
    ]
    for value, shown in cases:
        assert reference_at({"task": {"gold": value}}, "task.gold") == shown
    assert reference_at({}, "task.gold") is None


def test_a_rubric_is_a_text_or_a_list():
    """A single text is the principle as it is; points are shown where they differ from 1."""
    cases = [
        (None, None),
        ("  ", None),
        ([], None),
        ("Be kind.\nBe brief.", "Be kind.\nBe brief."),
        (["Be kind."], "Be kind."),
        (["Be kind.", "Be brief."], "1. Be kind.\n2. Be brief."),
        (
            [{"criterion": "Says  when\nto see a doctor.", "points": 6}, "Short."],
            "1. Says when to see a doctor. (6 points)\n2. Short.",
        ),
    ]
    for value, expected in cases:
        assert principle_of(criteria_at({"row": {"rubric": value}}, "row.rubric")) == expected


def test_a_rubric_of_another_shape_is_refused():
    """The message names the entry and what was expected."""
    cases = [
        ({"a": 1}, "rubric is not a rubric: expected a text or a list"),
        (["Be kind.", 7], r"rubric\[1\] has no text"),
        ([{"criterion": "x", "points": "many"}], r"rubric\[0\]: its points or weight are not a"),
        ([{"criterion": "x", "weight": float("inf")}], "not a number"),
    ]
    for value, says in cases:
        with pytest.raises(UnreadableRecordError, match=says):
            criteria_at({"rubric": value}, "rubric")


def test_the_first_field_that_a_line_has_names_the_category():
    """A list counts by its first entry with a sentence."""
    cases = [
        ({"category": "maths"}, "M"),
        ({"category": None, "subset": "maths"}, "M"),
        ({"category": ["x", "maths"]}, "M"),
        ({"category": "x", "subset": "maths"}, None),
        ({"category": {"maths": 1}}, None),
        ({"category": 7}, None),
        ({}, None),
    ]
    for record, expected in cases:
        assert principle_by_category(record, ["category", "subset"], {"maths": "M"}) == expected
