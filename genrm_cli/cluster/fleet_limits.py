"""The limits of a fleet: the slots of all endpoints, leased to workers, and one budget.

Slots are leased in bulk for some seconds. All leased slots together never exceed the limit: those of a worker count
until it reports fewer, or until its lease ends. Workers that want more get equal shares; a remainder
rotates.
"""

import heapq
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from genrm_cli.judging.pacing.limit import AdaptiveLimit
from genrm_cli.judging.pacing.policy import Budget
from genrm_cli.verdicts import StoppedBy

LEASE_S = 5.0
RENEW_S = 0.5
_ROTATION_S = 30.0
_GOLDEN = (5**0.5 - 1) / 2
_SETTLED_S = 2 * RENEW_S  # older call ends have arrived from all workers


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call, from which an adaptive limit learns.

    Attributes:
        age_s: time since it ended.
        kind: `answer`, `refusal` or `timeout`.
        in_flight: calls of its worker at the endpoint, including this one.
    """

    age_s: float
    kind: str
    latency_s: float
    in_flight: int


@dataclass(frozen=True, slots=True)
class EndpointUse:
    """The use that a worker makes of an endpoint.

    Attributes:
        held: calls that it may have in flight until it receives another grant.
        concurrency: the limit of the whole fleet; None to adapt it.
        ended: calls that ended since the last report; empty for a fixed limit.
    """

    held: int
    in_flight: int
    wants_more: bool
    concurrency: int | None
    ended: tuple[CallEnd, ...] = ()


@dataclass(frozen=True, slots=True)
class Spending:
    """The spending of a worker so far, and the calls that it may make in total.

    Attributes:
        calls: calls made, and those reserved for second turns.
        allowed: calls allowed so far; at least `calls`.
        needed: calls that the next comparison needs and waits for; 0 if none waits.
    """

    calls: int = 0
    allowed: int = 0
    needed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """A worker's request to renew its leases."""

    worker: str
    endpoints: Mapping[str, EndpointUse]
    spending: Spending = field(default_factory=Spending)
    is_idle: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """Slots until the lease ends, by endpoint; and the calls allowed in total, None for any number.

    Attributes:
        left_s: time until the deadline; None without one.
    """

    slots: Mapping[str, int]
    allowed: int | None = None
    left_s: float | None = None
    stopped_by: StoppedBy | None = None


@dataclass(frozen=True, slots=True)
class FleetState:
    """The load of all workers, and the limit that stopped them."""

    in_flight: int = 0
    limit: int = 0
    stopped_by: StoppedBy | None = None


class EndpointLeases:
    """The leases of one endpoint."""

    def __init__(self, concurrency: int | None, ceiling: int, number: int) -> None:
        """Begin without leases.

        Args:
            number: number of the endpoint, so that remainders favour different workers at different endpoints.
        """
        self._fixed = concurrency
        self._adaptive = AdaptiveLimit(ceiling) if concurrency is None else None
        self._number = number
        self._held: dict[str, int] = {}
        self._wanted: dict[str, float] = {}
        self._in_flight: dict[str, int] = {}
        self._total_held = 0
        self._shares: Mapping[str, int] = {}
        self._ended: list[tuple[float, int, str, CallEnd]] = []
        self._ended_count = 0
        self._seen_in_flight: dict[str, int] = {}

    @property
    def limit(self) -> int:
        """Calls that may be in flight."""
        return self._fixed if self._adaptive is None else self._adaptive.limit  # type: ignore[return-value]

    @property
    def in_flight(self) -> int:
        """Calls in flight, as last reported."""
        return sum(self._in_flight.values())

    def renew(self, worker: str, use: EndpointUse, now_s: float) -> int:
        """Renew a lease; return the slots that the worker may use from now on."""
        self._learn(worker, use, now_s)
        occupied = max(use.held, use.in_flight)
        self._total_held += occupied - self._held.get(worker, 0)
        self._held[worker], self._in_flight[worker] = occupied, use.in_flight
        is_new = worker not in self._wanted
        was, self._wanted[worker] = self._wanted.get(worker), math.inf if use.wants_more else float(occupied)
        if is_new or (was != self._wanted[worker] and len(self._wanted) < 64):
            self.share_out(now_s)
        free = self.limit - (self._total_held - occupied)
        granted = max(0, min(self._shares.get(worker, 0), free))
        # It may use this many until the grant arrives.
        self._held[worker] = max(granted, occupied)
        self._total_held += self._held[worker] - occupied
        return granted

    def end(self, worker: str) -> None:
        """Take back the slots of a worker."""
        self._total_held -= self._held.pop(worker, 0)
        for known in (self._wanted, self._in_flight, self._seen_in_flight):
            known.pop(worker, None)

    def share_out(self, now_s: float) -> None:
        """Compute the share of each worker: equal, but no more than it wants."""
        workers = list(self._wanted)
        # Multiples of the golden ratio spread evenly, over the endpoints and over time.
        turn = int(len(workers) * ((int(now_s / _ROTATION_S) + self._number) * _GOLDEN % 1))
        order = sorted(
            range(len(workers)), key=lambda place: (self._wanted[workers[place]], (place + turn) % len(workers))
        )
        left, shares = self.limit, {}
        for done, place in enumerate(order):
            share = min(self._wanted[workers[place]], left // (len(order) - done))
            shares[workers[place]] = int(share)
            left -= int(share)
        self._shares = shares

    def _learn(self, worker: str, use: EndpointUse, now_s: float) -> None:
        """Let an adaptive limit learn from calls of all workers, in the order in which they ended."""
        if self._adaptive is None:
            return
        for ended in use.ended:
            self._ended_count += 1
            heapq.heappush(self._ended, (now_s - ended.age_s, self._ended_count, worker, ended))
        while self._ended and self._ended[0][0] <= now_s - _SETTLED_S:
            at_s, _, whose, ended = heapq.heappop(self._ended)
            if whose in self._wanted:
                self._seen_in_flight[whose] = ended.in_flight
            in_flight = max(ended.in_flight, sum(self._seen_in_flight.values()))
            if ended.kind == "answer":
                self._adaptive.on_answer(at_s, ended.latency_s, in_flight)
            elif ended.kind == "refusal":
                self._adaptive.on_refusal(at_s, in_flight)
            else:
                self._adaptive.on_timeout(at_s, ended.latency_s, in_flight)


class Limiter:
    """Leases slots and calls to all workers, as an actor. The run ends with it."""

    def __init__(self, budget: Budget, ceiling: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without workers; the counts of the budget are not used."""
        self._clock = clock
        self._budget = budget
        self._ceiling = ceiling
        self._endpoints: dict[str, EndpointLeases] = {}
        self._until_s: dict[str, float] = {}
        self._spending: dict[str, Spending] = {}
        self._tidied_at_s = -math.inf
        self._ends_at_s = math.inf
        self._stopped_by: StoppedBy | None = None

    def renew(self, report: LeaseReport) -> Grant:
        """Renew the leases of a worker for `LEASE_S`."""
        now_s = self._clock()
        self._until_s[report.worker] = now_s + LEASE_S
        self._tidy(now_s)
        slots = {}
        for name, use in report.endpoints.items():
            if name not in self._endpoints:
                self._endpoints[name] = EndpointLeases(use.concurrency, self._ceiling, len(self._endpoints))
            slots[name] = self._endpoints[name].renew(report.worker, use, now_s)
        allowed = self._allow(report)
        self._keep_deadline(now_s)
        left_s = None if self._ends_at_s == math.inf else self._ends_at_s - now_s
        return Grant(slots, allowed, left_s, self._stopped_by)

    def state(self, left_s: float | None) -> FleetState:
        """Return the load of all workers; `left_s` is the time to the run's deadline by the driver, None without."""
        now_s = self._clock()
        self._ends_at_s = math.inf if left_s is None else now_s + left_s
        self._keep_deadline(now_s)
        endpoints = self._endpoints.values()
        return FleetState(
            sum(each.in_flight for each in endpoints), sum(each.limit for each in endpoints), self._stopped_by
        )

    def _keep_deadline(self, now_s: float) -> None:
        if now_s >= self._ends_at_s:
            self._stopped_by = self._stopped_by or StoppedBy.DEADLINE

    def _tidy(self, now_s: float) -> None:
        """End leases that were not renewed, and share out anew; the more workers, the rarer."""
        if now_s - self._tidied_at_s < 0.001 * len(self._until_s):
            return
        self._tidied_at_s = now_s
        for worker in [worker for worker, until_s in self._until_s.items() if until_s < now_s]:
            del self._until_s[worker]
            for endpoint in self._endpoints.values():
                endpoint.end(worker)
        for endpoint in self._endpoints.values():
            endpoint.share_out(now_s)

    def _allow(self, report: LeaseReport) -> int | None:
        """Return how many calls a worker may make in total.

        What a worker was allowed counts as spent until it gives it back, even if the worker is gone.
        """
        budget, own = self._budget, report.spending
        self._spending[report.worker] = own
        spent = Budget(
            None, budget.max_tokens, budget.max_cost, budget.price_in, budget.price_out,
            prompt_tokens=sum(each.prompt_tokens for each in self._spending.values()),
            completion_tokens=sum(each.completion_tokens for each in self._spending.values()),
        )  # fmt: skip
        self._stopped_by = self._stopped_by or spent.used_up()
        if budget.max_calls is None:
            return None
        left = budget.max_calls - sum(each.allowed for each in self._spending.values())
        unused = own.allowed - own.calls
        if not report.is_idle and left > 0:
            share = max(own.needed, math.ceil(left / (2 * len(self._until_s))))
            own = replace(own, allowed=own.allowed + max(0, min(left, share - unused)))
            self._spending[report.worker] = own
        others = [self._spending[each] for each in self._until_s if each != report.worker]
        if own.needed > own.allowed - own.calls and not any(each.allowed > each.calls for each in others):
            self._stopped_by = self._stopped_by or StoppedBy.MAX_CALLS  # no worker can return any
        return own.allowed
