"""The split of prompts."""

from genrm_cli.export.balance import validation_prompts


def test_the_split_has_the_share_that_was_asked_for():
    """Of 400 prompts the validation side holds the share, other ones with another seed."""
    for share in [0.05, 0.2, 0.5]:
        sides = [validation_prompts(range(400), share, seed) for seed in (0, 1)]
        assert [len(side) for side in sides] == [share * 400] * 2
        assert sides[0] != sides[1]


def test_neither_side_of_a_split_is_empty():
    """Two prompts give one each, whatever the share; one prompt is not split, nor is anything
    without a share.
    """
    assert [len(validation_prompts([1, 2, 1], share, 0)) for share in (0.01, 0.9, 0.0)] == [1, 1, 0]
    assert validation_prompts([1, 1], 0.5, 0) == set()
