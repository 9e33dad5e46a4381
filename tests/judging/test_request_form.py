"""Forms of requests: what servers refuse is learned, and belongs to the key of a verdict."""

import json

from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.request_form import RefusedField, RequestForm
from genrm_cli.judging.requests import PairwisePrompt
from genrm_cli.metrics.event import ignore_event


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
