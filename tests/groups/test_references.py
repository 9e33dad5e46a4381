"""Reference answers are shown to the judge on request only, as what they are; asked at the judge's
end of the wire.
"""

import json

import pytest
from scored_components import completions, judge, last_messages, score, settings_of

from genrm_cli.errors import UsageError
from genrm_cli.groups.compile import compile_plan
from genrm_cli.jobs.compare_request import parse_request
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.previews.preview import iter_previews
from genrm_cli.rollouts.reading.chosen_fields import reference_at
from genrm_cli.verdicts import Reason

SECTION = "[=== BEGIN REFERENCE ANSWER ===]\n42\n[=== END REFERENCE ANSWER ===]"
SHOWING = "reference_field = 'expected.value'\n"
RUBRIC = "[components.care]\nkind = 'rubric'\nset = 'helpfulness'\n"
ANSWERS = completions("41", "It is 42.", expected=[{"value": 42}] * 2)


def test_judges_and_graders_are_shown_the_reference_on_request_only(tmp_path, judge_server):
    """Requests without it stay what they were: the journal answers them again."""
    plain = judge(judge_server) + RUBRIC
    score(tmp_path, ANSWERS, plain)
    assert len(last_messages(judge_server)) == 2 + 2
    assert not any(
        "42\n[===" in text.partition("BEGIN RESPONSE")[0] for text in last_messages(judge_server)
    )
    score(tmp_path, ANSWERS, SHOWING + plain)
    assert [SECTION in text for text in last_messages(judge_server)] == [False] * 4 + [True] * 4
    score(tmp_path, ANSWERS, plain)
    assert len(last_messages(judge_server)) == 8


def test_a_reference_is_masked_as_all_that_is_sent(tmp_path, judge_server):
    """It may hold what may not leave the machine."""
    lines = completions("a", "b", expected=[{"value": "anna@example.org"}] * 2)
    score(tmp_path, lines, f"{SHOWING}redact_pattern = ['email']\n{judge(judge_server)}")
    assert len(last_messages(judge_server)) == 2
    assert not any("example.org" in text for text in last_messages(judge_server))


def test_a_group_with_two_references_is_not_judged(tmp_path):
    """One of its lines must be wrong; a group without any is judged, and counted."""
    lines = [
        *completions("41", "42", expected=[{"value": 42}, {"value": 43}]),
        *completions("41", "42", prompt="And?"),
    ]
    scored = score(tmp_path, lines, f"judge = 'lexical'\n{SHOWING}", max_unscored="1")
    assert scored.reasons == [Reason.MIXED_REFERENCES] * 2 + [None] * 2
    assert scored.metrics["missing_fields"] == {"reference_field": 2}
    assert score(tmp_path, lines, "judge = 'lexical'\n").reasons == [None] * 4


def test_a_field_that_no_rollout_has_is_refused(tmp_path):
    """Before any call: its name is probably wrong."""
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ANSWERS))
    run = new_run(settings_of("judge = 'lexical'\nreference_field = 'expected.valu'\n"))
    (preview,) = iter_previews([str(tmp_path / "in.jsonl")], run)
    assert "no rollout has a value under reference_field='expected.valu'" in str(preview)


def test_a_judge_that_cannot_be_shown_the_reference_is_refused():
    """A reference that was asked for is never silently held back."""
    cases = [
        (
            "compat = 'nemo-gym'\n",
            "reference_field has no effect with compat",
        ),
        ("profile = 'nemotron'\n", "the profile nemotron has no place for a reference answer"),
    ]
    for toml, says in cases:
        with pytest.raises(UsageError, match=says):
            compile_plan(settings_of("model = 'm'\nbase_url = 'http://x/v1'\n" + toml + SHOWING))


def test_a_compare_request_may_hold_the_reference():
    """All of its responses are shown with it."""
    request = {
        "conversation_history": [{"content": "6 x 7?"}],
        "response_objs": [{"output": []}] * 2,
    }
    plan = compile_plan(settings_of("judge = 'lexical'\n" + SHOWING))
    group = parse_request(json.dumps(request | {"expected": {"value": 42}}).encode(), "stdin", plan)
    assert [rollout.reference for rollout in group.rollouts] == ["42"] * 2


def test_a_reference_of_any_type_is_text():
    """A list of one value is that value; a blank text is none."""
    cases = [
        ("42", "42"),
        (42, "42"),
        (["42"], "42"),
        (["4", "2"], '["4", "2"]'),
        ({"a": 1}, '{"a": 1}'),
        (" ", None),
    ]
    for value, shown in cases:
        assert reference_at({"task": {"gold": value}}, "task.gold") == shown
        assert reference_at(json.loads("{}"), "task.gold") is None
