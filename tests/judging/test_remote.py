"""A judge behind HTTP: retries, re-askings, timeouts, and what each comparison costs."""

import asyncio

import pytest
from polling import until

from genrm_cli.errors import JudgeError
from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.lookup import PROFILES
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.judge_events import OtherModelEvent
from genrm_cli.judging.pacing.limit import Limit
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import PairwisePrompt, Reply
from genrm_cli.metrics.event import ignore_event
from genrm_cli.verdicts import Failure, Verdict

EXHIBIT = PairwisePrompt(
    [("user", "Why?")], "A word.", "A full answer that explains itself, step by step, with care."
)
GOOD = {"content": '{"score_1": 4, "score_2": 2, "ranking": 2}'}
UNREADABLE = {"content": "Both are fine."}


def with_judge(
    server,
    use,
    *,
    retries=0,
    call_timeout_s=10,
    comparison_timeout_s=60,
    give_up_after_s=10,
    given=None,
    budget=None,
):
    """Open a judge with one endpoint and next to no waits, use it, and check that all slots came
    back.
    """
    policy = CallPolicy(call_timeout_s, comparison_timeout_s, retries, base_s=0.01, cap_s=0.1)

    async def run():
        async with JudgeClient(server.base_url, None, 2, 4) as client:
            pool = EndpointPool(
                [Endpoint("judge", client, Limit(4))], give_up_after_s, ignore_event
            )
            judge = RemoteJudge(
                pool, PROFILES["nemotron"], policy, budget or Budget(), model="m", given=given or {}
            )
            try:
                return await use(judge, pool)
            finally:
                assert pool.in_flight == 0

    return asyncio.run(run())


def test_a_reply_of_another_model_is_reported_once():
    """A date or a missing path makes no other model; each other name is one warning."""
    events = []
    pool = EndpointPool([], 10, events.append)
    policy = CallPolicy(10, 60, 0, 0)
    judge = RemoteJudge(
        pool, PROFILES["nemotron"], policy, Budget(), model="org/Judge-7B", given={}
    )
    request = judge.prepare(EXHIBIT, 0)
    for name in (None, "judge-7b", "Judge-7B-2026-01-31", "org/Other-7B", "org/Other-7B"):
        assert judge.read(Reply(GOOD["content"], model=name), request) == Verdict(4, 2, 2)
    assert events == [OtherModelEvent("org/Judge-7B", "org/Other-7B")]


async def ask_once(judge, pool):
    """Put one comparison before the judge."""
    slot = await judge.admit()
    assert slot is not None
    _, outcome = await judge.ask(judge.prepare(EXHIBIT, 0), slot)
    return outcome


def ask(server, **given):
    """Put one comparison before the server."""
    outcome = with_judge(server, ask_once, **given)
    assert outcome is not None
    return outcome


def kind_of(outcome):
    """Return the kind of the failure, None for a verdict."""
    return outcome.result.kind.value if isinstance(outcome.result, Failure) else None


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
    assert outcome.reply_text is not None
    assert "ranking" in outcome.reply_text


def test_every_fault_is_a_failure_of_its_kind(judge_server):
    """Whatever goes wrong is data with a kind and some words, never a number."""
    cases = [
        ({"content": "The first is better.", "finish_reason": "length"}, "truncated"),
        ({"content": ""}, "empty"),
        (
            {
                "content": '{"score_1": 4, "score_2": 2, "ranking": 2} '
                '{"score_1": 2, "score_2": 4, "ranking": 5}'
            },
            "ambiguous",
        ),
        ({"content": '{"score_1": 9, "score_2": 2, "ranking": 2}'}, "out_of_range"),
        ({"content": '{"score_1": 4, "score_2": 2}'}, "no_verdict"),
        (UNREADABLE, "no_verdict"),
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
        assert isinstance(outcome.result, Failure)
        assert outcome.result.detail
        assert outcome.attempts == (2 if kind == "truncated" else 1)


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429},
        {"status": 500},
        {"reset": "before"},
        {"body": "<html>"},
    ],
)
def test_what_may_pass_is_tried_again(judge_server, fault):
    """After a fault that passes, the same comparison gets its verdict; every try is counted."""
    judge_server.behave(script=[fault, fault])
    outcome = ask(judge_server, retries=2)
    assert outcome.result == Verdict(1, 5, 6)
    assert outcome.attempts == judge_server.stats()["requests"] == 3


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ({"status": 503}, 4),
        ({"status": 400}, 1),
    ],
)
def test_tries_end(judge_server, fault, calls):
    """With 3 retries, a server error costs 4 calls; a permanent failure costs one, regardless of
    the retries left.
    """
    judge_server.behave(fault=fault)
    outcome = ask(judge_server, retries=3)
    assert kind_of(outcome) is not None
    assert outcome.attempts == judge_server.stats()["requests"] == calls


@pytest.mark.parametrize(("fault", "calls"), [({"status": 401}, 2), ({"status": 404}, 2)])
def test_a_refusal_that_a_trial_confirms_gives_the_judge_up(judge_server, fault, calls):
    """A refused key or address is tried once more, with a harmless prompt."""
    judge_server.behave(fault=fault)
    with pytest.raises(JudgeError, match="cannot be used"):
        ask(judge_server, retries=3)
    assert judge_server.stats()["requests"] == calls


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


def test_an_unreadable_reply_is_a_failure(judge_server):
    """The same request would most likely get the same reply: the group asks another one."""
    judge_server.behave(script=[UNREADABLE])
    outcome = ask(judge_server)
    assert kind_of(outcome) == "no_verdict"
    assert outcome.attempts == judge_server.stats()["requests"] == 1


def test_no_slot_is_held_while_a_comparison_waits(judge_server):
    """During a back-off the judge's slots are free for others."""
    judge_server.behave(
        script=[
            {
                "status": 429,
                "headers": {"Retry-After": "60"},
            }
        ]
    )
    budget = Budget()

    async def look(judge, pool):
        asking = asyncio.create_task(ask_once(judge, pool))
        await until(lambda: budget.calls and not pool.in_flight)
        assert not asking.done()
        asking.cancel()
        await asyncio.wait([asking])

    with_judge(judge_server, look, budget=budget)
    assert judge_server.stats()["by_status"] == {"429": 1}


def test_sampling_of_the_user_replaces_the_profiles(judge_server):
    """Fields that are given go before the profile's; the others stay."""
    ask(judge_server, given={"temperature": 0.0})
    (request,) = judge_server.stats()["recent"]
    body = request["body"]
    assert body["temperature"] == 0.0
    assert body["top_p"] == 0.95
    assert body["max_tokens"] == 16384
    assert set(body) == {
        "model",
        "messages",
        "temperature",
        "top_p",
        "max_tokens",
    }
