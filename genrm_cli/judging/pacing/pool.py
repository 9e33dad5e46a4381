"""Which endpoint the next call goes to, and when: limits, dead endpoints, the end of a run.

An endpoint that fails for its own reasons (connection, 5xx, auth: more than half of its last 50 calls, or 10 in a
row; or 50 refusals as busy and timeouts in a row) is taken out, tried again with one call at a time, and taken back
when that is answered. When all of them have been out for too long, the run is given up.
"""

import asyncio
import contextlib

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from genrm_cli.errors import JudgeError
from genrm_cli.judging.client import JudgeClient
from genrm_cli.judging.pacing import clock

WINDOW = 50  # calls that an endpoint is judged by
_LEAST_PAUSING = 64  # comparisons that may wait for a further try before no new one begins
_BROKEN_IN_A_ROW = 10

OnEvent = Callable[[str, dict[str, Any]], None]


class Ending(Enum):
    """How a call ended, as far as its endpoint is concerned."""

    ANSWERED = auto()
    BUSY = auto()  # 429
    OVERLOADED = auto()  # 503: busy and broken at once
    TIMED_OUT = auto()
    BROKEN = auto()  # connection, other 5xx, auth, unknown model
    REFUSED = auto()  # this request only; the endpoint works


_WORKING = (Ending.ANSWERED, Ending.REFUSED)


class Limit(Protocol):
    """How many calls may be in flight, and what it learns from them."""

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""

    def on_answer(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn from an answer."""

    def on_refusal(self, now_s: float, in_flight: int) -> None:
        """Learn from a 429 or 503."""

    def on_timeout(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn from a timeout."""


class FixedLimit:
    """A limit that the user has set; it learns nothing."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def on_answer(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn nothing."""

    def on_refusal(self, now_s: float, in_flight: int) -> None:
        """Learn nothing."""

    def on_timeout(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Learn nothing."""


@dataclass(slots=True)
class Endpoint:
    """One endpoint and how it is doing.

    Attributes:
        first_trial_s: wait before a dead endpoint is tried; doubles with each trial that fails.
        last_trial_s: the longest of these waits.
    """

    name: str
    client: JudgeClient
    limit: Limit
    first_trial_s: float = 1.0
    last_trial_s: float = 30.0
    in_flight: int = 0
    down: bool = False
    _in_trouble: bool = False
    _recent: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _broken_in_a_row: int = 0
    _put_off_in_a_row: int = 0
    _trial_wait_s: float = 0.0
    _trial_at_s: float = 0.0
    _on_trial: bool = False

    def is_free(self) -> bool:
        """Whether one more call may go there."""
        return not self.down and self.in_flight < self.limit.limit

    def is_due(self, now_s: float) -> bool:
        """Whether a dead endpoint may be tried with one call."""
        return self.down and not self._on_trial and now_s >= self._trial_at_s

    def rank(self) -> tuple[bool, float]:
        """Return what endpoints are ordered by: trouble, then the share of the limit that is in use.

        An endpoint that fails at once is never loaded: by load alone it would draw all retries to itself.
        """
        return self._in_trouble, self.in_flight / self.limit.limit

    def begin(self) -> None:
        """Count a call that begins; at a dead endpoint it is the trial."""
        self.in_flight += 1
        self._on_trial = self.down

    def cancel(self, *, on_trial: bool) -> None:
        """Take back a call that was not made."""
        self.in_flight -= 1
        if on_trial:
            self._on_trial = False

    def end(self, ending: Ending, now_s: float, latency_s: float, *, on_trial: bool) -> bool:
        """Learn from a call that ended; say whether the endpoint went down or came back."""
        if ending in (Ending.BUSY, Ending.OVERLOADED):
            self.limit.on_refusal(now_s, self.in_flight)
        elif ending is Ending.TIMED_OUT:
            self.limit.on_timeout(now_s, latency_s, self.in_flight)
        elif ending is Ending.ANSWERED:
            self.limit.on_answer(now_s, latency_s, self.in_flight)
        self.in_flight -= 1
        self._in_trouble = ending not in _WORKING
        broken = ending in (Ending.BROKEN, Ending.OVERLOADED)
        self._recent.append(broken)
        self._broken_in_a_row = self._broken_in_a_row + 1 if broken else 0
        self._put_off_in_a_row = self._put_off_in_a_row + 1 if ending in (Ending.BUSY, Ending.TIMED_OUT) else 0
        if self.down:
            return self._end_while_down(self._in_trouble, now_s, on_trial)
        mostly_broken = self._broken_in_a_row >= _BROKEN_IN_A_ROW or sum(self._recent) > WINDOW / 2
        if mostly_broken or self._put_off_in_a_row >= WINDOW:
            self.take_out(now_s)
            return True
        return False

    def take_out(self, now_s: float) -> None:
        """Ask it no more, until a trial is answered."""
        self.down, self._on_trial = True, False
        self._trial_wait_s, self._trial_at_s = self.first_trial_s, now_s + self.first_trial_s

    def trial_in_s(self, now_s: float) -> float:
        """Return the seconds until a dead endpoint may be tried."""
        return max(0.0, self._trial_at_s - now_s)

    def _end_while_down(self, failed: bool, now_s: float, on_trial: bool) -> bool:
        """Learn from the trial, or from a call that was under way when the endpoint went down."""
        if on_trial:
            self._on_trial = False
        if not failed:
            self.down = False
            self._recent.clear()
            self._broken_in_a_row = self._put_off_in_a_row = 0
            return True
        if on_trial:
            self._trial_wait_s = min(self.last_trial_s, 2 * self._trial_wait_s)
            self._trial_at_s = now_s + self._trial_wait_s
        return False


@dataclass(frozen=True, slots=True)
class Slot:
    """Leave to make one call at an endpoint; given back with `EndpointPool.release`."""

    endpoint: Endpoint
    begun_s: float
    on_trial: bool


class EndpointPool:
    """Hands out slots: to second turns first, then to retries and new comparisons, where the load is least.

    Attributes:
        stopped_by: why no more calls are made (`deadline`, `max_calls`, ...); None while the run goes on.
    """

    def __init__(self, endpoints: list[Endpoint], give_up_after_s: float, on_event: OnEvent) -> None:
        self.endpoints = endpoints
        self.stopped_by: str | None = None
        self._give_up_after_s = give_up_after_s
        self._on_event = on_event
        self._second_turns: deque[asyncio.Future[Slot | None]] = deque()
        self._retries: deque[asyncio.Future[Slot | None]] = deque()
        self._newcomers: deque[asyncio.Future[Slot | None]] = deque()
        self._given_up: JudgeError | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._last_detail = ""
        self._over = asyncio.Event()
        self._pausing = 0

    @property
    def in_flight(self) -> int:
        """Calls in flight at all endpoints."""
        return sum(endpoint.in_flight for endpoint in self.endpoints)

    @property
    def limit(self) -> int:
        """Calls that may be in flight at the endpoints that are up."""
        return sum(endpoint.limit.limit for endpoint in self.endpoints if not endpoint.down)

    async def acquire(self, *, retry: bool = False) -> Slot | None:
        """Wait for leave to make a call; None when the run has been stopped.

        Raises:
            JudgeError: all endpoints have been down for too long.
        """
        if self.stopped_by is not None and self._given_up is None:
            return None
        first_in_line = not self._second_turns and not self._retries
        if retry:
            return await self._acquire(self._retries, first_in_line=first_in_line)
        first_in_line = first_in_line and not self._newcomers and self._has_room()
        return await self._acquire(self._newcomers, first_in_line=first_in_line)

    async def acquire_second_turn(self) -> Slot | None:
        """Wait for leave to finish what was begun; None after the deadline, but not when a budget is used up.

        Raises:
            JudgeError: as for `acquire`.
        """
        if self.stopped_by == "deadline" and self._given_up is None:
            return None
        return await self._acquire(self._second_turns, first_in_line=not self._second_turns)

    async def _acquire(self, waiting: "deque[asyncio.Future[Slot | None]]", *, first_in_line: bool) -> Slot | None:
        if self._given_up is not None:
            raise self._given_up
        if first_in_line and (endpoint := self._choose()) is not None:
            return self._take(endpoint)
        future: asyncio.Future[Slot | None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and (slot := future.result()) is not None:
                self.release_unused(slot)
            raise

    def acquire_idle(self) -> Slot | None:
        """Return a slot that nobody waits for, if there is one."""
        if self.stopped_by is not None or self._second_turns or self._retries or self._newcomers:
            return None
        free = [endpoint for endpoint in self.endpoints if endpoint.is_free()]
        return self._take(min(free, key=Endpoint.rank)) if free else None

    def release(self, slot: Slot, ending: Ending, detail: str = "") -> None:
        """Give a slot back and let the endpoint learn from how its call ended."""
        now_s = clock.now_s()
        if ending not in _WORKING:
            self._last_detail = detail
        endpoint = slot.endpoint
        if endpoint.end(ending, now_s, now_s - slot.begun_s, on_trial=slot.on_trial):
            state = "endpoint_down" if endpoint.down else "endpoint_up"
            self._on_event(state, {"endpoint": endpoint.name, "detail": detail})
            self._watch_for_giving_up()
        if endpoint.down:
            asyncio.get_running_loop().call_later(endpoint.trial_in_s(now_s) + 0.001, self._wake)
        self._wake()

    def release_unused(self, slot: Slot) -> None:
        """Give back a slot that no call was made with."""
        slot.endpoint.cancel(on_trial=slot.on_trial)
        self._wake()

    async def pause(self, wait_s: float) -> None:
        """Wait before a further try; not beyond the end of the run."""
        self._pausing += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._over.wait()
        finally:
            self._pausing -= 1
            self._wake()

    def stop(self, reason: str) -> None:
        """Make no more calls; those in flight go on."""
        if self.stopped_by is None:
            self.stopped_by = reason
            self._over.set()
            self._on_event("stopped", {"reason": reason})
            second_turns = self._second_turns if reason == "deadline" else ()
            for future in (*second_turns, *self._retries, *self._newcomers):
                if not future.done():
                    future.set_result(None)

    def _has_room(self) -> bool:
        """Whether a new comparison may begin: those that pause hold no slot, and would pile up without end."""
        return self._pausing < max(_LEAST_PAUSING, 2 * self.limit)

    def _choose(self) -> Endpoint | None:
        now_s = clock.now_s()
        due = next((endpoint for endpoint in self.endpoints if endpoint.is_due(now_s)), None)
        free = [endpoint for endpoint in self.endpoints if endpoint.is_free()]
        return due or min(free, key=Endpoint.rank, default=None)

    def _take(self, endpoint: Endpoint) -> Slot:
        endpoint.begin()
        return Slot(endpoint, clock.now_s(), endpoint.down)

    def _wake(self) -> None:
        """Give free slots to those who wait."""
        for waiting in (self._second_turns, self._retries, self._newcomers):
            while waiting:
                if waiting[0].done():
                    waiting.popleft()
                    continue
                if waiting is self._newcomers and not self._has_room():
                    return
                endpoint = self._choose()
                if endpoint is None:
                    return
                waiting.popleft().set_result(self._take(endpoint))

    def _watch_for_giving_up(self) -> None:
        """Start the clock when the last endpoint goes down, stop it when one is back."""
        if not all(endpoint.down for endpoint in self.endpoints):
            if self._giving_up is not None:
                self._giving_up.cancel()
                self._giving_up = None
        elif self._giving_up is None:
            self._on_event("paused", {"detail": self._last_detail, "give_up_after_s": self._give_up_after_s})
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(self._give_up_after_s, self._give_up)

    def _give_up(self) -> None:
        names = ", ".join(endpoint.name for endpoint in self.endpoints)
        self._given_up = JudgeError(
            f"the judge has not answered for {self._give_up_after_s:g} s (--give-up-after): {names}: "
            f"{self._last_detail}. Run the same command again when it is back: "
            "verdicts that a journal keeps are not asked again."
        )
        self._over.set()
        for future in (*self._second_turns, *self._retries, *self._newcomers):
            if not future.done():
                future.set_exception(self._given_up)
