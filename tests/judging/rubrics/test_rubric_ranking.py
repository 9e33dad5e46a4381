"""A ranked rubric: tiers become values, and a reply that does not sort every response once is a
failure.
"""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.judging.lookup import find_rubric_set
from genrm_cli.judging.requests import ListwisePrompt, Reply
from genrm_cli.judging.rubrics.grading import ranking_profile, values_of_tiers
from genrm_cli.verdicts import Failure, FailureKind

HELPFULNESS = find_rubric_set("helpfulness")

PROFILE = ranking_profile(HELPFULNESS)


def read(text, count):
    """Read a reply on a lineup of so many responses: the values, or the kind of the failure."""
    outcome = PROFILE.parse_reply(
        Reply(text, finish_reason="stop"), ListwisePrompt([], ("x",) * count)
    )
    return outcome.kind if isinstance(outcome, Failure) else outcome.values


def test_what_a_tier_is_worth():
    """The mean of the ranks that the tier takes up, from 1 for the best to 0; 1 for a sole
    response.
    """
    cases = [
        (
            [[0, 2], [1]],
            (0.75, 0.0, 0.75),
        ),
        ([[1], [0]], (0.0, 1.0)),
        ([[0, 1, 2]], (0.5, 0.5, 0.5)),
        ([[], [1], [0]], (0.0, 1.0)),
        ([[0]], (1.0,)),
        ([], ()),
    ]
    for tiers, values in cases:
        assert values_of_tiers(tiers) == values


@st.composite
def sorted_groups(draw):
    """A group of 1 to 8 in tiers."""
    shuffled = draw(st.permutations(range(draw(st.integers(1, 8)))))
    ends = sorted(draw(st.sets(st.integers(1, len(shuffled)))) | {len(shuffled)})
    return [list(shuffled[start:end]) for start, end in itertools.pairwise([0, *ends])]


@given(sorted_groups(), st.text(max_size=30).filter(lambda text: "</think>" not in text))
def test_what_a_judge_writes_is_what_is_read(tiers, reasoning):
    """Proper JSON gives values that fall from tier to tier, are equal within, and have the mean
    0.5.
    """
    count = sum(map(len, tiers))
    values = read(json.dumps({"reasoning": reasoning, "tiers": tiers}), count)
    assert values == values_of_tiers(tiers)
    assert isinstance(values, tuple)
    in_order = [{values[index] for index in tier} for tier in tiers]
    assert all(len(each) == 1 for each in in_order)
    assert [max(each) for each in in_order] == sorted({*values}, reverse=True)
    assert sum(values) / count == pytest.approx(0.5 if count > 1 else 1.0)


def test_how_a_reply_is_read():
    """Every response once, in tiers, or a failure of the right kind."""
    cases = [
        ('{"tiers": [["0", "2"], [1]]}', (0.75, 0.0, 0.75)),
        ('{"tiers": [[0, 2], [1], []], "reasoning": "so"}', (0.75, 0.0, 0.75)),
        ('<think>{"tiers": [[1], [0, 2]]}</think> {"tiers": [[0, 2], [1]]}', (0.75, 0.0, 0.75)),
        ('{"tiers": [[<best>], ...]} {"tiers": [[0, 2], [1]]}', FailureKind.AMBIGUOUS),
        ('{"tiers": [[1], [0, 2]]} {"tiers": [[0, 2], [1]]}', FailureKind.AMBIGUOUS),
        ('{"tiers": [[0, 2], [1]], "tiers": [[1], [0, 2]]}', FailureKind.AMBIGUOUS),
        ('{"tiers": [[0, 2], [1, 0]]}', FailureKind.AMBIGUOUS),
        ('{"tiers": [[0, 2]]}', FailureKind.NO_VERDICT),
        ('{"tiers": [[0, 1, 2, 3]]}', FailureKind.OUT_OF_RANGE),
        ('{"tiers": [[0, 1, 1.5]]}', FailureKind.OUT_OF_RANGE),
        ('{"tiers": [0, 2, 1]}', FailureKind.NO_VERDICT),
        ('{"tiers": [[0, 2], [true]]}', FailureKind.NO_VERDICT),
        ('{"tiers": [[0, 1, 2]], "scores": [1, 1, 1]}', FailureKind.NO_VERDICT),
        (
            '{"reasoning": ""} {"tiers": [[1], [0], [2]]}", "tiers": [[0, 2], [1]]}',
            FailureKind.AMBIGUOUS,
        ),
        ("", FailureKind.EMPTY),
    ]
    for text, expected in cases:
        assert read(text, 3) == expected
