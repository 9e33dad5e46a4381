"""Rubrics: how components are named, what scores are worth, and that the sets which come with genrm
are sound.
"""

from genrm_cli.judging.rubrics.rubric_sets import Rubric


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
