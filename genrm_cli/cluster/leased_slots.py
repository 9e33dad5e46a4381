"""The limits of a worker: slots and calls that it leases from the limiter."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from genrm_cli.cluster.fleet_limits import LEASE_S, RENEW_S, CallEnd, EndpointUse, Grant, LeaseReport, Spending
from genrm_cli.judging.pacing.endpoint import loop_time_s
from genrm_cli.judging.pacing.limit import Limit
from genrm_cli.judging.pacing.policy import Budget
from genrm_cli.judging.pacing.pool import GRACE_S, EndpointPool
from genrm_cli.verdicts import StoppedBy

_MOST_ENDS = 10_000  # of calls, kept for one report

Renew = Callable[[LeaseReport], Awaitable[Grant | None]]


class LeasedBudget(Budget):
    """A budget whose calls are allowed in parts. Only the limiter decides when it is exhausted."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped_by: StoppedBy | None = None
        self.allowed: int | None = 0
        self.needed = 0
        self._changed = asyncio.Event()

    def used_up(self, calls: int = 1) -> StoppedBy | None:
        """Return the limit that the fleet has used up; None if there is none."""
        del calls
        return self.stopped_by

    def has_room(self, calls: int = 1) -> bool:
        """Whether this many more calls are allowed now."""
        return self.stopped_by is None and (self.allowed is None or self.calls + self.reserved + calls <= self.allowed)

    async def room(self, calls: int) -> None:
        """Wait until the limiter has allowed this many more calls, or stopped the run."""
        while not self.has_room(calls) and self.stopped_by is None:
            self.needed = max(self.needed, calls)
            self._changed.clear()
            await self._changed.wait()

    def spending(self, *, gives_back: bool) -> Spending:
        """Return the spending. Allowed calls that are not needed are returned."""
        calls = self.calls + self.reserved
        if self.allowed is not None and (gives_back or self.needed):
            self.allowed = calls
        return Spending(calls, self.allowed or 0, self.needed, self.prompt_tokens, self.completion_tokens)

    def receive(self, grant: Grant) -> None:
        """Apply a grant of the limiter."""
        self.allowed, self.stopped_by, self.needed = grant.allowed, grant.stopped_by, 0
        self._changed.set()


class LeasedLimit(Limit):
    """The slots of one endpoint: none after the lease has ended."""

    def __init__(self, concurrency: int | None) -> None:
        super().__init__(sys.maxsize)
        self.concurrency = concurrency
        self.adapts = concurrency is None
        self._slots = 0
        self._until_s = 0.0
        self._ended: list[tuple[float, str, float, int]] = []

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        if loop_time_s() >= self._until_s:
            return 0
        return min(self._slots, self.ceiling)

    def lease(self, slots: int, until_s: float) -> None:
        """Use this many slots until then."""
        self._slots, self._until_s = slots, until_s

    def use(self, in_flight: int, *, wants_more: bool) -> EndpointUse:
        """Return what is used, for a report. Half of the idle slots are given back if no comparison waits."""
        held = self.limit
        if not wants_more and held > in_flight:
            held = self._slots = in_flight + (held - in_flight) // 2
        ended, self._ended, now_s = self._ended, [], loop_time_s()
        ends = tuple(CallEnd(now_s - at_s, kind, latency_s, others) for at_s, kind, latency_s, others in ended)
        return EndpointUse(held, in_flight, wants_more, self.concurrency, ends)

    def on_answer(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Tell the limiter of an answer."""
        self._note(now_s, "answer", latency_s, in_flight)

    def on_refusal(self, now_s: float, in_flight: int) -> bool:
        """Tell the limiter of a 429 or 503; until it answers, use no more slots than were not refused."""
        self._note(now_s, "refusal", 0.0, in_flight)
        if self.adapts:
            self._slots = min(self._slots, max(1, in_flight - 1))
        return self.adapts

    def on_timeout(self, now_s: float, latency_s: float, in_flight: int) -> None:
        """Tell the limiter of a timeout."""
        self._note(now_s, "timeout", latency_s, in_flight)

    def _note(self, now_s: float, kind: str, latency_s: float, in_flight: int) -> None:
        if self.adapts and len(self._ended) < _MOST_ENDS:
            self._ended.append((now_s, kind, latency_s, in_flight))


class LeasedSlots:
    """All limits of a worker.

    Attributes:
        is_idle: whether no shard is in progress, so that all leases are given back.
    """

    def __init__(self, worker: str, renew: Renew) -> None:
        """Begin without slots."""
        self.budget = LeasedBudget()
        self.is_idle = True
        self._worker = worker
        self._renew = renew
        self._limits: dict[str, LeasedLimit] = {}
        self._pools: list[EndpointPool] = []

    def limit_of(self, pool: int, endpoint: str, concurrency: int | None) -> LeasedLimit:
        """Return the limit of an endpoint of a pool."""
        return self._limits.setdefault(_name(pool, endpoint), LeasedLimit(concurrency))

    def attach(self, pool: EndpointPool) -> None:
        """Remember a pool."""
        self._pools.append(pool)

    async def keep_renewed(self) -> None:
        """Renew the leases periodically. Without an answer, they end."""
        while True:
            report, sent_s = self._report(), loop_time_s()
            grant = await self._renew(report)
            if grant is not None:
                self._receive(grant, sent_s + LEASE_S)
            await asyncio.sleep(RENEW_S)

    def _report(self) -> LeaseReport:
        endpoints = {}
        for number, pool in enumerate(self._pools):
            wants_more = not self.is_idle and pool.is_waiting and pool.stopped_by is None
            for endpoint in pool.endpoints:
                name = _name(number, endpoint.name)
                endpoints[name] = self._limits[name].use(endpoint.in_flight, wants_more=wants_more)
        return LeaseReport(self._worker, endpoints, self.budget.spending(gives_back=self.is_idle), self.is_idle)

    def _receive(self, grant: Grant, until_s: float) -> None:
        for name, slots in grant.slots.items():
            self._limits[name].lease(slots, until_s)
        self.budget.receive(grant)
        for pool in self._pools:
            if grant.left_s is not None:
                pool.last_call_ends_s = loop_time_s() + grant.left_s + GRACE_S
            if grant.stopped_by is not None:
                pool.stop(grant.stopped_by)
            pool.wake()


def _name(pool: int, endpoint: str) -> str:
    return f"{pool} {endpoint}"
