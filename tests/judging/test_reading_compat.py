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


def read(text: str) -> Verdict | Failure:
    """Read a reply of this text as the reference would."""
    return parse_scores_json_as_reference(Reply(text), UNQUOTED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(FIRST, FIRST_VERDICT, id="bare"),
        pytest.param(f"{FIRST}\n{SECOND}", SECOND_VERDICT, id="the last outside fences"),
        pytest.param(
            f"```json\n{FIRST}\n{SECOND}\n```", FIRST_VERDICT, id="the first inside a fence"
        ),
        pytest.param(
            f"```json\n{FIRST}```\n```json\n{SECOND}```",
            FIRST_VERDICT,
            id="the first of two fences",
        ),
        pytest.param(
            f"```JSON\nx\n```\n```json {SECOND}```{FIRST}", SECOND_VERDICT, id="the second fence"
        ),
        pytest.param(
            f"```json\n{FIRST}\nand {SECOND}", SECOND_VERDICT, id="a fence never closed is none"
        ),
        pytest.param(f"<think>{FIRST}", FIRST_VERDICT, id="thinking counts"),
        pytest.param(
            f"```json{FIRST}```</think>{SECOND}", FIRST_VERDICT, id="fenced thinking wins"
        ),
        pytest.param(f'{{"overall": {FIRST}, "score_1": 1}}', FIRST_VERDICT, id="overall"),
        pytest.param(
            '{"overall": 3, "score_1": 1}', Verdict(1.0, 3.0, 3.5), id="overall as a number"
        ),
        pytest.param(
            '{"score_1": 4, "score_1": 1}', Verdict(1.0, 3.0, 3.5), id="a key twice: the last"
        ),
        pytest.param('{"ranking": 1}', Verdict(3.0, 3.0, 1.0), id="scores filled in"),
        pytest.param('{"score_2": 5}', Verdict(3.0, 5.0, 3.5), id="others filled in"),
        pytest.param(
            '{"score_1": 10, "score_2": 0, "ranking": -1}', Verdict(10.0, 0.0, -1.0), id="any range"
        ),
        pytest.param(
            '{"score_1": "4_0", "score_2": true, "ranking": "2"}',
            Verdict(40.0, 1.0, 2.0),
            id="float()",
        ),
        pytest.param(
            f'{FIRST} {{"score_1": "4/5"}} {{"score_1": null}}', FIRST_VERDICT, id="others skipped"
        ),
        pytest.param(f'{{ {{"x": {FIRST}', FIRST_VERDICT, id="within an object never closed"),
    ],
)
def test_chooses_and_fills_as_the_reference_does(text: str, expected: Verdict) -> None:
    """Which object is taken, and what fills its gaps, is the reference's rule."""
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "no verdict", "{}", '{"a": 1}', '{"score_1": "x"}', r'{"a": "\Delta", "score_1": 4}'),
        *('{"a": "two\nlines", "score_1": 4}', f"{FIRST[:-1]}", '{"score_1": ' + "1" * 400 + "}"),
        *('{"score_1": ' + "1" * 5000 + "}", '{"score_1": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    ],
)
def test_nothing_found_is_no_verdict(text: str) -> None:
    """Where the reference uses its defaults for everything, the caller gets a failure to count."""
    outcome = read(text)
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.NO_VERDICT


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"nan"', "1e999"])
def test_numbers_that_are_not_finite_are_out_of_range(value: str) -> None:
    """The one difference: a NaN would make the whole group's rewards NaN."""
    outcome = read(f'{{"score_1": {value}}}')
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.OUT_OF_RANGE


_SLOW_UNITS = ("{", '"', '{"', '{"a":', "```json```", '{"score_1":x}', "\\")


@pytest.mark.parametrize(
    "unit", ["```json", *(pytest.param(each, marks=pytest.mark.slow) for each in _SLOW_UNITS)]
)
def test_reading_takes_linear_time(unit: str) -> None:
    """The reference's quadratic search is bounded."""
    assert growth(read, lambda chars: unit * (chars // len(unit))) <= LINEAR
