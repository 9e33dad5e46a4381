"""A judge's reply is read strictly: the right verdict, or a failure that says why there is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linear_time import LINEAR, growth
from msgspec.structs import replace
from quoting_judges import as_shown
from reply_readers import GRADERS, JUDGES, LABELS, REPLIES, UNQUOTED, Judge, told

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.profiles.answer import MAX_DETAIL_CHARS
from genrm_cli.judging.profiles.scores_json import parse_scores_json_as_reference
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.verdicts import Failure, Verdict

AS_GYM = Judge(replace(PROFILES["nemotron"], parse_reply=parse_scores_json_as_reference), UNQUOTED)
OF_THREE = {
    name: JUDGES[name]._replace(prompt=GRADERS[name].show("one", "two", "three"))
    for name in ("ranking", "clusters", "rewardanything")
}
READ = {**JUDGES, **OF_THREE, "nemo-gym": AS_GYM}
LISTED = dict(zip(("FIRST", "SECOND", "THIRD"), LABELS, strict=True))
EXPECTED = Verdict(4.0, 2.0, 2.0)
OBJECT = REPLIES["nemotron"]["OWN"]
OTHER = REPLIES["nemotron"]["OTHER"]
NEMOTRON = JUDGES["nemotron"]
read = NEMOTRON.read


@pytest.mark.parametrize("name", REPLIES)
def test_replies_are_read_as_the_table_says(name):
    """Spellings, contradictions and near misses of each kind of judge."""
    table = REPLIES[name]
    names = {word: text for word, text in table.items() if word.isupper()}
    names |= LISTED if name == "listwise" else {}
    judge = READ[name.removesuffix(" cut off")]
    for expected in table.keys() - names.keys():
        for reply in table[expected]:
            for word, text in names.items():
                reply = reply.replace(word, text)
            outcome = judge.read(reply, "length" if name.endswith("cut off") else "stop")
            assert told(outcome) == expected, reply
            if isinstance(outcome, Failure):
                assert 0 < len(outcome.detail) <= MAX_DETAIL_CHARS


def fenced(source):
    """Put JSON into a fence."""
    return f"```json\n{source}\n```"


def failed_on(text, key):
    """Return the kind of a failure that names a key."""
    outcome = read(text)
    assert key in outcome.detail
    return outcome.kind


def test_a_missing_key_is_named_and_never_filled():
    """Two of the three numbers are no verdict, even if an earlier object has all of them."""
    for key in ("score_1", "score_2", "ranking"):
        partial = OBJECT.replace(f'"{key}"', '"x"')
        for text in (partial, f"{OBJECT}\n{partial}"):
            assert failed_on(text, key) == "no_verdict"


NUMBERS = ["4", "4.0", "4e0", '"4"', '"4.0"', "40e-1", "4/5", '"4/5"', '"4.0 / 5"', '" 4"']
NOT_NUMBERS = ["true", "null", "[4]", "{}", "4/10", "4 out of 5", "4_0", "\uff14", "four"]
NOT_NUMBERS += ['"4/10"', '"4_0"', '"\uff14"', '"four"', '""', '"NaN"', '"4e0"', '"0x4"']
BEYOND = {
    "score_1": ["0", "0.99", "5.01", "6", "10", "-4", '"-4"', "1e999", "1" * 5_000],
    "score_2": ["0", "NaN", "Infinity", "-Infinity"],
    "ranking": ["0", "0.5", "6.5", "7", "NaN"],
}


def with_value(key, value):
    """Write a verdict in which a number is something else."""
    numbers = {"score_1": "4", "score_2": "2", "ranking": "2", key: value}
    return "{" + ", ".join(f'"{name}": {number}' for name, number in numbers.items()) + "}"


def test_only_what_is_plainly_a_number_on_the_scale_is_read():
    """Decimals in quotes and shares of the highest count; nothing is interpreted, neither in good
    JSON nor in broken JSON.
    """
    for value in NUMBERS:
        assert read(with_value("score_1", value)) == EXPECTED
    for value in NOT_NUMBERS:
        text = with_value("score_1", value)
        assert failed_on(text, "score_1") == failed_on(text[:-1], "score_1") == "no_verdict"
    for key, values in BEYOND.items():
        for value in values:
            assert failed_on(with_value(key, value), key) == "out_of_range"


def test_what_is_asked_about_or_torn_is_no_verdict():
    """A fake in the question is nobody's quotation, and the end of one may be half a verdict."""
    for texts in ((f"Best.\n{OTHER}", "Good."), ("Good.", fenced(OTHER))):
        shown = NEMOTRON._replace(
            prompt=as_shown(NEMOTRON.profile, PairwisePrompt([], *texts)),
        )
        torn = shown.read(f"Response 2 ends with {OTHER[1:-1]}, which is a trick.")
        assert told(torn) == "ambiguous"
        assert "quoted" in torn.detail
    asked = PairwisePrompt([("user", OTHER)], "Best.", "Good.")
    shown = NEMOTRON._replace(prompt=as_shown(NEMOTRON.profile, asked))
    assert told(shown.read(f"It holds {OTHER}.\n{fenced(OBJECT)}")) == "ambiguous"


def test_broken_strings_do_not_hide_the_numbers():
    """LaTeX, raw newlines, unescaped quotes and any script in an analysis leave the verdict
    readable.
    """
    analyses = [
        r"The gap \Delta x and \underline{x}, \alpha \u12 \x41 \'",
        r"$\frac{1}{2} \neq \mathbb{R}^{\{1\}} \\ \beta$",
        "two\nlines\tand a \x07 bell",
        'He said "hi" and left.',
        'A 5" pipe {',
        r"ends in a backslash \ ",
        "日本語 “quotes” 🎉 \U0001f468\u200d\U0001f469 \ud800",
    ]
    for analysis in analyses:
        source = OBJECT.replace("Clear.", analysis)
        nested = f'{{"rubric_evaluations": [{OTHER}, "{analysis}"], "overall": {source}}}'
        for text in (source, nested, fenced(source), fenced(nested)):
            assert read(text) == EXPECTED, text


SCORES = st.integers(10, 50).map(lambda tenths: tenths / 10)
VERDICTS = st.builds(Verdict, SCORES, SCORES, st.integers(10, 60).map(lambda tenths: tenths / 10))


@given(VERDICTS, st.text(), st.booleans())
def test_reading_inverts_writing(verdict, analysis, nested):
    """A verdict written as JSON, with any analysis beside it, is read back as it was."""
    numbers = {name: getattr(verdict, name) for name in ("score_1", "score_2", "ranking")}
    members = {"response_1_analysis": analysis, **numbers}
    whole = {"rubric_evaluations": [members], "overall": members} if nested else members
    source = json.dumps(whole)
    assert read(source) == read(fenced(source)) == verdict


def test_deep_nesting_and_endless_numbers_are_a_failure_not_a_crash():
    """An object nested deeper than the decoder can follow is unreadable, and nothing worse."""
    values = ["[" * levels + "]" * levels for levels in (1_000, 20_000)]
    for value in (*values, "1" * 5_000):
        for judge in (NEMOTRON, AS_GYM):
            assert isinstance(judge.read(f'{{"score_1": {value}}}'), Failure)
    deep = '{"a":' * 20_000 + "1" + "}" * 20_000
    assert read(f"{deep}\n{OBJECT}") == EXPECTED


# What begins a verdict or a thought, or what hides where one ends.
UNITS = [
    *("{", '"', '\\"', '{"', '{"a":', '{"a":[', '{"a":1}', "{ ", '{"a" ', "{\\", '{"a\\', "\\"),
    *('{"score_1":', '{"score_1":x}', OTHER, '"score_1":', '"overall":{', '"score_1":4,'),
    *("```json", "```json```", "<think>", "</think>", '{"scores":', '{"scores": {}} ', '"scores"'),
    *('"' + " " * 99, '{"scores": "', "[[", "<answer>", "<score_A>1</score_A>", "[RESULT]"),
    *("Winner:", "\\boxed{", "1 ", " ", "\n", "**"),
]
# NeMo Gym's search takes quadratic time, and is bounded.
VAIN = ["{", '"', '{"', '{"a":', "```json```", '{"score_1":x}', "\\"]
BEFORE = ("", OBJECT, '{"score_1": "', "[The Begin of Ranking Score]")


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("nemotron", ['{"a":[', '"overall":{']),
        ("nemo-gym", ["```json"]),
        ("nemotron-boxed", ["\\boxed{"]),
        pytest.param("nemo-gym", VAIN, marks=pytest.mark.slow),
        *(pytest.param(name, UNITS, marks=pytest.mark.slow) for name in JUDGES),
    ],
)
def test_replies_are_read_in_linear_time(name, units):
    """Eight times the text takes about eight times as long, even for text made to be slow."""
    for unit in units:
        for before in BEFORE if units is UNITS else [""]:
            assert growth(READ[name].read, unit, before) <= LINEAR, (unit, before)
