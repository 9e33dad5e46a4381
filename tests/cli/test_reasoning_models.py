"""OpenAI's reasoning models, which refuse fields that other judges take; and fields of requests as
settings.
"""

import pytest

from genrm_cli.settings.kinds import parse_request_field


@pytest.fixture(autouse=True)
def reasoning(judge_server):
    """Make the judge refuse what OpenAI's reasoning models refuse."""
    judge_server.behave(is_reasoning_model=True)


def last_sent(judge_server):
    """Return the fields of the last request besides its messages."""
    body = judge_server.stats()["recent"][-1]["body"]
    return {name: value for name, value in body.items() if name != "messages"}


def test_each_field_is_refused_once_and_the_second_run_pays_nothing(
    genrm, call_judged, judge_server
):
    """The server's 400 names the field: it is renamed or left out and said once; the journal knows
    the new request.
    """
    genrm.rollouts()
    first = call_judged("score in.jsonl").ended(0)
    for said in (
        "temperature=0.6: its requests leave it out",
        "max_tokens=16384: its requests use max_completion_to",
    ):
        assert first.err.count(f"m does not take {said}") == 1
    assert last_sent(judge_server) == {"model": "m", "max_completion_tokens": 16384}
    assert judge_server.stats()["by_status"] == {"200": 2 + 8, "400": 3}
    again = call_judged("score in.jsonl --force").ended(0)
    assert judge_server.stats()["requests"] == 2 + 8 + 3
    assert "8 reused from an earlier run" in again.err


def test_several_endpoints_and_judges_of_a_model_learn_together(genrm, call, judge_server):
    """A grader asks the model of the run in the form that its judge has found; another model learns
    for itself.
    """
    genrm.rollouts()
    judges = [f'[[judge]]\nmodel = "{each}"\nprofile = "nemotron-plain"\n' for each in "ab"]
    grader = '[components.tone]\nkind = "rubric"\nset = "helpfulness"\n'
    settings = f'base_url = ["{judge_server.base_url}"]\n{"".join(judges)}{grader}'
    total = "[total]\nweights = { genrm = 1.0 }\n"
    (genrm.folder / "genrm.toml").write_text(settings + total)
    finished = call("score in.jsonl --config genrm.toml").ended(0)
    assert [finished.err.count(f"{model} does not take") for model in "ab"] == [3, 3]
    assert judge_server.stats()["by_status"]["400"] == 6


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("temperature=0.2", "Leave the field out with --request-field temperature=, or"),
        ("reasoning_effort=no", "'medium', 'high'. Leave the field out"),
        ("house_mode=1", "Leave the field out with --request-field house_mode="),
    ],
)
def test_what_a_user_fixed_is_not_changed(genrm, call_judged, field, words):
    """A field that the user set, or that verdicts need, is refused with the remedy."""
    genrm.rollouts()
    score = f"score in.jsonl --request-field {field}"
    assert words in call_judged(score).ended(4).err


def test_fields_of_requests_are_set_and_left_out(genrm, call_judged, judge_server):
    """Text and JSON; either name limits replies, and the other is not sent."""
    genrm.rollouts(1, 2)
    fields = "reasoning_effort=low max_completion_tokens=99 temperature= top_p=null seed=7"
    given = " ".join(f"--request-field {field}" for field in fields.split())
    finished = call_judged(f"score in.jsonl {given}").ended(0)
    assert "does not take" not in finished.err
    sent = {"max_completion_tokens": 99, "reasoning_effort": "low", "seed": 7}
    assert last_sent(judge_server) == {"model": "m", **sent}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("a=b=c", ("a", "b=c")),
        ("stop=[1]", ("stop", [1])),
        (" user = x y ", ("user", "x y")),
        ("a=NaN", ("a", "NaN")),
        ("a=", ("a", None)),
    ],
)
def test_values_are_json_or_text(text, field):
    """The first equals sign separates; NaN is no JSON."""
    assert parse_request_field(text) == field
