"""Rubric sets of the user's own: checked on load, each mistake named with its file and what to
do.
"""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.errors import UsageError
from genrm_cli.judging.rubrics.rubric_sets import Rubric, parse_rubric_set

HOUSE = """
name = "house-style"
about = "How we write."
[[rubric]]
title = "Plain words"
description = "Are the words plain?"
[[rubric]]
title = "Waffle"
description = "Does it go on and on?"
polarity = "negative"
scores = [3, 1, 2.5]
[[rubric]]
title = "Warmth"
description = "Is it warm?"
[rubric.scores]
1 = "warm"
"0.5" = "luke-\\nwarm"
-1 = "cold"
"""


def load(text=HOUSE, where="folder/Mine.toml"):
    """Read a set from TOML."""
    return parse_rubric_set(tomllib.loads(text), where)


def test_a_set_is_read_as_it_stands():
    """Titles, polarity and scores are the file's; scores come in order, with their meanings in one
    line.
    """
    house = load()
    assert house.name == "house-style"
    assert house.about == "How we write."
    assert house.rubrics == (
        Rubric("Plain words", "Are the words plain?", True, ((0.0, "no"), (1.0, "yes"))),
        Rubric(
            "Waffle",
            "Does it go on and on?",
            False,
            (
                (1.0, ""),
                (2.5, ""),
                (3.0, ""),
            ),
        ),
        Rubric(
            "Warmth",
            "Is it warm?",
            True,
            (
                (-1.0, "cold"),
                (0.5, "luke- warm"),
                (1.0, "warm"),
            ),
        ),
    )


def test_another_content_is_another_version():
    """The version is equal for equal content, and differs otherwise."""
    assert load() == load()
    assert load().version != load(HOUSE.replace("Is it warm?", "Is it very warm?")).version


RUBRIC = {"title": "T", "description": "D"}


def test_what_cannot_be_is_refused_on_load():
    """The message names the file, what was found and what is wrong with it."""
    cases = [
        ({"name": "My Set"}, "name"),
        ({"rubrics": []}, "rubrics"),
        ({"rubric": []}, "rubric"),
        ({"rubric": [RUBRIC, {"title": "X"}]}, "description"),
        ({"rubric": [{**RUBRIC, "title": "共感"}]}, "title"),
        ({"rubric": [{**RUBRIC, "weight": 1}]}, "weight"),
        ({"rubric": [{**RUBRIC, "polarity": "bad"}]}, "bad"),
        ({"rubric": [{**RUBRIC, "scores": 5}]}, "scores"),
        ({"rubric": [{**RUBRIC, "scores": [1]}]}, "two or more"),
        ({"rubric": [{**RUBRIC, "scores": [1, 2, 1.0]}]}, "given once"),
        ({"rubric": [{**RUBRIC, "scores": [1, "2"]}]}, "scores"),
        ({"rubric": [{**RUBRIC, "scores": {"low": "bad", "2": "good"}}]}, "'low' is not a number"),
        ({"rubric": [{**RUBRIC, "scores": {"1": 0, "2": 1}}]}, "the meaning of score 1 is 0"),
        ({"rubric": [{**RUBRIC, "scores": {"0": {"5": "half"}, "1": "x"}}]}, "quotation marks"),
        ({"rubric": [{**RUBRIC, "title": "A b"}, {**RUBRIC, "title": "a-B"}]}, "rubric_a_b"),
    ]
    for table, named in cases:
        with pytest.raises(UsageError) as caught:
            parse_rubric_set({"rubric": [RUBRIC], **table}, "folder/Mine.toml")
        assert str(caught.value).startswith("folder/Mine.toml")
        assert named in str(caught.value)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats()
    | st.sampled_from(["", "1", "0.5", "positive", "Safe"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "title",
                    "description",
                    "polarity",
                    "scores",
                    "1",
                    "2",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["name", "about", "rubric", "x"]), VALUES, max_size=4))
def test_any_table_is_read_or_refused(table):
    """Any table is parsed or raises a `UsageError`."""
    try:
        rubric_set = parse_rubric_set(table, "file.toml")
    except UsageError:
        return
    assert rubric_set.rubrics
