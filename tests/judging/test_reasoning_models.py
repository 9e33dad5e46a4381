"""OpenAI's reasoning models, which refuse fields that other judges take; and fields of requests as
settings.
"""

import json

import pytest

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.request_form import RefusedField, RequestForm
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.metrics.event import ignore_event
from genrm_cli.settings.kinds import parse_request_field


@pytest.fixture(autouse=True)
def reasoning(judge_server):
    """Make the judge refuse what OpenAI's reasoning models refuse."""
    judge_server.behave(is_reasoning_model=True)


def last_sent(judge_server):
    """Return the fields of the last request besides its messages."""
    body = judge_server.stats()["recent"][-1]["body"]
    return {name: value for name, value in body.items() if name != "messages"}


def test_each_field_is_refused_once_and_the_second_run_pays_nothing(genrm, call, judge_server):
    """The server's 400 names the field: it is renamed or left out and said once; the journal knows
    the new request.
    """
    genrm.rollouts()
    first = call("score in.jsonl", *judge_server.flags).ended(0)
    for said in (
        "temperature=0.6: its requests leave it out",
        "max_tokens=16384: its requests use max_completion_to",
    ):
        assert first.err.count(f"m does not take {said}") == 1
    assert last_sent(judge_server) == {"model": "m", "max_completion_tokens": 16384}
    assert judge_server.stats()["by_status"] == {"200": 2 + 8, "400": 3}
    again = call("score in.jsonl --force", *judge_server.flags).ended(0)
    assert judge_server.stats()["requests"] == 2 + 8 + 3
    assert "8 reused from an earlier run" in again.err


def key_of(form, given):
    """Return the key of a request in a form, with fields that the user gave."""
    pool = EndpointPool([], 10, ignore_event)
    profile = PROFILES["nemotron-plain"]
    policy = CallPolicy(1, 1, 0, 0)
    judge = RemoteJudge(pool, profile, policy, Budget(), model="m", given=given, form=form)
    return judge.prepare(PairwisePrompt([], "a", "b"), 0).key


def test_a_verdict_belongs_to_the_request_as_it_was_sent():
    """The key of an adapted request is that of the same request as the user would have planned it,
    and no other.
    """
    adapted = RequestForm("m")
    adapted.recall('{"temperature": null, "top_p": null, "max_tokens": "max_completion_tokens"}')
    as_sent = dict.fromkeys(("temperature", "top_p", "max_tokens"))
    as_sent["max_completion_tokens"] = 16384
    plain = RequestForm("m")
    assert key_of(adapted, {}) == key_of(plain, as_sent) != key_of(plain, {})
    assert key_of(adapted, {"temperature": 0.2}) == key_of(adapted, {})


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
    ("field", "code", "words"),
    [
        ("temperature=0.2", 4, "Leave the field out with --request-field temperature=, or"),
        ("reasoning_effort=no", 4, "'medium', 'high'. Leave the field out"),
        ("house_mode=1", 4, "Leave the field out with --request-field house_mode="),
        ("temprature=1", 2, "unknown request field 'temprature'. Did you mean temperature?"),
        ("model=x", 2, "--request-field: model is set by genrm"),
    ],
)
def test_what_a_user_fixed_is_not_changed(genrm, call, judge_server, field, code, words):
    """A field that the user set, or that verdicts need, is refused with the remedy; a typo, before
    any call.
    """
    genrm.rollouts()
    score = f"score in.jsonl --request-field {field}"
    assert words in call(score, *judge_server.flags).ended(code).err


def test_fields_of_requests_are_set_and_left_out(genrm, call, judge_server):
    """Text and JSON; either name limits replies, and the other is not sent."""
    genrm.rollouts(1, 2)
    fields = "reasoning_effort=low max_completion_tokens=99 temperature= top_p=null seed=7"
    given = " ".join(f"--request-field {field}" for field in fields.split())
    finished = call(f"score in.jsonl {given}", *judge_server.flags).ended(0)
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


def test_servers_that_contradict_each_other_end_it():
    """A field is never renamed back, and what is not sent changes nothing."""
    form = RequestForm("m")
    planned = {"max_tokens": 9, "temperature": 0.6}
    assert form.learn(RefusedField("max_tokens", True, "max_completion_tokens"), planned)
    assert not form.learn(RefusedField("max_completion_tokens", True, "max_tokens"), planned)
    assert not form.learn(RefusedField("max_tokens", True), planned)
    assert not form.learn(RefusedField("temperature", True), planned, fixed=["temperature"])
    other = RequestForm("m")
    other.recall(str(form))
    renamed = {"max_completion_tokens": 9, "temperature": 0.6}
    assert other.adapt(planned) == form.adapt(planned) == renamed
    assert json.loads(str(other)) == {"max_tokens": "max_completion_tokens"}
