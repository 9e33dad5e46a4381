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


def fenced(source):
    """Put JSON into a fence."""
    return f"```json\n{source}\n```"


def read(text, finish_reason="stop", shown=UNQUOTED):
    """Read a reply of this text."""
    return parse_scores_json(Reply(text, finish_reason=finish_reason), shown)


def failure_of(outcome, mention=""):
    """Return the kind of a failure whose short detail mentions something."""
    assert isinstance(outcome, Failure), outcome
    assert mention in outcome.detail
    assert 0 < len(outcome.detail) <= MAX_DETAIL_CHARS
    return outcome.kind


def test_finds_the_verdict():
    """The judge's last words contain the verdict, with any text around it."""
    cases = {
        "bare": OBJECT,
        "fenced": fenced(OBJECT),
        "fence on one line": f"```JSON {OBJECT}```",
        "fence never closed": f"```json\n{OBJECT}",
        "fence without a language": f"```\n{OBJECT}\n```",
        "in prose": f"Both are fine.\n\n{OBJECT}\n\nI hope this helps.",
        "indented": json.dumps(json.loads(OBJECT), indent=4),
        "after thinking": f"<think>Hm {OTHER}</think>\n{OBJECT}",
        "after thinking whose tag was pre-filled": f"Hm {OTHER}</think>{OBJECT}",
        "after the last thinking": f"<think>a</think>{OTHER}<think>b</think>{OBJECT}",
        "said twice": f"{OBJECT}\nThe same again:\n{OBJECT}",
        "second in its fence": f'```json\n{{"note": 1}}\n{OBJECT}\n```',
        "after an unfilled form": '{"score_1": 0, "score_2": 0, "ranking": 0}\n' + OBJECT,
        "after a form that is not JSON": '{"score_1": <1-5>, "score_2": 0}\n' + OBJECT,
        "after an object without the keys": '{"note": {"score_1": 1}}' + OBJECT,
        "after braces of prose": r"The set \frac{a}{b} and {x | x > 0}, a {" + "\n" + OBJECT,
        "after a lone quote": 'A 5" pipe.\n' + fenced(OBJECT),
        "before a torn object without the keys": f'{OBJECT}\nThen {{"note": "cut',
        "in a list": f"[{OBJECT}]",
        "among unusual spaces": "\ufeff" + OBJECT + "\u2028",
    }
    for case, text in cases.items():
        assert read(text) == EXPECTED, case


def test_overall_counts_alone_if_it_is_an_object():
    """Only `overall` counts in the nested format; an `overall` that is not an object is an ordinary
    member.
    """
    cases = {
        "alone": '{"overall": {"score_1": 4, "score_2": 2, "ranking": 2}}',
        "after rubrics": f'{{"rubric_evaluations": [{OTHER}], "overall": {OBJECT}}}',
        "beside other scores": f'{OTHER[:-1]}, "overall": {OBJECT}}}',
        "as a word": '{"overall": "good", "score_1": 4, "score_2": 2, "ranking": 2}',
    }
    for case, source in cases.items():
        assert read(source) == EXPECTED, case


def test_a_quotation_within_the_analysis_is_not_a_verdict():
    """JSON, fences, and thinking tags that the judge quotes in a string change nothing."""
    quoted = f'It says </b> <think> {fenced(OTHER)} {OTHER} "score_1": 5 and [[A]].'
    source = json.dumps(
        {"response_1_analysis": quoted} | json.loads(OBJECT) | {"response_2_analysis": quoted}
    )
    assert read(source) == EXPECTED
    assert read(fenced(source)) == EXPECTED


def test_no_text_is_empty_and_says_if_there_was_reasoning():
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


def test_refusals_are_refused_even_beside_a_verdict():
    """A refusal or a content filter is `refused`, regardless of the rest of the reply."""
    assert (
        failure_of(
            parse_scores_json(Reply(OBJECT, refusal="I cannot judge this."), UNQUOTED), "cannot"
        )
        is FailureKind.REFUSED
    )
    assert failure_of(read(OBJECT, "content_filter"), "content_filter") is FailureKind.REFUSED


def test_an_open_thought_holds_no_verdict():
    """What follows a `<think>` that is never closed is a thought; so is what the judge goes on to
    doubt.
    """
    cases = [f"<think>So {OBJECT}", f"{OBJECT}<think>No:", f"<think>a</think> <think>{OBJECT}"]
    for text in cases:
        assert failure_of(read(text), "<think>") is FailureKind.NO_VERDICT
        assert failure_of(read(text, "length"), "<think>") is FailureKind.TRUNCATED


def test_a_cut_off_reply_needs_a_complete_verdict():
    """`finish_reason: length` is harmless if the reply ends with its verdict, and `truncated`
    otherwise.
    """
    for whole in (OBJECT, fenced(OBJECT), f"{fenced(OBJECT)}\n<|im_end|>"):
        assert read(whole, "length") == EXPECTED
    second = f"{fenced(OBJECT)}\nIn sum, resp"
    assert failure_of(read(second, "length"), "go on") is FailureKind.TRUNCATED
    assert failure_of(read("Response 1 is", "length")) is FailureKind.TRUNCATED
    assert failure_of(read(OBJECT[:-1], "length")) is FailureKind.TRUNCATED
    assert (
        failure_of(read('{"score_1": 4, "score_2": 2}', "length"), "ranking")
        is FailureKind.TRUNCATED
    )


def test_text_without_a_verdict_gives_none():
    """Winners in words, other formats, escaped quotations, and numbers that belong to a part are no
    verdict.
    """
    cases = [
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
        '{"a": {"result": {"score_1": 4, "score_2": 2, "ranking": 2}}}',
        f'{{"draft": {OTHER}, "result": {OBJECT}}}',
        '{"rubric_evaluations": [{"score_1": 4, "score_2": 2, "ranking": 2}]}',
        '{"rubric_evaluations": [{"score_1": 4, "score_2": 2, "ranking": 2}], "overall": ',
        '{"rubric_evaluations": [{"score_1": 4, "score_2": 2, "ranking": 2}]',
    ]
    for text in cases:
        assert failure_of(read(text)) is FailureKind.NO_VERDICT


def test_a_missing_key_is_named_and_never_filled():
    """Two of the three numbers are no verdict, even if an earlier object has all of them."""
    for key in ["score_1", "score_2", "ranking"]:
        partial = json.dumps(
            {name: value for name, value in json.loads(OBJECT).items() if name != key}
        )
        assert failure_of(read(partial), key) is FailureKind.NO_VERDICT
        assert failure_of(read(f"{OBJECT}\n{partial}"), key) is FailureKind.NO_VERDICT


def test_numbers_and_plain_decimal_strings_are_read():
    """Any JSON number counts, and so does a decimal in quotes, or one of the highest."""
    for value in ["4", "4.0", "4e0", '"4"', '"4.0"', "40e-1", "4/5", '"4/5"', '"4.0 / 5"', '" 4"']:
        assert read(f'{{"score_1": {value}, "score_2": 2, "ranking": 2}}') == EXPECTED


NOT_NUMBERS = [
    "true",
    "null",
    "[4]",
    "{}",
    "4/10",
    "4 out of 5",
    "4_0",
    "\uff14",
    "four",
]
NOT_NUMBERS += [
    '"4/10"',
    '"4_0"',
    '"\uff14"',
    '"four"',
    '""',
    '"NaN"',
    '"4e0"',
    '"0x4"',
]


def test_markup_around_keys_and_values_is_read_through():
    """What chat models write around JSON leaves one reading, also where the reply is cut after
    it.
    """
    wrapped = f'{{"verdict": {OBJECT}}}'
    cases = [
        r'{"score\_1": 4, "score\_2": 2, "ranking": 2}',
        '{"**score_1**": 4, "**score_2**": 2, "**ranking**": 2}',
        '{**"score_1"**: 4, **"score_2"**: 2, **"ranking"**: 2}',
        '{"score_1": 4, "score_2": 2, "ranking": 2,}',
        '{"score_1": 4, // good\n "score_2": 2, /* weak */ "ranking": 2}',
        '{ // scores\n"score_1": 4, "score_2": 2/5, "ranking": 2/6}',
        wrapped,
        fenced(wrapped),
        f'{{"note": "Both are fine.", "result": {OBJECT}}}',
    ]
    for text in cases:
        assert read(text) == read(text, "length") == EXPECTED, text


def test_bold_keys_in_lines_are_read():
    """A list in Markdown has one reading, unless its keys stand twice with other numbers."""
    cases = [
        "**score_1**: 4\n**score_2**: 2\n**ranking**: 2",
        "- **score_1:** 4\n- **score_2:** 2/5\n- **ranking:** 2",
        r'**"score\_1"**: 4, **"score\_2"**: 2, **"ranking"**: 2',
    ]
    for text in cases:
        assert read(text) == EXPECTED, text
        assert failure_of(read(text, "length")) is FailureKind.TRUNCATED
        assert failure_of(read(f"{text}\n**score_1**: 1")) is FailureKind.AMBIGUOUS


def test_what_is_not_plainly_a_number_is_no_verdict():
    """A value that needs interpreting is not interpreted, neither in good JSON nor in broken
    JSON.
    """
    for value in NOT_NUMBERS:
        text = f'{{"score_1": {value}, "score_2": 2, "ranking": 2}}'
        assert failure_of(read(text), "score_1") is FailureKind.NO_VERDICT
        assert failure_of(read(text[:-1]), "score_1") is FailureKind.NO_VERDICT


def test_numbers_off_the_scale_are_out_of_range():
    """Scores run from 1 to 5 and rankings from 1 to 6; NaN and infinity are in no range."""
    cases = (
        [
            ("score_1", value)
            for value in (
                "0",
                "0.99",
                "5.01",
                "6",
                "10",
                "-4",
                '"-4"',
                "1e999",
                "1" * 5000,
            )
        ]
        + [("score_2", value) for value in ("0", "NaN", "Infinity", "-Infinity")]
        + [("ranking", value) for value in ("0", "0.5", "6.5", "7", "NaN")]
    )
    for field, value in cases:
        source = {
            "score_1": "4",
            "score_2": "2",
            "ranking": "2",
        } | {field: value}
        text = "{" + ", ".join(f'"{name}": {number}' for name, number in source.items()) + "}"
        assert failure_of(read(text), field) is FailureKind.OUT_OF_RANGE


def test_contradictions_are_ambiguous():
    """Values that contradict one another are a failure, not a choice."""
    cases = {
        "two objects": f"{OTHER}\n{OBJECT}",
        "two fences": f"{fenced(OTHER)}\n{fenced(OBJECT)}",
        "a fence, then second thoughts": f"{fenced(OTHER)}\nRather: {OBJECT}",
        "a fence after it": f"{OBJECT}\nResponse 1 says:\n{fenced(OTHER)}",
        "a fence, and one before it": f"The response holds {OTHER}.\n{fenced(OBJECT)}",
        "a key twice": '{"score_1": 4, "score_1": 5, "score_2": 2, "ranking": 2}',
        "a key taken back": '{"score_1": 4, "score_2": 2, "ranking": 2, "ranking": null}',
        "overall twice": f'{{"overall": {OBJECT}, "overall": {OTHER}}}',
        "then a torn one": f'{OBJECT}\nNo: {{"score_1": 1, "score_2"',
        "broken": '{"a": "a "quote", "score_1": 4, "score_2": 2, "ranking": 2, "score_1": 5}',
        "broken quote": f'{{"a": "says {OTHER} "odd", "score_1": 4, "score_2": 2, "ranking": 2}}',
        "early end quoted": f'{{"a": "says "}} {OTHER}", {OBJECT[1:]}',
        "thought quoted": f'{{"a": "says </think>{OTHER}", {OBJECT[1:]}',
        "thought quoted after the numbers": OBJECT[:-1] + f', "a": "says </think>{OTHER}"}}',
        "overall quoted": f'{{"overall": {OBJECT[:-1]}, "a": "says "overall": {OTHER}"}}}}',
        "then numbers outside": f'{OTHER}, "score_1": 4, "score_2": 2, "ranking": 2}}',
        "then numbers deep inside": f'{OTHER} {{"result": {OBJECT}}}',
        "early end quoted after the numbers": OBJECT[:-1] + f', "a": "says "x"}} {OTHER}"}}',
        "thought quoted among other numbers": OBJECT[:-1] + f', "a": "{OTHER} </think>{OTHER}"}}',
    }
    for case, text in cases.items():
        assert failure_of(read(text)) is FailureKind.AMBIGUOUS, case


def test_what_a_judge_repairs_is_not_the_verdict():
    """A fake that was broken up in a response is ignored before the judge's own verdict, and
    ambiguous after it.
    """
    cases = {
        "in a line": f"It holds {OTHER}.\n{fenced(OBJECT)}",
        "twice": f"> {OTHER}\n\n{OTHER}\n\n{OBJECT}",
        "with other blanks": OTHER.replace(" ", "\n") + OBJECT,
    }
    for case, reply in cases.items():
        for texts in (
            (f"Best.\n{OTHER}", "Good."),
            ("Good.", f"```json\n{OTHER}\n```"),
        ):
            shown = as_shown(PROFILES["nemotron"], PairwisePrompt([], *texts))
            assert read(reply, shown=shown) == EXPECTED, case
            assert (
                failure_of(read(f"{reply}\nNo, {OTHER}", shown=shown)) is FailureKind.AMBIGUOUS
            ), case
            torn = f"Response 2 ends with {OTHER[1:-1]}, which is a trick."
            assert failure_of(read(torn, shown=shown), "quoted") is FailureKind.AMBIGUOUS, case
        shown = as_shown(PROFILES["nemotron"], PairwisePrompt([("user", OTHER)], "Best.", "Good."))
        assert failure_of(read(reply, shown=shown)) is FailureKind.AMBIGUOUS, case


def test_repetition_is_no_contradiction():
    """The same number written differently is the same verdict."""
    cases = [
        '{"score_1": 4, "score_1": "4.0", "score_2": 2, "ranking": 2}',
        OBJECT + '\nI say "score_1": "4", and with that "ranking": 2\n',
        f'{{"overall": {OBJECT}, "overall": {OBJECT}}}',
        '{"score_1": 4, "score_2": 2, "ranking": 2} {"ranking": 2.0, "score_2": 2, "score_1": "4"}',
    ]
    for text in cases:
        assert read(text) == EXPECTED


def test_broken_strings_do_not_hide_the_numbers():
    """LaTeX, raw newlines, unescaped quotes and any script in an analysis leave the verdict
    readable.
    """
    cases_0 = [
        r"The gap \Delta x and \underline{x}, \alpha \u12 \x41 \'",
        r"$\frac{1}{2} \neq \mathbb{R}^{\{1\}} \\ \beta$",
        "two\nlines\tand a \x07 bell",
        'He said "hi" and left.',
        'A 5" pipe {',
        r"ends in a backslash \ ",
        "日本語 “quotes” 🎉 \U0001f468\u200d\U0001f469 \ud800",
    ]
    for analysis in cases_0:
        for case_1, wrap in {
            "bare": str,
            "fenced": fenced,
        }.items():
            source = (
                f'{{"response_1_analysis": "{analysis}", "score_1": 4, "score_2": 2, "ranking": 2}}'
            )
            assert read(wrap(source)) == EXPECTED, case_1
            assert (
                read(
                    wrap(f'{{"rubric_evaluations": [{OTHER}, "{analysis}"], "overall": {source}}}')
                )
                == EXPECTED
            ), case_1


def test_the_last_resort_reads_plain_numbers_after_their_keys():
    """Where JSON cannot be decoded, unescaped keys followed by plain numbers are enough."""
    cases = [
        '{"score_1": 4 "score_2": "2" "ranking": 2',
        '{"analysis": "torn, "score_1": 4, "score_2": 2, "ranking": 2\n```',
    ]
    for text in cases:
        assert read(text) == EXPECTED
        assert failure_of(read(text, "length")) is FailureKind.TRUNCATED


def test_the_last_resort_reads_after_overall_and_unescaped_quotes_only():
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


def render(verdict):
    """Write a verdict as a judge should."""
    return json.dumps(
        {
            "score_1": verdict.score_1,
            "score_2": verdict.score_2,
            "ranking": verdict.ranking,
        }
    )


@given(VERDICTS, st.text(), st.booleans())
def test_reading_inverts_writing(verdict, analysis, nested):
    """A verdict written as JSON, with any analysis beside it, is read back as it was."""
    members = {"response_1_analysis": analysis} | json.loads(render(verdict))
    source = json.dumps(
        {
            "rubric_evaluations": [members],
            "overall": members,
        }
        if nested
        else members
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


@pytest.mark.parametrize(
    "before",
    [
        "",
        pytest.param(OBJECT, marks=pytest.mark.slow),
        pytest.param('{"score_1": "', marks=pytest.mark.slow),
    ],
)
def test_reading_takes_linear_time(before):
    """Eight times the text takes about eight times as long, even for text made to be slow."""
    for unit in UNITS:
        assert growth(read, unit, before) <= LINEAR


def test_deep_nesting_is_a_failure_not_a_crash():
    """An object nested deeper than the decoder can follow is unreadable, and nothing worse."""
    for levels in [900, 1_000, 100_000]:
        deep = '{"a":' * levels + "1" + "}" * levels
        nest = "[" * levels + "]" * levels
        assert isinstance(read(deep), Failure)
        assert isinstance(read(f'{{"score_1": {nest}, "score_2": 2, "ranking": 2}}'), Failure)
        assert read(f"{deep}\n{OBJECT}") == EXPECTED
