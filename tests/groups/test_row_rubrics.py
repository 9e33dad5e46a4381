"""Rubrics of a row: the principle of judges that compare, and what `rubric:row` grades by; at the
judge's end.
"""

import json

import pytest
from scored_components import completions, judge, last_messages, score, settings_of

from genrm_cli.errors import UsageError
from genrm_cli.groups.compile import compile_plan
from genrm_cli.rollouts.reading.chosen_fields import criteria_at, principle_of
from genrm_cli.rollouts.rollout import UnreadableRecordError

LONG = "Because of the tide. " * 12
SHORT = "Because."
HEALTH = [
    {
        "criterion": "Says  when\nto see a doctor.",
        "points": 6,
        "tags": ["x"],
    },
    {"criterion": "Names anna@example.org.", "points": 4},
    {"criterion": "Scolds.", "points": -5},
]
REWARDS = [
    {
        "title": "Unit",
        "description": "Gives metres.",
        "weight": 5,
    },
    {
        "title": "Pitfall",
        "description": "Gives feet.",
        "weight": -1,
    },
]
ROW = "rubric_field = 'rubrics'\n[components.own]\nkind = 'rubric'\nset = 'row'\n"
ALONE = "[total]\nweights = { rubric_row = 1 }\n"


def test_a_response_earns_the_points_of_the_criteria_that_it_meets(tmp_path, judge_server):
    """A share of all positive points: flaws take away, but not below 0; points are not shown; texts
    are masked.
    """
    toml = f"redact_pattern = ['email']\n{judge(judge_server)}{ROW}{ALONE}"
    scored = score(
        tmp_path, completions(LONG, SHORT, "", rubrics=[HEALTH] * 3), toml, max_unscored="1"
    )
    assert scored.component("rubric_row") == scored.rewards == [1.0, 0.0, None]
    assert scored.lines[0]["genrm"]["component_notes"]["rubric_row"] == {"evidence": "met: 0, 1"}
    assert len(last_messages(judge_server)) == 2
    assert all(
        "\n0. Says when to see a doctor.\n1. Names [EMAIL]." in text
        for text in last_messages(judge_server)
    )
    lost = score(tmp_path, completions(LONG, "", rubrics=[REWARDS] * 2), "empty = 'lose'\n" + toml)
    assert lost.rewards == [1.0, 0.0]


def test_a_row_without_a_rubric_has_no_value(tmp_path, judge_server):
    """It costs no call, and is counted; neither is a rubric of flaws alone asked about."""
    rubrics = [
        None,
        [{"criterion": "Scolds.", "points": -5}],
        "Be kind.",
        HEALTH,
    ]
    lines = completions(LONG, LONG, LONG, SHORT, rubrics=rubrics)
    scored = score(
        tmp_path,
        lines,
        judge(judge_server) + ROW + ALONE,
        max_unscored="1",
    )
    assert scored.component("rubric_row") == [None, None, 0.0, 0.0]
    assert scored.metrics["missing_fields"] == {"rubric_field": 1}
    assert len(last_messages(judge_server)) == 2


def test_judges_that_compare_take_the_rubric_as_the_principle(tmp_path, judge_server):
    """It goes before the principle of the line; rows with other rubrics are other groups."""
    lines = [
        *completions(LONG, SHORT, rubrics=[REWARDS] * 2, principle=["Be brief."] * 2),
        *completions(LONG, SHORT, rubrics=["Be kind."] * 2),
    ]
    scored = score(tmp_path, lines, judge(judge_server) + "rubric_field = 'rubrics'\n")
    plans = [
        text.partition("BEGIN EVALUATION PLAN ===]\n")[2].partition("\n[===")[0]
        for text in last_messages(judge_server)
    ]
    listed = "1. Unit: Gives metres. (5 points)\n2. Pitfall: Gives feet. (-1 points)"
    assert sorted(plans) == [listed] * 2 + ["Be kind."] * 2
    assert scored.metrics["groups"] == 2


def test_a_rubric_is_a_text_or_a_list():
    """A single text is the principle as it is; points are shown where they differ from 1."""
    cases = [
        (None, None),
        ("  ", None),
        ([], None),
        ("Be kind.\nBe brief.", "Be kind.\nBe brief."),
        (["Be kind."], "Be kind."),
        (["Be kind.", "Be brief."], "1. Be kind.\n2. Be brief."),
        ([*HEALTH[:1], "Short."], "1. Says when to see a doctor. (6 points)\n2. Short."),
    ]
    for value, expected in cases:
        assert principle_of(criteria_at({"row": {"rubric": value}}, "row.rubric")) == expected


def test_a_rubric_of_another_shape_is_refused():
    """The message names the entry and what was expected."""
    cases = [
        ({"a": 1}, "rubric is not a rubric: expected a text or a list"),
        (["Be kind.", 7], r"rubric\[1\] has no text"),
        (
            [{"criterion": "x", "points": "many"}],
            r"rubric\[0\]: its points or weight are not a number",
        ),
        (
            [
                {
                    "criterion": "x",
                    "weight": json.loads("1e999"),
                }
            ],
            "not a number",
        ),
    ]
    for value, says in cases:
        with pytest.raises(UnreadableRecordError, match=says):
            criteria_at({"rubric": value}, "rubric")


def test_a_rubric_without_use_and_a_use_without_rubric_are_refused():
    """A setting is never silently ignored."""
    cases = [
        (
            "[components.own]\nkind = 'rubric'\nset = 'row'\n",
            "the rubric set row needs rubric_field",
        ),
        ("compat = 'nemo-gym'\nrubric_field = 'rubrics'\n", "rubric_field has no effect"),
    ]
    for toml, says in cases:
        with pytest.raises(UsageError, match=says):
            compile_plan(settings_of("model = 'm'\nbase_url = 'http://x/v1'\n" + toml))
