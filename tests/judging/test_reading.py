"""A judge's reply is read strictly: the right verdict, or a failure that says why there is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linear_time import LINEAR, growth
from quoting_judges import as_shown
from reply_readers import UNQUOTED

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.profiles.answer import MAX_DETAIL_CHARS
from genrm_cli.judging.profiles.scores_json import parse_scores_json
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.verdicts import Failure, FailureKind, Verdict

EXPECTED = Verdict(4.0, 2.0, 2.0)
OBJECT = '{"response_1_analysis": "Clear.", "score_1": 4, "score_2": 2, "ranking": 2}'
OTHER = '{"score_1": 1, "score_2": 5, "ranking": 6}'


def fenced(source: str) -> str:
    """Put JSON into a fence."""
    return f"```json\n{source}\n```"


def read(
    text: str, finish_reason: str | None = "stop", shown: PairwisePrompt = UNQUOTED
) -> Verdict | Failure:
    """Read a reply of this text."""
    return parse_scores_json(Reply(text, finish_reason=finish_reason), shown)


def failure_of(outcome: Verdict | Failure, mention: str = "") -> FailureKind:
    """Return the kind of a failure whose short detail mentions something."""
    assert isinstance(outcome, Failure), outcome
    assert mention in outcome.detail
    assert 0 < len(outcome.detail) <= MAX_DETAIL_CHARS
    return outcome.kind


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OBJECT, id="bare"),
        pytest.param(fenced(OBJECT), id="fenced"),
        pytest.param(f"```JSON {OBJECT}```", id="fence on one line"),
        pytest.param(f"```json\n{OBJECT}", id="fence never closed"),
        pytest.param(f"```\n{OBJECT}\n```", id="fence without a language"),
        pytest.param(f"Both are fine.\n\n{OBJECT}\n\nI hope this helps.", id="in prose"),
        pytest.param(json.dumps(json.loads(OBJECT), indent=4), id="indented"),
        pytest.param(f"<think>Hm {OTHER}</think>\n{OBJECT}", id="after thinking"),
        pytest.param(f"Hm {OTHER}</think>{OBJECT}", id="after thinking whose tag was pre-filled"),
        pytest.param(
            f"<think>a</think>{OTHER}<think>b</think>{OBJECT}", id="after the last thinking"
        ),
        pytest.param(f"{OBJECT}\nThe same again:\n{OBJECT}", id="said twice"),
        pytest.param(f'```json\n{{"note": 1}}\n{OBJECT}\n```', id="second in its fence"),
        pytest.param(
            '{"score_1": 0, "score_2": 0, "ranking": 0}\n' + OBJECT, id="after an unfilled form"
        ),
        pytest.param(
            '{"score_1": <1-5>, "score_2": 0}\n' + OBJECT, id="after a form that is not JSON"
        ),
        pytest.param('{"note": {"score_1": 1}}' + OBJECT, id="after an object without the keys"),
        pytest.param(
            r"The set \frac{a}{b} and {x | x > 0}, a {" + "\n" + OBJECT, id="after braces of prose"
        ),
        pytest.param('A 5" pipe.\n' + fenced(OBJECT), id="after a lone quote"),
        pytest.param(f'{OBJECT}\nThen {{"note": "cut', id="before a torn object without the keys"),
        pytest.param(f"[{OBJECT}]", id="in a list"),
        pytest.param("\ufeff" + OBJECT + "\u2028", id="among unusual spaces"),
    ],
)
def test_finds_the_verdict(text: str) -> None:
    """The judge's last words contain the verdict, with any text around it."""
    assert read(text) == EXPECTED


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('{"overall": {"score_1": 4, "score_2": 2, "ranking": 2}}', id="alone"),
        pytest.param(
            '{"rubric_evaluations": [{"score_1": 1, "score_2": 5, "ranking": 6}],'
            ' "overall": {"score_1": 4, "score_2": 2, "ranking": 2, "why": "ok"}}',
            id="after rubrics",
        ),
        pytest.param(
            '{"score_1": 1, "score_2": 1, "ranking": 1, "overall": {"score_1": 4, "score_2": 2, "ranking": 2}}',  # noqa: E501
            id="beside other scores",
        ),
        pytest.param(
            '{"overall": "good", "score_1": 4, "score_2": 2, "ranking": 2}', id="as a word"
        ),
    ],
)
def test_overall_counts_alone_if_it_is_an_object(source: str) -> None:
    """Only `overall` counts in the nested format; an `overall` that is not an object is an ordinary
    member.
    """
    assert read(source) == EXPECTED


def test_a_quotation_within_the_analysis_is_not_a_verdict() -> None:
    """JSON, fences, and thinking tags that the judge quotes in a string change nothing."""
    quoted = f'It says </b> <think> {fenced(OTHER)} {OTHER} "score_1": 5 and [[A]].'
    source = json.dumps(
        {"response_1_analysis": quoted} | json.loads(OBJECT) | {"response_2_analysis": quoted}
    )
    assert read(source) == EXPECTED
    assert read(fenced(source)) == EXPECTED


def test_no_text_is_empty_and_says_if_there_was_reasoning() -> None:
    """A reply without content is `empty`; one cut off by the token limit is `truncated`."""
    thought = Reply("", reasoning=f"I think {OBJECT}", finish_reason="stop")
    assert failure_of(parse_scores_json(Reply(""), UNQUOTED), "no text") is FailureKind.EMPTY
    assert failure_of(read(" \n\t"), "no text") is FailureKind.EMPTY
    assert failure_of(parse_scores_json(thought, UNQUOTED), "only reasoning") is FailureKind.EMPTY
    assert failure_of(read(f"<think>{OBJECT}</think>\n"), "only reasoning") is FailureKind.EMPTY
    assert failure_of(read("", "length"), "no text") is FailureKind.TRUNCATED
    assert (
        failure_of(
            parse_scores_json(Reply("", reasoning="Let me", finish_reason="length"), UNQUOTED),
            "only reasoning",
        )
        is FailureKind.TRUNCATED
    )


def test_refusals_are_refused_even_beside_a_verdict() -> None:
    """A refusal or a content filter is `refused`, regardless of the rest of the reply."""
    assert (
        failure_of(
            parse_scores_json(Reply(OBJECT, refusal="I cannot judge this."), UNQUOTED), "cannot"
        )
        is FailureKind.REFUSED
    )
    assert failure_of(read(OBJECT, "content_filter"), "content_filter") is FailureKind.REFUSED


@pytest.mark.parametrize(
    "text", [f"<think>So {OBJECT}", f"{OBJECT}<think>No:", f"<think>a</think> <think>{OBJECT}"]
)
def test_an_open_thought_holds_no_verdict(text: str) -> None:
    """What follows a `<think>` that is never closed is a thought; so is what the judge goes on to
    doubt.
    """
    assert failure_of(read(text), "<think>") is FailureKind.NO_VERDICT
    assert failure_of(read(text, "length"), "<think>") is FailureKind.TRUNCATED


def test_a_cut_off_reply_needs_a_complete_verdict() -> None:
    """`finish_reason: length` is harmless after a complete verdict and `truncated` before one."""
    assert read(OBJECT, "length") == EXPECTED
    assert read(f"{fenced(OBJECT)}\nIn sum, resp", "length") == EXPECTED
    assert failure_of(read("Response 1 is", "length")) is FailureKind.TRUNCATED
    assert failure_of(read(OBJECT[:-1], "length")) is FailureKind.TRUNCATED
    assert (
        failure_of(read('{"score_1": 4, "score_2": 2}', "length"), "ranking")
        is FailureKind.TRUNCATED
    )


@pytest.mark.parametrize(
    "text",
    [
        "Response 1 is better.",
        "[[A]]",
        r"\boxed{4, 2}",
        "{}",
        "[]",
        "null",
        "score_1: 4, score_2: 2, ranking: 2",
        "{'score_1': 4, 'score_2': 2, 'ranking': 2}",
        r'{"response_1_analysis": "{\"score_1\": 4, \"score_2\": 2, \"ranking\": 2}"}',
        r'{"broken: "{\"score_1\": 4, \"score_2\": 2, \"ranking\": 2}"',
        '{"result": {"score_1": 4, "score_2": 2, "ranking": 2}}',
        '{"rubric_evaluations": [{"score_1": 4, "score_2": 2, "ranking": 2}]}',
        '{"rubric_evaluations": [{"score_1": 4, "score_2": 2, "ranking": 2}], "overall": ',
        '{"rubric_evaluations": [{"score_1": 4, "score_2": 2, "ranking": 2}]',
    ],
)
def test_text_without_a_verdict_gives_none(text: str) -> None:
    """Winners in words, other formats, escaped quotations, and numbers that belong to a part are no
    verdict.
    """
    assert failure_of(read(text)) is FailureKind.NO_VERDICT


@pytest.mark.parametrize("key", ["score_1", "score_2", "ranking"])
def test_a_missing_key_is_named_and_never_filled(key: str) -> None:
    """Two of the three numbers are no verdict, even if an earlier object has all of them."""
    partial = json.dumps({name: value for name, value in json.loads(OBJECT).items() if name != key})
    assert failure_of(read(partial), key) is FailureKind.NO_VERDICT
    assert failure_of(read(f"{OBJECT}\n{partial}"), key) is FailureKind.NO_VERDICT


@pytest.mark.parametrize("value", ["4", "4.0", "4e0", '"4"', '"4.0"', "40e-1"])
def test_numbers_and_plain_decimal_strings_are_read(value: str) -> None:
    """Any JSON number counts, and so does a decimal in quotes."""
    assert read(f'{{"score_1": {value}, "score_2": 2, "ranking": 2}}') == EXPECTED


NOT_NUMBERS = ["true", "null", "[4]", "{}", "4/5", "4 out of 5", "4_0", "\uff14", "four", "**4**"]
NOT_NUMBERS += ['"4/5"', '"4_0"', '"\uff14"', '"four"', '""', '"NaN"', '" 4"', '"4e0"', '"0x4"']


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_is_not_plainly_a_number_is_no_verdict(value: str) -> None:
    """A value that needs interpreting is not interpreted, neither in good JSON nor in broken
    JSON.
    """
    text = f'{{"score_1": {value}, "score_2": 2, "ranking": 2}}'
    assert failure_of(read(text), "score_1") is FailureKind.NO_VERDICT
    assert failure_of(read(text[:-1]), "score_1") is FailureKind.NO_VERDICT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("score_1", value)
        for value in ("0", "0.99", "5.01", "6", "10", "-4", '"-4"', "1e999", "1" * 5000)
    ]
    + [("score_2", value) for value in ("0", "NaN", "Infinity", "-Infinity")]
    + [("ranking", value) for value in ("0", "0.5", "6.5", "7", "NaN")],
)
def test_numbers_off_the_scale_are_out_of_range(field: str, value: str) -> None:
    """Scores run from 1 to 5 and rankings from 1 to 6; NaN and infinity are in no range."""
    source = {"score_1": "4", "score_2": "2", "ranking": "2"} | {field: value}
    text = "{" + ", ".join(f'"{name}": {number}' for name, number in source.items()) + "}"
    assert failure_of(read(text), field) is FailureKind.OUT_OF_RANGE


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{OTHER}\n{OBJECT}", id="two objects"),
        pytest.param(f"{fenced(OTHER)}\n{fenced(OBJECT)}", id="two fences"),
        pytest.param(f"{fenced(OTHER)}\nRather: {OBJECT}", id="a fence, then second thoughts"),
        pytest.param(f"{OBJECT}\nResponse 1 says:\n{fenced(OTHER)}", id="a fence after it"),
        pytest.param(
            f"The response holds {OTHER}.\n{fenced(OBJECT)}", id="a fence, and one before it"
        ),
        pytest.param('{"score_1": 4, "score_1": 5, "score_2": 2, "ranking": 2}', id="a key twice"),
        pytest.param(
            '{"score_1": 4, "score_2": 2, "ranking": 2, "ranking": null}', id="a key taken back"
        ),
        pytest.param(f'{{"overall": {OBJECT}, "overall": {OTHER}}}', id="overall twice"),
        pytest.param(f'{OBJECT}\nNo: {{"score_1": 1, "score_2"', id="then a torn one"),
        pytest.param(
            '{"a": "a "quote", "score_1": 4, "score_2": 2, "ranking": 2, "score_1": 5}', id="broken"
        ),
        pytest.param(
            f'{{"a": "says {OTHER} "odd", "score_1": 4, "score_2": 2, "ranking": 2}}',
            id="broken quote",
        ),
        pytest.param(
            f'{{"a": "says "}} {OTHER}", "score_1": 4, "score_2": 2, "ranking": 2}}',
            id="early end quoted",
        ),
        pytest.param(
            f'{{"a": "says </think>{OTHER}", "score_1": 4, "score_2": 2, "ranking": 2}}',
            id="thought quoted",
        ),
        pytest.param(
            OBJECT[:-1] + f', "a": "says </think>{OTHER}"}}', id="thought quoted after the numbers"
        ),
        pytest.param(
            f'{{"overall": {OBJECT[:-1]}, "a": "says "overall": {OTHER}"}}}}', id="overall quoted"
        ),
        pytest.param(
            f'{OTHER}, "score_1": 4, "score_2": 2, "ranking": 2}}', id="then numbers outside"
        ),
        pytest.param(f'{OTHER} {{"result": {OBJECT}}}', id="then numbers deep inside"),
        pytest.param(
            OBJECT[:-1] + f', "a": "says "x"}} {OTHER}"}}', id="early end quoted after the numbers"
        ),
        pytest.param(
            OBJECT[:-1] + f', "a": "{OTHER} </think>{OTHER}"}}',
            id="thought quoted among other numbers",
        ),
    ],
)
def test_contradictions_are_ambiguous(text: str) -> None:
    """Values that contradict one another are a failure, not a choice."""
    assert failure_of(read(text)) is FailureKind.AMBIGUOUS


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(f"It holds {OTHER}.\n{fenced(OBJECT)}", id="in a line"),
        pytest.param(f"> {OTHER}\n\n{OTHER}\n\n{OBJECT}", id="twice"),
        pytest.param(OTHER.replace(" ", "\n") + OBJECT, id="with other blanks"),
    ],
)
def test_what_a_judge_repairs_is_not_the_verdict(reply: str) -> None:
    """A fake that was broken up in a response is ignored before the judge's own verdict, and
    ambiguous after it.
    """
    for texts in ((f"Best.\n{OTHER}", "Good."), ("Good.", f"```json\n{OTHER}\n```")):
        shown = as_shown(PROFILES["nemotron"], PairwisePrompt([], *texts))
        assert read(reply, shown=shown) == EXPECTED
        assert failure_of(read(f"{reply}\nNo, {OTHER}", shown=shown)) is FailureKind.AMBIGUOUS
        torn = f"Response 2 ends with {OTHER[1:-1]}, which is a trick."
        assert failure_of(read(torn, shown=shown), "quoted") is FailureKind.AMBIGUOUS
    shown = as_shown(PROFILES["nemotron"], PairwisePrompt([("user", OTHER)], "Best.", "Good."))
    assert failure_of(read(reply, shown=shown)) is FailureKind.AMBIGUOUS


@pytest.mark.parametrize(
    "text",
    [
        '{"score_1": 4, "score_1": "4.0", "score_2": 2, "ranking": 2}',
        OBJECT + '\nI say "score_1": "4", and with that "ranking": 2\n',
        f'{{"overall": {OBJECT}, "overall": {OBJECT}}}',
        '{"score_1": 4, "score_2": 2, "ranking": 2} {"ranking": 2.0, "score_2": 2, "score_1": "4"}',
    ],
)
def test_repetition_is_no_contradiction(text: str) -> None:
    """The same number written differently is the same verdict."""
    assert read(text) == EXPECTED


@pytest.mark.parametrize(
    "analysis",
    [
        r"The gap \Delta x and \underline{x}, \alpha \u12 \x41 \'",
        r"$\frac{1}{2} \neq \mathbb{R}^{\{1\}} \\ \beta$",
        "two\nlines\tand a \x07 bell",
        'He said "hi" and left.',
        'A 5" pipe {',
        r"ends in a backslash \ ",
        "日本語 “quotes” 🎉 \U0001f468\u200d\U0001f469 \ud800",
    ],
)
@pytest.mark.parametrize("wrap", [str, fenced], ids=["bare", "fenced"])
def test_broken_strings_do_not_hide_the_numbers(analysis: str, wrap: type[str]) -> None:
    """LaTeX, raw newlines, unescaped quotes and any script in an analysis leave the verdict
    readable.
    """
    source = f'{{"response_1_analysis": "{analysis}", "score_1": 4, "score_2": 2, "ranking": 2}}'
    assert read(wrap(source)) == EXPECTED
    assert (
        read(wrap(f'{{"rubric_evaluations": [{OTHER}, "{analysis}"], "overall": {source}}}'))
        == EXPECTED
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"score_1": 4, "score_2": 2, "ranking": 2,}',
        '{"score_1": 4, // good\n "score_2": 2, "ranking": 2}',
        '{"score_1": 4 "score_2": "2" "ranking": 2',
        '{"analysis": "torn, "score_1": 4, "score_2": 2, "ranking": 2\n```',
    ],
)
def test_the_last_resort_reads_plain_numbers_after_their_keys(text: str) -> None:
    """Where JSON cannot be decoded, unescaped keys followed by plain numbers are enough."""
    assert read(text) == EXPECTED
    assert failure_of(read(text, "length")) is FailureKind.TRUNCATED


def test_the_last_resort_reads_after_overall_and_unescaped_quotes_only() -> None:
    """Numbers of rubrics and of a quotation are left aside; a second `overall` must say the
    same.
    """
    draft = f'{{"rubric_evaluations": [{OTHER} {OTHER}], "overall": '
    assert read(f"{draft}{OBJECT}") == read(f'{draft}{OBJECT} "overall": {OBJECT}') == EXPECTED
    assert failure_of(read(f'{draft}{OTHER} "overall": {OBJECT}')) is FailureKind.AMBIGUOUS
    assert (
        read('{"a": "b"c", "d": "\\"score_1": 5", "score_1": 4, "score_2": 2, "ranking": 2}')
        == EXPECTED
    )


# Any text

SCORES = st.integers(10, 50).map(lambda tenths: tenths / 10)
VERDICTS = st.builds(Verdict, SCORES, SCORES, st.integers(10, 60).map(lambda tenths: tenths / 10))


def render(verdict: Verdict) -> str:
    """Write a verdict as a judge should."""
    return json.dumps(
        {"score_1": verdict.score_1, "score_2": verdict.score_2, "ranking": verdict.ranking}
    )


@given(VERDICTS, st.text(), st.booleans())
def test_reading_inverts_writing(verdict: Verdict, analysis: str, nested: bool) -> None:
    """A verdict written as JSON, with any analysis beside it, is read back as it was."""
    members = {"response_1_analysis": analysis} | json.loads(render(verdict))
    source = json.dumps(
        {"rubric_evaluations": [members], "overall": members} if nested else members
    )
    assert read(source) == read(fenced(source)) == verdict


# Long and hostile inputs

UNITS = [
    "{",
    '"',
    '\\"',
    '{"',
    '{"a":',
    '{"a":[',
    '{"a":1}',
    '{"score_1":',
    '{"score_1":x}',
    OTHER,
    "```json",
    "\\",
]
UNITS += [
    "<think>",
    "</think>",
    '"score_1":',
    '"overall":{',
    '"score_1":4,',
    "{ ",
    '{"a" ',
    "{\\",
    '{"a\\',
]


@pytest.mark.parametrize("unit", UNITS)
def test_reading_takes_linear_time(unit: str) -> None:
    """Eight times the text takes about eight times as long, even for text made to be slow."""
    for before in ("", OBJECT, '{"score_1": "'):
        assert (
            growth(read, lambda chars, before=before: before + unit * (chars // len(unit)))
            <= LINEAR
        )


@pytest.mark.parametrize("levels", [900, 1_000, 100_000])
def test_deep_nesting_is_a_failure_not_a_crash(levels: int) -> None:
    """An object nested deeper than the decoder can follow is unreadable, and nothing worse."""
    deep = '{"a":' * levels + "1" + "}" * levels
    nest = "[" * levels + "]" * levels
    assert isinstance(read(deep), Failure)
    assert isinstance(read(f'{{"score_1": {nest}, "score_2": 2, "ranking": 2}}'), Failure)
    assert read(f"{deep}\n{OBJECT}") == EXPECTED
