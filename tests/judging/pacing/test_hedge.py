"""Asking a straggler a second time: when, and which answer counts."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from virtual_time import run_in_virtual_time

from genrm_cli.judging.client import CallError
from genrm_cli.judging.pacing.hedge import Hedge
from genrm_cli.judging.requests import Reply
from genrm_cli.metrics.latency import Latencies
from genrm_cli.verdicts import Failure, FailureKind


class Race:
    """Calls that take their time, end as told, and are counted."""

    def __init__(self, usual_s: float = 0.01, known: int = 100) -> None:
        latencies = Latencies()
        for _ in range(known):
            latencies.add(usual_s)
        self.hedge = Hedge(latencies, least_s=0.2)
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def call(self, name: str, takes_s: float, fails: bool = False) -> Reply:
        """Answer, or fail, after a while."""
        self.begun.append(name)
        try:
            await asyncio.sleep(takes_s)
            if fails:
                raise CallError(Failure(FailureKind.CONNECTION, name), may_pass=True)
            return Reply(name)
        finally:
            self.ended.append(name)

    async def run(self, first: Coroutine[Any, Any, Reply], *seconds: Coroutine[Any, Any, Reply] | None) -> str:
        """Ask; each time that a second call is wanted, offer the next of these."""
        offers = iter(seconds)
        return (await self.hedge.first_reply(first, lambda: next(offers, None))).text


def test_the_usual_call_is_asked_once() -> None:
    """A call that is answered in the usual time has no rival."""
    race = Race()
    assert run_in_virtual_time(race.run(race.call("first", 0.1))) == "first"
    assert race.begun == ["first"]


def test_the_answer_that_comes_first_counts() -> None:
    """A straggler is sent a second time; the first answer counts, and nobody waits for the other."""
    race = Race()

    async def scenario() -> None:
        began_s = asyncio.get_running_loop().time()
        assert await race.run(race.call("first", 0.6), race.call("second", 0.05)) == "second"
        assert asyncio.get_running_loop().time() - began_s < 0.55
        assert race.ended == ["second"]  # the straggler goes on, and keeps its slot
        await asyncio.sleep(0.5)
        assert race.ended == ["second", "first"]

    run_in_virtual_time(scenario())


def test_the_straggler_may_win_after_all() -> None:
    """If the first call is answered before the second one, its answer counts."""
    race = Race()
    assert run_in_virtual_time(race.run(race.call("first", 0.4), race.call("second", 5.0))) == "first"
    assert race.begun == ["first", "second"]


def test_a_second_call_that_fails_does_not_hurt() -> None:
    """Only when both fail is there an error: the last one."""
    race = Race()
    assert run_in_virtual_time(race.run(race.call("first", 0.5), race.call("second", 0.05, fails=True))) == "first"
    both = Race()
    with pytest.raises(CallError, match="second"):
        run_in_virtual_time(both.run(both.call("first", 0.3, fails=True), both.call("second", 0.3, fails=True)))


def test_a_call_that_fails_in_the_usual_time_is_not_hedged() -> None:
    """A fault is the business of retries."""
    race = Race()
    with pytest.raises(CallError, match="first"):
        run_in_virtual_time(race.run(race.call("first", 0.05, fails=True)))


def test_without_a_free_slot_a_straggler_waits_for_one() -> None:
    """Room is looked for again and again, and used once."""
    race = Race()
    assert run_in_virtual_time(race.run(race.call("first", 10), None, race.call("second", 0.05))) == "second"


@pytest.mark.parametrize(("usual_s", "known"), [(0.01, 99), (5.0, 100)])
def test_what_is_not_unusual_is_no_straggler(usual_s: float, known: int) -> None:
    """Before a hundred answers are known, or within twice the 99th percentile, no call is asked a second time."""
    race = Race(usual_s, known)
    asked = 0

    def ask_again() -> None:
        nonlocal asked
        asked += 1

    reply = run_in_virtual_time(race.hedge.first_reply(race.call("first", 0.5), ask_again))
    assert (reply.text, asked) == ("first", 0)


def test_whoever_stops_waiting_stops_both_calls() -> None:
    """When a comparison is cancelled, its calls are, and nothing is left for asyncio to complain about."""
    race = Race()

    async def scenario() -> None:
        task = asyncio.create_task(race.run(race.call("first", 10), race.call("second", 10)))
        await asyncio.sleep(0.35)
        assert race.begun == ["first", "second"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert sorted(race.ended) == ["first", "second"]

    run_in_virtual_time(scenario())
