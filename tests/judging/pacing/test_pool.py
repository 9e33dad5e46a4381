"""Which endpoint the next call goes to, and when."""

import asyncio
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import run_in_virtual_time

from genrm_cli.errors import JudgeError
from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.pacing.endpoint import WINDOW, Ending, Endpoint, loop_time_s
from genrm_cli.judging.pacing.judge_events import (
    EndpointDownEvent,
    EndpointUpEvent,
    PausedEvent,
    StoppedEvent,
)
from genrm_cli.judging.pacing.limit import Limit
from genrm_cli.judging.pacing.pool import EndpointPool, Slot
from genrm_cli.metrics.event import ignore_event
from genrm_cli.verdicts import StoppedBy

Events = list[tuple[str, dict[str, Any]]]
CLIENT = JudgeClient("http://127.0.0.1:9/v1", None, 1, 1)  # never called here


def endpoint(name, limit, last_trial_s=0.08):
    """Make an endpoint that takes so many calls at a time."""
    return Endpoint(name, CLIENT, Limit(limit), first_trial_s=0.02, last_trial_s=last_trial_s)


def make_pool(*limits, give_up_after_s=60.0, events=None):
    """Make a pool of endpoints a, b, c, ... with these limits."""
    seen = [] if events is None else events
    endpoints = [endpoint(name, limit) for name, limit in zip("abcdef", limits, strict=False)]
    return EndpointPool(endpoints, give_up_after_s, seen.append)


def run(scenario):
    """Run a scenario in virtual time; one that waits for ever fails."""
    run_in_virtual_time(asyncio.wait_for(scenario, 1_000))


async def take(pool, *, retry=False, lane=None):
    """Take a slot, which must be there sooner or later."""
    slot = await pool.acquire(retry=retry, lane=lane)
    assert slot is not None
    return slot


def take_later(pool, **how):
    """Wait for a slot in the background."""
    return asyncio.create_task(take(pool, **how))


async def turn():
    """Let everybody who can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def break_down(pool, calls=11):
    """Let so many calls in a row find the endpoint broken; the eleventh is the trial that confirms
    it.
    """
    for _ in range(calls):
        pool.release(await take(pool), Ending.BROKEN, "connection refused")


async def test_the_least_loaded_endpoint_is_next():
    """Load is the share of an endpoint's own limit: with limits 2 and 6 a quarter of the calls goes
    to the first.
    """
    pool = make_pool(2, 6)
    slots = [await take(pool) for _ in range(4)]
    assert [slot.endpoint.in_flight for slot in (slots[0], slots[1])] == [1, 3]
    for _ in range(4):
        await take(pool)
    assert [each.in_flight for each in pool.endpoints] == [2, 6]
    assert pool.in_flight == 8
    assert pool.limit == 8


async def test_a_slot_that_comes_back_goes_to_whoever_waits():
    """Those who wait get slots in the order in which they came, one for each that is given back."""
    pool = make_pool(1)
    held = await take(pool)
    order = []

    async def wait(number):
        slot = await take(pool)
        order.append(number)
        pool.release(slot, Ending.ANSWERED)

    waiting = [asyncio.create_task(wait(number)) for number in range(5)]
    await turn()
    assert order == []
    pool.release(held, Ending.ANSWERED)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2, 3, 4]
    assert pool.in_flight == 0


async def test_retries_go_before_newcomers():
    """A comparison that has begun is finished before a new one is begun, even if the new one waited
    longer.
    """
    pool = make_pool(1)
    held = await take(pool)
    newcomer = take_later(pool)
    await turn()
    retry = take_later(pool, retry=True)
    await turn()
    pool.release(held, Ending.ANSWERED)
    await turn()
    assert retry.done()
    assert not newcomer.done()
    pool.release(retry.result(), Ending.ANSWERED)
    await newcomer


async def test_an_endpoint_is_suspected_when_its_calls_fail():
    """Ten faults in a row, more than half of the last 50, or 50 times busy or silent; never a
    request's own fault.
    """
    cases = [
        ([Ending.BROKEN] * 10, True),
        ([Ending.OVERLOADED] * 10, True),
        ([Ending.BROKEN] * 9, False),
        (([Ending.BROKEN] * 9 + [Ending.ANSWERED]) * 3, True),  # 26 of the last 50
        ([Ending.ANSWERED, Ending.BROKEN] * 50, False),
        ([Ending.BUSY] * WINDOW, True),
        (([Ending.BUSY] * 49 + [Ending.ANSWERED]) * 3, False),
        ([Ending.BUSY, Ending.TIMED_OUT] * 25, True),
        (([Ending.TIMED_OUT] * 49 + [Ending.ANSWERED]) * 3, False),
        ([Ending.REFUSED] * 100, False),
    ]
    for endings, is_suspected in cases:
        events = []
        pool = make_pool(1, events=events)
        for ending in [*endings, endings[-1]]:
            slot = await take(pool)
            pool.release(slot, ending, "why")
            if slot.on_trial:
                break
        assert slot.on_trial == is_suspected
        assert pool.endpoints[0].down == is_suspected
        assert any(isinstance(event, EndpointDownEvent) for event in events) == is_suspected


async def test_a_dead_endpoint_is_tried_with_one_call_at_a_time():
    """Of all who wait one is let through as a trial; it is taken back, and all go on, when that one
    is answered.
    """
    events = []
    pool = make_pool(8, events=events)
    await break_down(pool)
    waiting = [take_later(pool) for _ in range(4)]
    for _ in range(2):  # failing trials
        await asyncio.sleep(0.1)
        (let_through,) = [task for task in waiting if task.done()]
        assert let_through.result().on_trial
        assert pool.in_flight == 1
        pool.release(let_through.result(), Ending.BROKEN, "still down")
        waiting.remove(let_through)
    await asyncio.sleep(0.1)
    (let_through,) = [task for task in waiting if task.done()]
    pool.release(let_through.result(), Ending.ANSWERED)
    await asyncio.gather(*waiting)
    assert not pool.endpoints[0].down
    assert [type(event) for event in events] == [EndpointDownEvent, PausedEvent, EndpointUpEvent]


async def test_a_failed_trial_proves_nothing():
    """A trial that is refused, cut off or not answered in time leaves the endpoint out."""
    for ending in (Ending.BROKEN, Ending.OVERLOADED, Ending.BUSY, Ending.TIMED_OUT):
        pool = make_pool(2)
        await break_down(pool)
        pool.release(await take(pool), ending)
        assert pool.endpoints[0].down
        slot = await take(pool)
        assert slot.on_trial
        pool.release(slot, Ending.REFUSED)  # it has answered, if only to say no
        assert not pool.endpoints[0].down


async def test_a_judge_that_stays_down_is_given_up():
    """All who wait, and all who come later, get the error that names endpoints, cause and
    remedy.
    """
    pool = make_pool(1, 1, give_up_after_s=0.05)
    await break_down(pool, 20)

    async def insist(retry):
        while True:
            pool.release(await take(pool, retry=retry), Ending.BROKEN, "connection refused")

    waiting = [asyncio.create_task(insist(retry=bool(number % 2))) for number in range(4)]
    pausing = asyncio.create_task(pool.pause(100, holds_back=True))
    results = await asyncio.gather(*waiting, return_exceptions=True)
    for result in results:
        assert isinstance(result, JudgeError)
        for words in ("a, b", "connection refused", "give_up_after", "journal"):
            assert words in str(result)
    with pytest.raises(JudgeError):
        await pool.acquire()
    await pausing  # nobody sleeps on


async def test_one_clock_ends_all_waits_of_a_server_and_a_later_request_is_a_trial():
    """Requests that wait for a slot, for their turn and before a retry end together, after
    `give_up_after` once.

    The next request, however long after, tries the judge at once.
    """
    endpoints = [endpoint("a", 1, last_trial_s=1_000)]
    pool = EndpointPool(endpoints, 0.5, ignore_event, resumes=True)
    await break_down(pool)
    turns = asyncio.Semaphore(1)
    began_s = loop_time_s()

    async def insist(*, pauses):
        since_s = loop_time_s()
        while True:
            if pauses:
                await pool.pause(100, holds_back=False)
            async with turns:
                slot = await pool.acquire(retry=pauses, since_s=since_s)
            assert slot is not None
            pool.release(slot, Ending.BROKEN, "connection refused")

    waiting = [asyncio.create_task(insist(pauses=number % 2 > 0)) for number in range(8)]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, JudgeError) for result in results)
    assert loop_time_s() - began_s < 0.6
    for _ in range(12):  # many trials later, the next one is far away
        endpoints[0].end(Ending.BROKEN, loop_time_s(), 0, on_trial=endpoints[0].begin(math.inf))
    await asyncio.sleep(100)
    comes_s = loop_time_s()
    assert (await pool.acquire(since_s=comes_s)).on_trial
    assert loop_time_s() - comes_s < 0.05


async def test_a_stop_wakes_all_who_wait():
    """After a stop, no slot is given out; all waits and pauses end; the first reason counts."""
    events = []
    pool = make_pool(1, events=events)
    held = await take(pool)
    waiting = [asyncio.create_task(pool.acquire(retry=bool(number % 2))) for number in range(4)]
    pausing = asyncio.create_task(pool.pause(100, holds_back=True))
    await turn()
    pool.stop("deadline")
    pool.stop("max_calls")
    assert await asyncio.gather(*waiting) == [None] * 4
    await pausing
    pool.release(held, Ending.ANSWERED)
    assert await pool.acquire() is None
    assert pool.stopped_by == "deadline"
    assert events == [StoppedEvent(StoppedBy.DEADLINE)]


@given(seed=st.integers(0, 2**32), limits=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_no_slot_is_lost_or_made_up(seed, limits):
    """With tasks that come, wait, end in every way and are cancelled at any time, all slots are
    there at the end.
    """
    dice = random.Random(seed)

    async def visit(pool):
        slot = await pool.acquire(retry=dice.random() < 0.3)
        if slot is None:
            return
        try:
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            pool.release_unused(slot)
            raise
        for each in pool.endpoints:
            assert each.in_flight <= max(each.limit.limit, 1)
        ending = dice.choice([Ending.ANSWERED, Ending.ANSWERED, Ending.REFUSED, Ending.TIMED_OUT])
        pool.release(slot, ending)

    async def scenario():
        pool = make_pool(*limits)
        tasks = []
        for _ in range(60):
            tasks.append(asyncio.create_task(visit(pool)))
            if dice.random() < 0.3:
                dice.choice(tasks).cancel()
            if dice.random() < 0.5:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        failed = [task.exception() for task in tasks if not task.cancelled() and task.exception()]
        assert failed == []
        assert pool.in_flight == 0
        assert all([(await take(pool)).endpoint.in_flight > 0 for _ in range(pool.limit)])

    run(scenario())


async def test_an_exhausted_endpoint_rests_for_its_retry_after():
    """If 5 calls in a row are refused and none is in flight, no call is made before the endpoint's
    Retry-After.
    """
    pool = make_pool(4, 4)
    for _ in range(5):
        slot = Slot(pool.endpoints[0], 0.0, pool.endpoints[0].begin(0.0))
        pool.release(slot, Ending.BUSY, "HTTP 429", retry_after_s=30.0)
    assert {(await take(pool)).endpoint.name for _ in range(4)} == {"b"}
    waiting = take_later(pool)
    await asyncio.sleep(29)
    assert not waiting.done()
    await asyncio.sleep(1.1)
    assert waiting.result().endpoint.name == "a"


async def test_comparisons_that_pause_do_not_pile_up():
    """While many wait for a further try no new one begins, so memory does not grow under a storm of
    refusals.
    """
    pool = make_pool(4)
    pausing = [asyncio.create_task(pool.pause(60.0, holds_back=True)) for _ in range(64)]
    await turn()
    newcomer = asyncio.create_task(pool.acquire())
    await turn()
    assert not newcomer.done()
    retried = await take(pool, retry=True)
    pool.release(retried, Ending.ANSWERED)
    pausing[0].cancel()
    await turn()
    assert newcomer.done()
    pool.stop("deadline")
    await asyncio.gather(*pausing, return_exceptions=True)


async def test_a_lane_keeps_to_its_endpoint_while_it_has_room():
    """Whatever the load: a group's comparisons follow each other to one server."""
    pool = make_pool(4, 4)
    names = [(await take(pool, lane=lane)).endpoint.name for lane in (1, 1, 1, 0, 1)]
    assert names == ["b", "b", "b", "a", "b"]


async def test_a_free_slot_goes_to_the_first_call_that_prefers_its_endpoint():
    """Without such a call it goes to the head of the line, so no slot stays idle."""
    pool = make_pool(1, 1)
    held_a, held_b = await take(pool, lane=0), await take(pool, lane=1)
    waiting = [take_later(pool, lane=lane) for lane in (0, 1, 0)]
    await turn()
    pool.release(held_b, Ending.ANSWERED)
    await turn()
    assert [task.done() for task in waiting] == [False, True, False]
    pool.release(await waiting[1], Ending.ANSWERED)
    assert (await waiting[0]).endpoint.name == "b"
    pool.release(held_a, Ending.ANSWERED)
    assert (await waiting[2]).endpoint.name == "a"


async def test_what_waits_for_an_endpoint_that_goes_down_is_answered_elsewhere():
    """A lane whose endpoint is down has none of its own, and does not wait for it."""
    pool = make_pool(12, 1)
    other = await take(pool, lane=1)
    for _ in range(10):
        pool.release(await take(pool, lane=0), Ending.BROKEN, "connection refused")
    trial = await take(pool, lane=0)
    assert trial.on_trial
    for _ in range(11):
        await take(pool, lane=0)
    blocked = asyncio.create_task(pool.acquire(lane=0))
    await turn()
    pool.release(trial, Ending.BROKEN, "connection refused")
    assert pool.endpoints[0].down
    pool.release(other, Ending.ANSWERED)
    assert (await blocked).endpoint.name == "b"


async def test_a_second_turn_goes_to_the_server_of_the_first():
    """That server has read the whole conversation; when it is full, another one answers."""
    pool = make_pool(2, 2)
    first = await take(pool, lane=1)
    second, third = [await pool.acquire_second_turn(first.endpoint) for _ in range(2)]
    assert second.endpoint is first.endpoint
    assert third.endpoint is not first.endpoint
