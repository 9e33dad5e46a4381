"""Rubrics: how components are named, what scores are worth, and that the sets which come with genrm
are sound.
"""

from genrm_cli.judging.rubrics.rubric_sets import Rubric


def test_what_a_score_is_worth():
    """Scores -1, 1 and 3 are worth 0, a half and 1, the other way round for a flaw."""
    cases = [
        (True, 1.0, 0.5),
        (False, -1.0, 1.0),
        (False, 3.0, 0.0),
    ]
    for positive, raw, value in cases:
        assert (
            Rubric(
                "T",
                "D",
                positive,
                (
                    (-1.0, ""),
                    (1.0, ""),
                    (3.0, ""),
                ),
            ).value_of(raw)
            == value
        )
