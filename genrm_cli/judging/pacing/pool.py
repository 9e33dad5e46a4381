"""Choose the endpoint and the time of the next call, and end the run when a limit is reached.

Calls wait in three lines: second turns, then retries, then new comparisons, because a comparison
in progress is finished before another begins. Each time a slot becomes free, the first line that
has a call waiting gets it.

A waiting call may prefer an endpoint: that of its group, or that of its first turn. A server's
prefix cache serves prompts with the same beginning, so a free slot goes to the first call of the
line that prefers its endpoint. If there is none, the call at the head of the line takes the
endpoint with the least load, and no slot stays idle.

`_failing_since_s` is the start of the first call that failed after the last answer. When it is
`give_up_after_s` ago and no endpoint can be expected to answer, all waiting calls fail. A run ends
with them. A server goes on (`resumes`), and its next request is a trial call.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from genrm_cli.errors import JudgeError, Message, SettingRef
from genrm_cli.judging.pacing.endpoint import Ending, Endpoint, loop_time_s
from genrm_cli.judging.pacing.judge_events import (
    EndpointDownEvent,
    EndpointUpEvent,
    PausedEvent,
    StoppedEvent,
)
from genrm_cli.judging.pacing.remedies import SPENT, WRONG_PLACE, remedy_for_key
from genrm_cli.metrics.event import OnEvent
from genrm_cli.verdicts import StoppedBy

# After the deadline, for calls in flight: long enough for most replies that were paid for, and
# short enough for a job scheduler's grace period.
GRACE_S = 60.0
# Comparisons that wait for a retry, above which no new one begins. Each holds its texts, so
# without a bound a storm of refusals would fill the memory.
_LEAST_PAUSING = 64
_MARGIN_S = 0.001  # timers may fire a little early; without it, a call would wait for the next one


class Slot(NamedTuple):
    """Permission to make one call at an endpoint; `EndpointPool.release` returns it."""

    endpoint: Endpoint
    begun_s: float
    on_trial: bool


class _Waiter(NamedTuple):
    """A call that waits for a slot, and the endpoint that it prefers."""

    slot: "asyncio.Future[Slot | None]"
    preferred: Endpoint | None

    def fits(self, now_s: float) -> bool:
        """Whether its preference can be met now, or no longer counts."""
        preferred = self.preferred
        return preferred is None or preferred.down or preferred.is_free(now_s)


_Line = deque[_Waiter]


class EndpointPool:
    """Hand out slots on the preferred endpoint, or else on the endpoint with the least load.

    Attributes:
        on_event: receives the events of endpoints and judges.
        stopped_by: why no more calls are made; None while the run continues.
        last_call_ends_s: when calls in flight are cut off, by the loop's clock.
    """

    def __init__(
        self,
        endpoints: list[Endpoint],
        give_up_after_s: float,
        on_event: OnEvent,
        *,
        resumes: bool = False,
        setting_names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Begin without a call.

        If no endpoint answers for `give_up_after_s`, the requests that wait are given up. Later
        requests may wait again with `resumes`, as in a server; otherwise the run is given up with
        them. They are given up at once if no wait can help. Messages name settings by
        `setting_names`, where a role has others."""
        self._resumes = resumes
        self._setting_names = setting_names
        # Of several judges, each with its model, one may be refused while others are answered.
        self.serves_several = False
        self.endpoints = endpoints
        self.stopped_by: StoppedBy | None = None
        self.last_call_ends_s = math.inf
        self._give_up_after_s = give_up_after_s
        self.on_event = on_event
        self._second_turns: _Line = deque()
        self._retries: _Line = deque()
        self._newcomers: _Line = deque()
        self._lines = (self._second_turns, self._retries, self._newcomers)
        self._given_up: JudgeError | None = None
        self._silent: Message | None = (
            None  # with `resumes`: why requests from before `_silent_at_s` are given up
        )
        self._silent_at_s = -math.inf
        self._failing_since_s: float | None = (
            None  # start of the first call that failed after the last answer
        )
        self._watching: asyncio.TimerHandle | None = None
        self._last_ending = Ending.ANSWERED
        self._last_detail = ""
        self._over = asyncio.Event()
        self._pausing = 0

    @property
    def in_flight(self) -> int:
        """Calls in flight at all endpoints."""
        return sum(endpoint.in_flight for endpoint in self.endpoints)

    @property
    def is_up(self) -> bool:
        """Whether any endpoint is up."""
        return any(not endpoint.down for endpoint in self.endpoints)

    @property
    def limit(self) -> int:
        """Calls that may be in flight at the endpoints that are up."""
        return sum(endpoint.limit.limit for endpoint in self.endpoints if not endpoint.down)

    async def acquire(
        self, *, retry: bool = False, lane: int | None = None, since_s: float = math.inf
    ) -> Slot | None:
        """Wait for a slot for a retry, or for a new comparison of a lane; None if the run was
        stopped.

        All requests that waited when the judge was given up end then, also those that wait
        elsewhere, for their turn or before a retry: `since_s` says since when.

        Raises:
            JudgeError: no endpoint has answered for too long.
        """
        if self.stopped_by is not None and self._given_up is None:
            return None
        if self._silent is not None and since_s <= self._silent_at_s:
            raise JudgeError(self._silent)
        if retry:
            return await self._acquire(self._retries)
        preferred = None
        if lane is not None and len(self.endpoints) > 1:
            preferred = self.endpoints[lane % len(self.endpoints)]
        return await self._acquire(self._newcomers, preferred)

    async def acquire_second_turn(self, first: Endpoint | None = None) -> Slot | None:
        """Wait for the slot of a second turn; None after the deadline, but not after a budget is
        used up.

        The endpoint that answered the `first` turn is preferred. Raises as `acquire`.
        """
        if self.stopped_by == StoppedBy.DEADLINE and self._given_up is None:
            return None
        return await self._acquire(self._second_turns, first)

    async def _acquire(self, line: _Line, preferred: Endpoint | None = None) -> Slot | None:
        if self._given_up is not None:
            raise self._given_up
        if self._resumes and (self._silent is not None or not self.is_up):
            self._try_soon()
        waiter = _Waiter(asyncio.get_running_loop().create_future(), preferred)
        line.append(waiter)
        self._wake()
        try:
            return await waiter.slot
        except asyncio.CancelledError:
            future = waiter.slot
            is_answered = future.done() and not future.cancelled() and future.exception() is None
            if is_answered and (slot := future.result()) is not None:
                self.release_unused(slot)
            raise

    def _try_soon(self) -> None:
        """Try the endpoints, none of which answers, for a request of a server: it waits
        `give_up_after_s` at most.
        """
        now_s = loop_time_s()
        is_first = self._failing_since_s is None
        if is_first:
            self._failing_since_s = now_s
            self._watch()
        for endpoint in self.endpoints:
            waits_s = endpoint.free_in_s(now_s)
            endpoint.try_soon(ends_rest=is_first)
            if 0 < (sooner_s := endpoint.free_in_s(now_s)) < waits_s:
                asyncio.get_running_loop().call_later(sooner_s + _MARGIN_S, self._wake)

    def release(
        self, slot: Slot, ending: Ending, detail: str = "", retry_after_s: float | None = None
    ) -> None:
        """Return a slot and let its endpoint learn from the outcome of the call."""
        now_s = loop_time_s()
        endpoint = slot.endpoint
        latency_s = now_s - slot.begun_s
        changed = endpoint.end(
            ending, now_s, latency_s, on_trial=slot.on_trial, retry_after_s=retry_after_s
        )
        self._note_ending(slot, ending, detail)
        if changed:
            event = EndpointDownEvent if endpoint.down else EndpointUpEvent
            self.on_event(event(endpoint.name, detail))
            if all(each.down for each in self.endpoints) and not self._is_hopeless:
                self.on_event(PausedEvent(self._last_detail, self._give_up_after_s))
        if (free_in_s := endpoint.free_in_s(now_s)) > 0:
            asyncio.get_running_loop().call_later(free_in_s + _MARGIN_S, self._wake)
        self._give_up_if_silent()
        self._wake()

    def release_unused(self, slot: Slot) -> None:
        """Return a slot that was not used."""
        slot.endpoint.cancel(on_trial=slot.on_trial)
        self._wake()

    async def pause(self, wait_s: float, *, holds_back: bool) -> None:
        """Wait before a retry, at most until the end of the run.

        With `holds_back`, it delays new comparisons. Waits for a busy endpoint do, as they would
        otherwise pile up without limit; waits of requests that break a working server do not."""
        self._pausing += holds_back
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._over.wait()
        finally:
            self._pausing -= holds_back
            self._wake()

    def stop(self, reason: StoppedBy) -> None:
        """Start no more calls; those in flight finish."""
        if self.stopped_by is None:
            self.stopped_by = reason
            self._over.set()
            self.on_event(StoppedEvent(reason))
            for line in self._lines:
                if line is not self._second_turns or reason == StoppedBy.DEADLINE:
                    _end(line, lambda waiting: waiting.set_result(None))

    def give_up(self, message: Message) -> None:
        """End the run with an error; a server goes on, and so do other judges of the endpoints."""
        if not (self._resumes or self.serves_several or self._given_up is not None):
            error = self._given_up = JudgeError(message)
            self._over.set()
            for line in self._lines:
                _end(line, lambda waiting: waiting.set_exception(error))

    def _has_room(self) -> bool:
        """Whether a new comparison may begin. Waiting ones hold no slot."""
        return self._pausing < _LEAST_PAUSING or self._pausing < 2 * self.limit

    def _wake(self) -> None:
        """Hand free slots to the calls that wait."""
        now_s = loop_time_s()
        for line in self._lines:
            while line:
                waiter = line[0]
                if not waiter.fits(now_s):
                    waiter = next((each for each in line if each.fits(now_s)), waiter)
                if not waiter.slot.done():
                    begins = line is not self._newcomers or self._has_room()
                    slot = self._take(waiter.preferred, now_s) if begins else None
                    if slot is None:
                        return
                    waiter.slot.set_result(slot)
                line.remove(waiter)

    def _take(self, preferred: Endpoint | None, now_s: float) -> Slot | None:
        """Take a slot of an endpoint whose trial is due, of the preferred one, or of the one with
        the least load.
        """
        chosen = next((each for each in self.endpoints if each.is_due(now_s)), None)
        if chosen is None and preferred is not None and preferred.is_free(now_s):
            chosen = preferred
        if chosen is None:
            free = (each for each in self.endpoints if each.is_free(now_s))
            chosen = min(free, key=Endpoint.rank, default=None)
        return None if chosen is None else Slot(chosen, now_s, chosen.begin(now_s))

    def _note_ending(self, slot: Slot, ending: Ending, detail: str) -> None:
        """Start the clock of giving up at the first failure after an answer; stop it at an
        answer.
        """
        self._last_ending = ending
        if ending.shows_it_works:
            self._failing_since_s = self._silent = None
            return
        self._last_detail = detail
        if self._failing_since_s is None:
            self._failing_since_s = slot.begun_s
            self._watch()

    def _watch(self) -> None:
        """Check again once the judge may have been silent for too long."""
        if self._watching is None and self._failing_since_s is not None and self._given_up is None:
            at_s = self._failing_since_s + self._give_up_after_s
            if at_s > loop_time_s():  # otherwise every failing call checks
                self._watching = asyncio.get_running_loop().call_at(at_s, self._look)

    def _look(self) -> None:
        self._watching = None
        self._give_up_if_silent()
        self._watch()

    def _give_up_if_silent(self) -> None:
        """Give up if there was no answer for too long, and no endpoint can be expected to
        answer.
        """
        if self._given_up is not None or self._failing_since_s is None:
            return
        if self._is_hopeless:
            self._give_up()
            return
        # A 429 is never the fault of one request, and a call in flight may still be answered.
        only_busy = self._last_ending is Ending.BUSY and self.in_flight == 0
        silent_s = loop_time_s() - self._failing_since_s
        if silent_s < self._give_up_after_s:
            return
        if only_busy or all(endpoint.down for endpoint in self.endpoints):
            self._give_up()
        elif (
            self._last_ending is not Ending.BUSY
        ):  # few calls in flight: the streak that shows it would take hours
            for endpoint in self.endpoints:
                endpoint.suspect()

    @property
    def _is_hopeless(self) -> bool:
        """Whether no endpoint would answer, however long the run waits."""
        if self.serves_several:
            return False
        return all(endpoint.is_hopeless for endpoint in self.endpoints)

    def _give_up(self) -> None:
        names = ", ".join(endpoint.name for endpoint in self.endpoints)
        again = " Try again once it is back: answers in a journal are reused."
        if self._is_hopeless:
            again = " Answers in a journal are reused."
            remedy = WRONG_PLACE
            if self._last_ending is Ending.DENIED:
                remedy = remedy_for_key(was_sent=self.endpoints[0].client.sends_key)
            elif self._last_ending is Ending.SPENT:
                remedy = SPENT
            shown = remedy.with_names(self._setting_names)
            silent = Message.of(f"{names} cannot be used: {self._last_detail}. ", shown)
        else:
            silent = Message.of(
                f"no answer for {self._give_up_after_s:g} s (",
                SettingRef("give_up_after"),
                f") from {names}: {self._last_detail}.",
            )
        if self._resumes:
            error = JudgeError(silent)
            self._silent = silent
            self._silent_at_s = loop_time_s()
            self._failing_since_s = None  # until the next request comes
            self._over.set()  # ends all pauses
            self._over.clear()
        else:
            error = self._given_up = JudgeError(silent, again)
            self._over.set()
        for line in self._lines:
            _end(line, lambda waiting: waiting.set_exception(error))


def _end(line: _Line, answer: Callable[["asyncio.Future[Slot | None]"], None]) -> None:
    """Answer all calls that wait in a line, and empty it."""
    for waiter in line:
        if not waiter.slot.done():  # its caller left
            answer(waiter.slot)
    line.clear()
