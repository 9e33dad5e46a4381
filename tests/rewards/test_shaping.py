"""Length and style terms: the golden values of the reference, and the formulas written out once
more.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrm_cli.rewards.shaping import (
    count_style_elements,
    measure_text,
    plan_adjustments,
    style_density,
)
from genrm_cli.settings.components import Shaping
from genrm_cli.settings.reward_settings import PRESETS

TEXTS = st.text(alphabet="ab #*-+1._\n`é好😀", max_size=30)
MARKDOWN = (
    "# Title\n### Subsection\n1. Ordered\n- Dash\n* Star\n+ Plus\n**bold** and __also "
    "bold__\nNice 😀✅"
)


def adjusted(scores, reasonings, answers, terms):
    """Return the adjustments of rollouts with these texts."""
    shapes = [measure_text(*texts) for texts in zip(reasonings, answers, strict=True)]
    return plan_adjustments(scores, shapes, terms)


def totals(scores, reasonings, answers, **terms):
    """Return what all terms together add to each score."""
    return [
        adjustment.total() for adjustment in adjusted(scores, reasonings, answers, Shaping(**terms))
    ]


def centred(sizes):
    """Give 1 to the least and 0 to the most, less the mean: the formula once more."""
    low = min(sizes)
    high = max(sizes)
    weights = [0.0 if high == low else 1 - (size - low) / (high - low) for size in sizes]
    return [weight - sum(weights) / len(weights) for weight in weights]


def test_golden_answer_length():
    """The seed example: the shorter answer gains half the coefficient, the longer loses it."""
    answers = [
        "SKILL is a verb meaning to kill.",
        "Skill refers to the ability to perform a task well.",
    ]
    added = totals([1.0, 4.5], ["", ""], answers, group_answer_length_penalty_coeff=0.05)
    assert added == pytest.approx([0.025, -0.025])


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=8), st.floats(0, 2), st.floats(0, 2))
def test_group_length_is_the_formula(texts, reasoning_coeff, answer_coeff):
    """Both coefficients weigh centred lengths; the sum over the group is 0."""
    reasonings, answers = zip(*texts, strict=True)
    added = totals(
        [3.0] * len(texts),
        reasonings,
        answers,
        group_reasoning_length_penalty_coeff=reasoning_coeff,
        group_answer_length_penalty_coeff=answer_coeff,
    )
    of_reasonings = centred([len(text.strip()) for text in reasonings])
    of_answers = centred([len(text.strip()) for text in answers])
    expected = [
        reasoning_coeff * r + answer_coeff * a
        for r, a in zip(of_reasonings, of_answers, strict=True)
    ]
    assert added == pytest.approx(expected, abs=1e-9)
    assert sum(added) == pytest.approx(0, abs=1e-9)


def test_the_bonus_goes_to_the_shortest_among_the_top():
    """The threshold is the int(n × top_percentile)-th best score, at least the best."""
    cases = [
        (16, 0.2, 3),
        (16, 0.0, 1),
        (16, 1.0, 16),
        (4, 0.2, 1),
        (10, 0.2, 2),
        (2, 0.5, 1),
        (5, 0.59, 2),
    ]
    for n, top_percentile, last_winner in cases:
        scores = [float(n - place) for place in range(n)]  # the first is the best
        for place in range(n):
            answers = ["a" if other == place else "long" for other in range(n)]
            added = totals(
                scores, [""] * n, answers, answer_bonus=0.5, top_percentile=top_percentile
            )
            expected = [0.0] * n
            expected[place] = 0.5 if place < last_winner else 0.0
            assert added == expected


def test_an_empty_text_never_wins_a_bonus():
    """An empty answer does not count as the shortest; if all are empty, no rollout gets the
    bonus.
    """
    assert totals([5, 5, 5], ["", " \n", "abc"], [""] * 3, reasoning_bonus=0.5) == [0.0, 0.0, 0.5]
    assert totals([5, 5], ["", " "], ["", ""], reasoning_bonus=0.5, answer_bonus=0.5) == [0.0, 0.0]


def test_golden_style_counts():
    """Headers, list items, bold spans and emoji, and nothing that only looks like them."""
    cases = [
        (MARKDOWN, (2, 4, 2, 2)),
        ("####### h7", (0, 0, 0, 0)),
        ("inline # header", (0, 0, 0, 0)),
        ("1.not a list", (0, 0, 0, 0)),
        ("-not a list", (0, 0, 0, 0)),
        ("**bold", (0, 0, 0, 0)),
        ("**one\ntwo**", (0, 0, 0, 0)),
        ("###### h6\n\t- deep\n   12. twelfth", (1, 2, 0, 0)),
        ("", (0, 0, 0, 0)),
    ]
    for text, counts in cases:
        assert count_style_elements(text) == counts


GYM_EMOJI = [
    (0x24C2, 0x1F251),
    (0x1F300, 0x1F64F),
    (0x1F680, 0x1F6FF),
    (0x1F900, 0x1FAFF),
]


def test_under_compat_the_references_emoji_count():
    """From the first code point of each of its ranges to the last, and none beside them."""
    for first, last in GYM_EMOJI:
        texts = [
            chr(first - 1),
            chr(first),
            chr(last),
            chr(last + 1),
        ]
        assert [count_style_elements(text, as_gym=True)[3] for text in texts] == [0, 1, 1, 0]
        assert style_density(f"ab{chr(first)}", as_gym=True) == pytest.approx(1 / 3)


@given(st.lists(TEXTS, min_size=2, max_size=8), st.floats(0, 2))
def test_style_is_the_formula(answers, coeff):
    """The coefficient weighs centred densities, lower is better."""
    added = totals(
        [3.0] * len(answers), [""] * len(answers), answers, group_style_penalty_coeff=coeff
    )
    expected = [coeff * weight for weight in centred([style_density(answer) for answer in answers])]
    assert added == pytest.approx(expected, abs=1e-9)


@given(TEXTS)
def test_list_items_are_those_of_the_references_patterns(text):
    """The patterns of the reference, which cross blank lines, find as many items as ours."""
    found = len(re.findall(r"^\s*\d+\.\s", text, re.MULTILINE)) + len(
        re.findall(r"^\s*[-*+]\s", text, re.MULTILINE)
    )
    assert count_style_elements(text)[1] == found


@pytest.mark.timeout(20)
def test_degenerate_text_takes_linear_time():
    """The output of a model in a loop is measured at once; a quadratic pattern would run into the
    time limit.
    """
    cases = [
        "\n" * 100_000,
        "- " * 50_000,
        "*" * 100_000,
        "`" * 100_000,
        "_*" * 50_000,
    ]
    for text in cases:
        assert style_density("a" + text) >= 0


def test_a_group_of_one_is_not_adjusted():
    """There is nothing to compare a lone rollout with."""
    for n in [0, 1]:
        terms = dict(PRESETS["nemotron-3-super"])
        assert totals([3.0] * n, ["r"] * n, ["# a"] * n, **terms) == [0.0] * n
