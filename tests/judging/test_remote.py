"""A judge behind HTTP: retries, re-askings, timeouts, and what each comparison costs."""

import asyncio

import pytest
from opened_judge import LONG, SHORT, ask_all, kind_of, unopened_judge, with_judge
from polling import until

from genrm_cli.errors import JudgeError
from genrm_cli.judging.pacing.judge_events import OtherModelEvent
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.verdicts import Verdict

GOOD = {"content": '{"score_1": 4, "score_2": 2, "ranking": 2}'}


def ask(server, *, retries=0, **given):
    """Put one comparison before the server."""
    return ask_all(server, [0], retries=retries, **given).outcomes[0]


def test_a_reply_of_another_model_is_reported_once():
    """A date or a missing path makes no other model; each other name is one warning."""
    events = []
    judge = unopened_judge(on_event=events.append, model="org/Judge-7B")
    request = judge.prepare(PairwisePrompt([("user", "Why?")], SHORT, LONG), 0)
    for name in (None, "judge-7b", "Judge-7B-2026-01-31", "org/Other-7B", "org/Other-7B"):
        assert judge.read(Reply(GOOD["content"], model=name), request) == Verdict(4, 2, 2)
    assert events == [OtherModelEvent("org/Judge-7B", "org/Other-7B")]


def test_a_verdict_comes_with_its_cost(judge_server):
    """An outcome tells calls, time and tokens besides the verdict."""
    judge_server.behave(latency_s=0.05)
    outcome = ask(judge_server)
    assert outcome.result == Verdict(1, 5, 6)
    assert outcome.attempts == 1
    assert outcome.from_journal is False
    assert 0.05 <= outcome.latency_s < 5
    assert outcome.prompt_tokens > 0
    assert outcome.completion_tokens > 0
    assert "ranking" in outcome.reply_text


def test_every_fault_is_a_failure_of_its_kind(judge_server):
    """Whatever goes wrong is data with a kind and some words, never a number, and is not asked
    again without retries: the group asks another request instead.
    """
    cases = [
        ({"content": "The first is better.", "finish_reason": "length"}, "truncated"),
        ({"content": ""}, "empty"),
        ({"content": "Both are fine."}, "no_verdict"),
        ({**GOOD, "finish_reason": "content_filter"}, "refused"),
        ({"body": "<html>"}, "bad_body"),
        ({"hang": True}, "timeout"),
        ({"reset": "mid_body"}, "connection"),
        ({"status": 503}, "http"),
        ({"status": 401}, "auth"),
        ({"status": 400}, "refused"),
    ]
    for fault, kind in cases:
        judge_server.behave(fault=fault)
        outcome = ask(judge_server, call_timeout_s=0.3 if kind == "timeout" else 10)
        assert kind_of(outcome) == kind
        assert outcome.result.detail
        assert outcome.attempts == 1


@pytest.mark.parametrize(
    "fault", [{"status": 429}, {"status": 500}, {"reset": "before"}, {"body": "<html>"}]
)
def test_what_may_pass_is_tried_again(judge_server, fault):
    """After a fault that passes, the same comparison gets its verdict; every try is counted."""
    judge_server.behave(script=[fault, fault])
    outcome = ask(judge_server, retries=2)
    assert outcome.result == Verdict(1, 5, 6)
    assert outcome.attempts == judge_server.stats()["requests"] == 3


@pytest.mark.parametrize(("status", "calls"), [(503, 4), (400, 1)])
def test_tries_end(judge_server, status, calls):
    """With 3 retries, a server error costs 4 calls; a permanent failure costs one, regardless of
    the retries left.
    """
    judge_server.behave(fault={"status": status})
    outcome = ask(judge_server, retries=3)
    assert kind_of(outcome) is not None
    assert outcome.attempts == judge_server.stats()["requests"] == calls


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusal_that_a_trial_confirms_gives_the_judge_up(judge_server, status):
    """A refused key or address is tried once more, with a harmless prompt."""
    judge_server.behave(fault={"status": status})
    with pytest.raises(JudgeError, match="cannot be used"):
        ask(judge_server, retries=3)
    assert judge_server.stats()["requests"] == 2


def test_a_prompt_that_a_firewall_refuses_fails_alone(judge_server):
    """The trial after it is answered, so the judge is not given up."""
    judge_server.behave(script=[{"status": 403}])
    assert ask(judge_server, retries=1).result == Verdict(1, 5, 6)


def test_no_call_outlives_its_comparison(judge_server):
    """A call that may take longer than what is left to its comparison ends with it."""
    judge_server.behave(fault={"hang": True})
    outcome = ask(judge_server, call_timeout_s=30, comparison_timeout_s=0.3, retries=3)
    assert kind_of(outcome) == "timeout"
    assert outcome.latency_s < 3
    judge_server.wait_until(lambda stats: stats["in_flight"] == 0)


def test_no_slot_is_held_while_a_comparison_waits(judge_server):
    """During a back-off the judge's slots are free for others."""
    judge_server.behave(script=[{"status": 429, "headers": {"Retry-After": "60"}}])

    async def look(opened):
        asking = asyncio.create_task(opened.ask_all([0]))
        await until(lambda: opened.budget.calls and not opened.pool.in_flight)
        assert not asking.done()
        asking.cancel()
        await asyncio.wait([asking])

    with_judge(look, judge_server.base_url)
    assert judge_server.stats()["by_status"] == {"429": 1}


def test_sampling_of_the_user_replaces_the_profiles(judge_server):
    """Fields that are given go before the profile's; the others stay."""
    ask(judge_server, given={"temperature": 0.0})
    (request,) = judge_server.stats()["recent"]
    body = request["body"]
    del body["messages"]
    assert body == {"model": "m", "temperature": 0.0, "top_p": 0.95, "max_tokens": 16384}
