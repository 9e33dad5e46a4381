"""The compatible reading repeats the reference's choices, and still refuses what is not finite."""

import pytest
from linear_time import LINEAR, growth
from reply_readers import UNQUOTED

from genrm_cli.judging.profiles.scores_json import parse_scores_json_as_reference
from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict

FIRST = '{"score_1": 4, "score_2": 2, "ranking": 2}'
SECOND = '{"score_1": 1, "score_2": 5, "ranking": 6}'
FIRST_VERDICT = Verdict(4.0, 2.0, 2.0)
SECOND_VERDICT = Verdict(1.0, 5.0, 6.0)


def read(text):
    """Read a reply of this text as the reference would."""
    return parse_scores_json_as_reference(Reply(text), UNQUOTED)


def test_chooses_and_fills_as_the_reference_does():
    """Which object is taken, and what fills its gaps, is the reference's rule."""
    cases = {
        "bare": (FIRST, FIRST_VERDICT),
        "the last outside fences": (f"{FIRST}\n{SECOND}", SECOND_VERDICT),
        "the first inside a fence": (f"```json\n{FIRST}\n{SECOND}\n```", FIRST_VERDICT),
        "the first of two fences": (f"```json\n{FIRST}```\n```json\n{SECOND}```", FIRST_VERDICT),
        "the second fence": (f"```JSON\nx\n```\n```json {SECOND}```{FIRST}", SECOND_VERDICT),
        "a fence never closed is none": (f"```json\n{FIRST}\nand {SECOND}", SECOND_VERDICT),
        "thinking counts": (f"<think>{FIRST}", FIRST_VERDICT),
        "fenced thinking wins": (f"```json{FIRST}```</think>{SECOND}", FIRST_VERDICT),
        "overall": (f'{{"overall": {FIRST}, "score_1": 1}}', FIRST_VERDICT),
        "overall as a number": ('{"overall": 3, "score_1": 1}', Verdict(1.0, 3.0, 3.5)),
        "a key twice: the last": ('{"score_1": 4, "score_1": 1}', Verdict(1.0, 3.0, 3.5)),
        "scores filled in": ('{"ranking": 1}', Verdict(3.0, 3.0, 1.0)),
        "others filled in": ('{"score_2": 5}', Verdict(3.0, 5.0, 3.5)),
        "any range": ('{"score_1": 10, "score_2": 0, "ranking": -1}', Verdict(10.0, 0.0, -1.0)),
        "float()": ('{"score_1": "4_0", "score_2": true, "ranking": "2"}', Verdict(40.0, 1.0, 2.0)),
        "others skipped": (f'{FIRST} {{"score_1": "4/5"}} {{"score_1": null}}', FIRST_VERDICT),
        "within an object never closed": (f'{{ {{"x": {FIRST}', FIRST_VERDICT),
    }
    for case, (text, expected) in cases.items():
        assert read(text) == expected, case


def test_nothing_found_is_no_verdict():
    """Where the reference uses its defaults for everything, the caller gets a failure to count."""
    cases = [
        "",
        "no verdict",
        "{}",
        '{"a": 1}',
        '{"score_1": "x"}',
        r'{"a": "\Delta", "score_1": 4}',
        '{"a": "two\nlines", "score_1": 4}',
        f"{FIRST[:-1]}",
        '{"score_1": ' + "1" * 400 + "}",
        '{"score_1": ' + "1" * 5000 + "}",
        '{"score_1": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ]
    for text in cases:
        outcome = read(text)
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.NO_VERDICT


def test_numbers_that_are_not_finite_are_out_of_range():
    """The one difference: a NaN would make the whole group's rewards NaN."""
    for value in ["NaN", "Infinity", '"nan"', "1e999"]:
        outcome = read(f'{{"score_1": {value}}}')
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.OUT_OF_RANGE


_SLOW_UNITS = (
    "{",
    '"',
    '{"',
    '{"a":',
    "```json```",
    '{"score_1":x}',
    "\\",
)


@pytest.mark.parametrize(
    "unit", ["```json", *(pytest.param(each, marks=pytest.mark.slow) for each in _SLOW_UNITS)]
)
def test_reading_takes_linear_time(unit):
    """The reference's quadratic search is bounded."""
    assert growth(read, unit) <= LINEAR
