import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_server_fixture import JudgeServer

from genrm_cli.errors import StorageError
from genrm_cli.judging.client import Endpoint, JudgeClient
from genrm_cli.judging.engine import EmbeddedJudge, Outcome, RemoteJudge, judge_all
from genrm_cli.judging.pacing import MAX_RETRY_AFTER_S, RetryPolicy
from genrm_cli.judging.profiles import PROFILES
from genrm_cli.judging.verdict import Exhibit, Failure, Verdict

SHORT, LONG = "A word.", "A full answer that explains itself, step by step, with care."
GOOD = {"content": '{"score_1": 4, "score_2": 2, "ranking": 2}'}
UNREADABLE = {"content": "Both are fine."}


def exhibit(question: str = "Why?") -> Exhibit:
    """Build a comparison of a short and a long answer."""
    return Exhibit([("user", question)], SHORT, LONG)


def ask(server: JudgeServer, *, retries: int = 0, reask: int = 0, call_timeout_s: float = 10) -> Outcome:
    """Put one comparison before the server."""
    endpoint = Endpoint(server.base_url, None, 2, call_timeout_s, 4)
    policy = RetryPolicy(retries, base_s=0.01)

    async def compare() -> Outcome:
        async with JudgeClient(endpoint) as client:
            profile = PROFILES["nemotron"]
            judge = RemoteJudge(client, profile, model="m", sampling={}, policy=policy, reask=reask)
            return await judge.compare(exhibit())

    return asyncio.run(compare())


def kind_of(outcome: Outcome) -> str | None:
    """Return the kind of the failure, None for a verdict."""
    return outcome.result.kind.value if isinstance(outcome.result, Failure) else None


def test_a_verdict_comes_with_its_cost(judge_server: JudgeServer) -> None:
    """An outcome tells calls, time and tokens besides the verdict."""
    judge_server.behave(latency_s=0.05)
    outcome = ask(judge_server)
    assert outcome.result == Verdict(1, 5, 6)
    assert outcome.attempts == 1
    assert 0.05 <= outcome.latency_s < 5
    assert outcome.prompt_tokens > 0
    assert outcome.completion_tokens > 0
    assert outcome.reply_text is not None
    assert "ranking" in outcome.reply_text


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"content": "The first is better.", "finish_reason": "length"}, "truncated"),
        ({"content": "<think>Let me see", "finish_reason": "length"}, "truncated"),
        ({"content": None, "finish_reason": "length", "reasoning": "Let me see"}, "truncated"),
        ({"content": ""}, "empty"),
        ({"content": None, "reasoning": "The first."}, "empty"),
        (
            {"content": '{"score_1": 4, "score_2": 2, "ranking": 2} {"score_1": 2, "score_2": 4, "ranking": 5}'},
            "ambiguous",
        ),
        ({"content": '{"score_1": 9, "score_2": 2, "ranking": 2}'}, "out_of_range"),
        ({"content": '{"score_1": 4, "score_2": 2, "ranking": 3.5e9}'}, "out_of_range"),
        ({"content": '{"score_1": 4, "score_2": 2}'}, "no_verdict"),
        ({"content": '{"score_1": "4/5", "score_2": 2, "ranking": 2}'}, "no_verdict"),
        (UNREADABLE, "no_verdict"),
        ({**GOOD, "finish_reason": "content_filter"}, "refused"),
        ({"body": "<html>"}, "bad_body"),
        ({"huge_bytes": 33_000_000}, "bad_body"),
        ({"hang": True}, "timeout"),
        ({"reset": "mid_body"}, "connection"),
        ({"status": 429}, "rate_limited"),
        ({"status": 503}, "http"),
        ({"status": 401}, "auth"),
        ({"status": 400}, "refused"),
    ],
)
def test_every_fault_is_a_failure_of_its_kind(judge_server: JudgeServer, fault: dict[str, Any], kind: str) -> None:
    """Whatever goes wrong is data with a kind and some words, never a number."""
    judge_server.behave(fault=fault)
    outcome = ask(judge_server, call_timeout_s=0.3 if kind == "timeout" else 10)
    assert kind_of(outcome) == kind
    assert isinstance(outcome.result, Failure)
    assert outcome.result.detail
    assert outcome.attempts == 1


@pytest.mark.parametrize("fault", [{"status": 429}, {"status": 500}, {"reset": "before"}, {"body": "<html>"}])
def test_what_may_pass_is_tried_again(judge_server: JudgeServer, fault: dict[str, Any]) -> None:
    """After a fault that passes, the same comparison gets its verdict; every try is counted."""
    judge_server.behave(script=[fault, fault])
    outcome = ask(judge_server, retries=2)
    assert outcome.result == Verdict(1, 5, 6)
    assert outcome.attempts == judge_server.stats()["requests"] == 3


@pytest.mark.parametrize(("fault", "calls"), [({"status": 503}, 4), ({"status": 401}, 1), ({"status": 400}, 1)])
def test_tries_end(judge_server: JudgeServer, fault: dict[str, Any], calls: int) -> None:
    """With 3 retries a server error costs 4 calls; what cannot pass costs one, however many askings are left."""
    judge_server.behave(fault=fault)
    outcome = ask(judge_server, retries=3, reask=3)
    assert kind_of(outcome) is not None
    assert outcome.attempts == judge_server.stats()["requests"] == calls


def test_an_unreadable_reply_is_asked_again(judge_server: JudgeServer) -> None:
    """Re-asking sends the same body until a verdict can be read; tokens of all replies are summed."""
    judge_server.behave(script=[UNREADABLE, {"content": ""}])
    outcome = ask(judge_server, reask=3)
    assert outcome.result == Verdict(1, 5, 6)
    stats = judge_server.stats()
    assert outcome.attempts == stats["requests"] == 3
    assert stats["repeat_answers"] == 2
    assert outcome.prompt_tokens % 3 == 0


def test_re_asking_ends_with_the_last_failure(judge_server: JudgeServer) -> None:
    """When the askings are used up, the outcome is what the last reply was, and its text is kept."""
    judge_server.behave(script=[{"content": ""}], fault=UNREADABLE)
    outcome = ask(judge_server, reask=2)
    assert kind_of(outcome) == "no_verdict"
    assert outcome.attempts == judge_server.stats()["requests"] == 3
    assert outcome.reply_text == "Both are fine."


def test_the_judges_retry_after_is_waited_for(judge_server: JudgeServer) -> None:
    """A call that was told to come back in a second does not come back sooner."""
    judge_server.behave(script=[{"status": 429, "headers": {"Retry-After": "1"}}])
    started_s = time.monotonic()
    outcome = ask(judge_server, retries=1)
    assert outcome.result == Verdict(1, 5, 6)
    assert time.monotonic() - started_s >= 1
    assert outcome.latency_s >= 1


@given(st.integers(1, 100), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_waits_grow_within_their_bounds(failed_tries: int, fraction: float, retry_after_s: float | None) -> None:
    """A wait is at least half of a bound that doubles up to the cap, plus what the server asked, at most 300 s."""
    policy = RetryPolicy(5, base_s=0.5, cap_s=60)
    bound_s = min(60, 0.5 * 2 ** (failed_tries - 1))
    asked_s = min(retry_after_s or 0, MAX_RETRY_AFTER_S)
    wait_s = policy.wait_s(failed_tries, retry_after_s, fraction)
    assert bound_s / 2 <= wait_s - asked_s + 1e-9
    assert wait_s <= bound_s + asked_s + 1e-9


class SlowJudge:
    """A judge that counts how many comparisons it has before it at a time."""

    def __init__(self) -> None:
        self.at_once = self.most_at_once = 0

    async def compare(self, exhibit: Exhibit) -> Outcome:
        """Take a moment."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.001)
        self.at_once -= 1
        return Outcome(Verdict(3, 3, 3.5))


def test_comparisons_are_made_only_when_they_are_asked() -> None:
    """No more comparisons are taken from the iterator than are in flight, so memory does not grow with them."""
    judge, taken, done = SlowJudge(), 0, 0
    furthest_ahead = 0

    def iter_askings() -> Iterator[tuple[int, Exhibit]]:
        nonlocal taken, furthest_ahead
        for number in range(200):
            taken += 1
            furthest_ahead = max(furthest_ahead, taken - done)
            yield number, exhibit()

    def on_outcome(ticket: int, outcome: Outcome) -> None:
        nonlocal done
        done += 1

    asyncio.run(judge_all(iter_askings(), judge, 7, on_outcome))
    assert (taken, done) == (200, 200)
    assert judge.most_at_once == furthest_ahead == 7


@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_every_asking_gets_one_outcome(count: int) -> None:
    """Fewer comparisons than the concurrency, or none, are no special case."""
    seen: list[int] = []
    askings = ((number, exhibit()) for number in range(count))
    asyncio.run(judge_all(askings, EmbeddedJudge(), 16, lambda ticket, outcome: seen.append(ticket)))
    assert sorted(seen) == list(range(count))


def test_an_error_of_ours_stops_all_workers(judge_server: JudgeServer) -> None:
    """When an outcome cannot be kept, that error comes out alone, and no call is left open."""
    judge_server.behave(latency_s=0.02)

    def on_outcome(ticket: int, outcome: Outcome) -> None:
        raise StorageError("the disk is full")

    async def run() -> None:
        async with JudgeClient(Endpoint(judge_server.base_url, None, 2, 10, 4)) as client:
            profile, policy = PROFILES["nemotron"], RetryPolicy(0)
            judge = RemoteJudge(client, profile, model="m", sampling={}, policy=policy, reask=0)
            askings = ((number, exhibit(str(number))) for number in range(100))
            await judge_all(askings, judge, 4, on_outcome)

    with pytest.raises(StorageError, match="the disk is full"):
        asyncio.run(run())
    stats = judge_server.wait_until(lambda stats: stats["in_flight"] == 0)
    assert stats["requests"] <= 8


def test_sampling_of_the_user_replaces_the_profiles(judge_server: JudgeServer) -> None:
    """Fields that are given go before the profile's; the others stay."""

    async def compare() -> None:
        async with JudgeClient(Endpoint(judge_server.base_url, None, 2, 10, 4)) as client:
            profile, policy = PROFILES["nemotron"], RetryPolicy(0)
            sampling = {"temperature": 0.0}
            judge = RemoteJudge(client, profile, model="m", sampling=sampling, policy=policy, reask=0)
            await judge.compare(exhibit())

    asyncio.run(compare())
    (request,) = judge_server.stats()["recent"]
    body = request["body"]
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.0, 0.95, 16384)
    assert set(body) == {"model", "messages", "temperature", "top_p", "max_tokens"}
