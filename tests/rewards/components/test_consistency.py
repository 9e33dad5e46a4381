"""Responses to final answers, and answers to the share that agrees."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from linear_time import LINEAR, growth

from genrm_cli.rewards.components.consistency import AnswerForm, consistency_values, extract_answer
from genrm_cli.texts.regex import compile_regex


def test_the_last_box():
    """The last closed box counts, with any braces in it; an empty box is not an answer."""
    cases = [
        (r"so \boxed{42}", "42"),
        (r"\boxed{1} and then \boxed{2}, done", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\left\{ x \right)}", r"\left\{ x \right)"),
        (r"\boxed {7}", "7"),
        (r"\boxed{5} or \boxed{6", "5"),
        (r"\boxed{ 1,000. }", "1000"),
        (r"\boxed{a   b}", "a b"),
        (r"\boxed{1 \boxed{2} 3}", "2"),
        (r"} { \boxed{4}", "4"),
        (r"\boxed{}", None),
        (r"\boxed{3} then \boxed{ }", None),
        ("", None),
    ]
    for text, answer in cases:
        assert extract_answer(text, AnswerForm.BOXED) == answer


def test_the_last_number():
    """The last number, written plainly: no separators, no idle zeros, no full stop of the
    sentence.
    """
    cases = [
        ("First 3, then 42.", "42"),
        ("1,234,567.80 in all", "1234567.8"),
        ("one of 10, 20,30", "30"),
        ("that is \u22122.50", "-2.5"),
        ("5-3", "3"),
        ("(x)-3", "3"),
        ("007", "7"),
        (".5 of it.", "0.5"),
        ("1e3", "1000"),
        ("3 moles of H2O", "3"),
        ("答案是42。", "42"),
        ("12345678901234567890.10", "12345678901234567890.1"),
        ("none", None),
        ("...", None),
    ]
    for text, answer in cases:
        assert extract_answer(text, AnswerForm.NUMBER) == answer


def test_the_text_after_the_label():
    """The rest of the line after the last "answer:" counts, or else the next non-empty line."""
    cases = [
        ("Answer: yes", "yes"),
        ("answer: no\nWait. Final ANSWER : Yes, both.\nBye", "Yes, both"),
        ("**Answer:** `B`", "B"),
        ("**Answer**: 1,000", "1000"),
        ("The answer: my answer: 4", "4"),
        ("Answer:\n\n  Paris.\nIt is in France.", "Paris"),
        ("Answer：北京", "北京"),
        ("Answer:", None),
        ("answers: 3", None),
        ("The answer is 3", None),
    ]
    for text, answer in cases:
        assert extract_answer(text, AnswerForm.LABELLED) == answer


def test_a_pattern_of_the_users():
    """The group of the last match counts; an empty or unmatched group is not an answer."""
    cases = [
        ("#### 1\n#### 2", "2"),
        ("#### 1,000.", "1000"),
        ("#### x\n####", None),
        ("nothing", None),
    ]
    for text, answer in cases:
        assert extract_answer(text, compile_regex(r"####(?: (.*))?")) == answer


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9
    )
)
def test_a_number_keeps_its_value(number):
    """Separators and plain form change how a number is written, not which it is."""
    found = extract_answer(f"It comes to {number:,f}.", AnswerForm.NUMBER)
    assert Fraction(found) == Fraction(number)
    assert extract_answer(found, AnswerForm.NUMBER) == found


@given(
    st.text(alphabet=r"\boxed{}1.,-e answer:*" + "\n好", max_size=60), st.sampled_from(AnswerForm)
)
def test_any_text_has_an_answer_or_none(text, form):
    """An answer is never empty or framed in white space; what is one already stays itself in a
    box.
    """
    answer = extract_answer(text, form)
    assert answer is None or (answer == answer.strip() != "")
    if form is AnswerForm.NUMBER and answer is not None:
        assert extract_answer(rf"\boxed{{{answer}}}", AnswerForm.BOXED) == answer


def test_reading_takes_time_linear_in_the_text():
    """Eight times the text takes about eight times as long, whatever it repeats."""
    cases = [
        r"\boxed{",
        "{",
        "}",
        r"\boxed{1}",
        "9",
        "1,111",
        "1 ",
        "-",
        ".",
        "answer:",
        "answer*",
        " \n",
        "answer: \n",
    ]
    for form in list(AnswerForm):
        for piece in cases:
            assert growth(lambda text, form=form: extract_answer(text, form), piece) <= LINEAR


def test_golden_consistency():
    """The majority gets its share of all n; the others, and those without an answer, get 0."""
    cases = {
        "majority": (
            ["4", "4", "5", "4"],
            [0.75, 0.75, 0.0, 0.75],
        ),
        "first seen": (
            ["b", "a", "a", "b"],
            [0.5, 0.0, 0.0, 0.5],
        ),
        "no answer is no majority": (
            [None, None, None, "x"],
            [0.0, 0.0, 0.0, 0.25],
        ),
        "no answer at all": ([None, None], [0.0, 0.0]),
        "one": (["a"], [1.0]),
        "none": ([], []),
    }
    for case, (answers, values) in cases.items():
        assert consistency_values(answers) == values, case
