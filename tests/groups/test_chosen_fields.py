"""Reference answers, rubrics and categories of the lines, shown to the judge on request only; asked
at the judge's end of the wire.
"""

import json
import re
from functools import partial

import pytest
from scored_here import LEXICAL, completions, judge, last_messages, refusals, settings_of

from genrm_cli.groups.compile import compile_plan
from genrm_cli.jobs.compare_request import parse_request
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.previews.preview import iter_previews
from genrm_cli.verdicts import Reason

LONG = "Because of the tide. " * 12
SHORT = "Because."
MODEL = "model = 'm'\nbase_url = 'http://x/v1'\n"
SHOWING = "reference_field = 'expected.value'\n"
CRITERIA = "[criteria]\nsentences = { maths = 'Only the answer.', chat = 'Tone counts.' }\n"
ROW = "[components.own]\nkind = 'rubric'\nset = 'row'\n"


def plans_shown(server):
    """Return the evaluation plans that the judge was shown, but for the usual one, sorted."""
    plan = re.compile(r"BEGIN EVALUATION PLAN ===\]\n(?!1\. Before)(.*?)\n\[===", re.DOTALL)
    return sorted(each for text in last_messages(server) for each in plan.findall(text))


def test_what_has_no_effect_is_refused():
    """What was asked for is never silently held back."""
    criteria = f"{LEXICAL}[criteria]\n"
    cases = [
        (f"{MODEL}compat = 'nemo-gym'\n{SHOWING}", "reference_field has no effect with compat"),
        (f"{MODEL}profile = 'nemotron'\n{SHOWING}", "nemotron has no place for a reference answer"),
        (MODEL + ROW, "the rubric set row needs rubric_field"),
        (f"{MODEL}compat = 'nemo-gym'\nrubric_field = 'x'\n", "rubric_field has no effect"),
        (f"{criteria}fields = ['x']\n", "sentences is missing"),
        (f"{criteria}sentences = {{ a = 1 }}\n", "is not text"),
        (f"{criteria}sentence = {{}}\n", "unknown key 'sentence'"),
        (f"{LEXICAL}compat = 'nemo-gym'\n{CRITERIA}", "has no effect"),
    ]
    refusals(cases, compile_plan)


# References

SECTION = "[=== BEGIN REFERENCE ANSWER ===]\n42\n[=== END REFERENCE ANSWER ===]"
ANSWERS = completions("41", "It is 42.", expected=[{"value": 42}] * 2)


def test_judges_and_graders_are_shown_the_reference_on_request_only(judged, judge_server):
    """Requests without it stay what they were: the journal answers them again. What responses have
    in common does not depend on it.
    """
    rubric = "[components.care]\nkind = 'rubric'\nset = 'helpfulness'\n"
    for showing in ("", SHOWING, ""):
        judged(ANSWERS, f"{showing}{rubric}[diversity]\nmethod = 'llm'\n")
    assert [SECTION in text for text in last_messages(judge_server)] == [False] * 5 + [True] * 4


def test_a_reference_is_masked_as_all_that_is_sent(judged, judge_server):
    """It may hold what may not leave the machine."""
    lines = completions("a", "b", expected=[{"value": "anna@example.org"}] * 2)
    judged(lines, f"{SHOWING}redact_pattern = ['email']\n")
    assert len(last_messages(judge_server)) == 2
    assert "example.org" not in str(last_messages(judge_server))


def test_a_group_with_two_references_is_not_judged(score):
    """One of its lines must be wrong; a group without any is judged, and counted."""
    lines = [
        *completions("41", "42", expected=[{"value": 42}, {"value": 43}]),
        *completions("41", "42", prompt="And?"),
    ]
    scored = score(lines, LEXICAL + SHOWING, max_unscored="1")
    assert scored.reasons == [Reason.MIXED_REFERENCES] * 2 + [None] * 2
    assert scored.metrics["missing_fields"] == {"reference_field": 2}
    assert score(lines, LEXICAL).reasons == [None] * 4


def test_a_field_that_no_rollout_has_is_refused(genrm):
    """Before any call: its name is probably wrong."""
    path = genrm.write("in.jsonl", ANSWERS)
    run = new_run(settings_of(f"{LEXICAL}reference_field = 'expected.valu'\n"))
    (preview,) = iter_previews([str(path)], run)
    assert "no rollout has a value under reference_field='expected.valu'" in str(preview)


def test_a_compare_request_may_hold_the_reference():
    """All of its responses are shown with it."""
    request = {
        "conversation_history": [{"content": "6 x 7?"}],
        "response_objs": [{"output": []}] * 2,
        "expected": {"value": 42},
    }
    plan = compile_plan(settings_of(LEXICAL + SHOWING))
    group = parse_request(json.dumps(request).encode(), "stdin", plan)
    assert [rollout.reference for rollout in group.rollouts] == ["42"] * 2


# Rubrics

HEALTH = [
    {"criterion": "Says  when\nto see a doctor.", "points": 6, "tags": ["x"]},
    {"criterion": "Names anna@example.org.", "points": 4},
    {"criterion": "Scolds.", "points": -5},
]
REWARDS = [
    {"title": "Unit", "description": "Gives metres.", "weight": 5},
    {"title": "Pitfall", "description": "Gives feet.", "weight": -1},
]


@pytest.fixture
def by_rows(judged):
    """Score lines by the rubrics of their rows, and by nothing else."""
    toml = f"rubric_field = 'rubrics'\nredact_pattern = ['email']\n{ROW}"
    return partial(judged, toml=f"{toml}[total]\nweights = {{ rubric_row = 1 }}", max_unscored="1")


def test_a_response_earns_the_points_of_the_criteria_that_it_meets(by_rows, judge_server):
    """A share of all positive points: flaws take away, but not below 0; points are not shown; texts
    are masked.
    """
    scored = by_rows(completions(LONG, SHORT, "", rubrics=[HEALTH] * 3))
    assert scored.component("rubric_row") == scored.rewards == [1.0, 0.0, None]
    assert scored.lines[0]["genrm"]["component_notes"]["rubric_row"] == {"evidence": "met: 0, 1"}
    assert len(last_messages(judge_server)) == 2
    for text in last_messages(judge_server):
        assert "\n0. Says when to see a doctor.\n1. Names [EMAIL]." in text
    lost = by_rows(completions(LONG, "", rubrics=[REWARDS] * 2), empty="lose")
    assert lost.rewards == [1.0, 0.0]


def test_a_row_without_a_rubric_has_no_value(by_rows, judge_server):
    """It costs no call, and is counted; neither is a rubric of flaws alone asked about."""
    rubrics = [None, HEALTH[2:], "Be kind.", HEALTH]
    scored = by_rows(completions(LONG, LONG, LONG, SHORT, rubrics=rubrics))
    assert scored.component("rubric_row") == [None, None, 0.0, 0.0]
    assert scored.metrics["missing_fields"] == {"rubric_field": 1}
    assert len(last_messages(judge_server)) == 2


def test_judges_that_compare_take_the_rubric_as_the_principle(judged, judge_server):
    """It goes before the principle of the line; rows with other rubrics are other groups."""
    lines = [
        *completions(LONG, SHORT, rubrics=[REWARDS] * 2, principle=["Be brief."] * 2),
        *completions(LONG, SHORT, rubrics=["Be kind."] * 2),
    ]
    scored = judged(lines, "rubric_field = 'rubrics'\n")
    listed = "1. Unit: Gives metres. (5 points)\n2. Pitfall: Gives feet. (-1 points)"
    assert plans_shown(judge_server) == [listed] * 2 + ["Be kind."] * 2
    assert scored.metrics["groups"] == 2


# Categories


def test_a_line_is_judged_by_the_sentence_of_its_category(judged, judge_server):
    """The principle of the line goes before it; a category without a sentence has none."""
    lines = [
        *completions(LONG, SHORT, prompt="a", category=["maths"] * 2),
        *completions(LONG, SHORT, prompt="b", category=["other"] * 2),
        *completions(LONG, SHORT, prompt="c", category=["chat"] * 2, principle=["Mine."] * 2),
    ]
    judged(lines, CRITERIA)
    assert plans_shown(judge_server) == [*["Mine."] * 2, *["Only the answer."] * 2]


def test_eval_asks_by_category_as_score_does(genrm, call, judge_server):
    """The field is that of the benchmark, here `subset`; other criteria are another question."""
    pair = {"prompt": "Q?", "chosen": "right", "rejected": "wrong", "subset": "maths"}
    genrm.write("pairs.jsonl", [pair])
    for criteria, plans in (("", []), (CRITERIA, ["Only the answer."] * 2)):
        (genrm.folder / "c.toml").write_text(judge(judge_server) + criteria)
        done = call("eval pairs.jsonl --config c.toml --no-probe --json").ended(0)
        assert json.loads(done.out)["calls"] == 2
        assert plans_shown(judge_server) == plans
