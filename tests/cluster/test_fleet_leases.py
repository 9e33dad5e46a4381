"""Leases of slots and calls, in virtual time: a fleet of simulated workers and one limiter."""

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from genrm_cli.cluster.fleet_limits import (
    LEASE_S,
    RENEW_S,
    CallEnd,
    EndpointUse,
    FleetState,
    LeaseReport,
    Limiter,
    Spending,
)
from genrm_cli.judging.pacing.policy import Budget

CEILING = 4_096


@dataclass
class SimulatedWorker:
    """A worker that calls all endpoints as often as its leases allow.

    Attributes:
        hears: whether messages between it and the limiter arrive.
        busy: whether it has anything to ask.
    """

    name: str
    hears: bool = True
    busy: bool = True
    calls: int = 0
    allowed: int | None = 0
    slots: Counter[str] = field(default_factory=Counter)
    until_s: float = 0.0
    in_flight: Counter[str] = field(default_factory=Counter)
    ended: dict[str, list[tuple[float, str, float, int]]] = field(default_factory=dict)
    stopped_by: str | None = None
    ends_at_s: float | None = None


class SimulatedFleet:
    """Workers, a limiter, and endpoints that count the calls in flight."""

    def __init__(
        self, workers: int, endpoints: int, concurrency: int | None, budget: Budget | None = None, call_s: float = 1.0
    ) -> None:
        self.budget = budget or Budget()
        self.limits = Limiter(self.budget, CEILING, lambda: self.now_s)
        self.workers = [SimulatedWorker(f"w{number}") for number in range(workers)]
        self.endpoints = [f"e{number}" for number in range(endpoints)]
        self.concurrency = concurrency
        self.call_s = call_s
        self.capacity: int | None = None
        self.now_s = 0.0
        self.last_begun_s = 0.0
        self.most_in_flight = Counter[str]()
        self.served = Counter[str]()
        self.total: Counter[str] = Counter()
        self._rng = random.Random(7)
        self._count = 0
        self._queue: list[tuple[float, int, str, SimulatedWorker, str, float]] = []
        for number, worker in enumerate(self.workers):
            self._put(RENEW_S * number / workers, "renew", worker)

    def state(self, ends_at_s: float | None = None) -> FleetState:
        """Return the limiter's state, which hears from the driver how much time is left."""
        return self.limits.state(None if ends_at_s is None else ends_at_s - self.now_s)

    def kill(self, worker: SimulatedWorker) -> None:
        """End a worker; its connections close, so the endpoints drop its calls."""
        worker.hears = worker.busy = False
        self.total -= worker.in_flight
        self._queue = [event for event in self._queue if event[3] is not worker]
        heapq.heapify(self._queue)

    def run(self, until_s: float) -> None:
        """Simulate until then."""
        while self._queue and self._queue[0][0] <= until_s:
            self.now_s, _, what, worker, endpoint, begun_s = heapq.heappop(self._queue)
            if what == "renew":
                self._renew(worker)
                self._put(self.now_s + RENEW_S, "renew", worker)
            else:
                self._end(worker, endpoint, begun_s)
            for each in [endpoint] if endpoint else self.endpoints:
                self._call(worker, each)
        self.now_s = until_s

    def _put(self, at_s: float, what: str, worker: SimulatedWorker, endpoint: str = "", begun_s: float = 0.0) -> None:
        self._count += 1
        heapq.heappush(self._queue, (at_s, self._count, what, worker, endpoint, begun_s))

    def _held(self, worker: SimulatedWorker, endpoint: str) -> int:
        return worker.slots[endpoint] if self.now_s < worker.until_s else 0

    def _renew(self, worker: SimulatedWorker) -> None:
        if not worker.hears:
            return
        uses = {}
        for endpoint in self.endpoints:
            held = self._held(worker, endpoint)
            if not worker.busy:
                held = worker.slots[endpoint] = worker.in_flight[endpoint]
            ends = tuple(CallEnd(self.now_s - at_s, *rest) for at_s, *rest in worker.ended.pop(endpoint, ()))  # type: ignore[arg-type]
            uses[endpoint] = EndpointUse(held, worker.in_flight[endpoint], worker.busy, self.concurrency, ends)
        needed = int(worker.busy and worker.allowed is not None and worker.calls >= worker.allowed)
        if worker.allowed is not None and (needed or not worker.busy):
            worker.allowed = worker.calls
        spending = Spending(worker.calls, worker.allowed or 0, needed)
        grant = self.limits.renew(LeaseReport(worker.name, uses, spending, not worker.busy))
        worker.slots, worker.until_s = Counter(grant.slots), self.now_s + LEASE_S
        worker.allowed, worker.stopped_by = grant.allowed, grant.stopped_by
        worker.ends_at_s = None if grant.left_s is None else self.now_s + grant.left_s

    def _call(self, worker: SimulatedWorker, endpoint: str) -> None:
        while (
            worker.busy
            and worker.stopped_by is None
            and (worker.allowed is None or worker.calls < worker.allowed)
            and worker.in_flight[endpoint] < self._held(worker, endpoint)
        ):
            worker.calls += 1
            self.last_begun_s = self.now_s
            worker.in_flight[endpoint] += 1
            self.total[endpoint] += 1
            self.most_in_flight[endpoint] = max(self.most_in_flight[endpoint], self.total[endpoint])
            # Work that the endpoint cannot do at once waits in its queue.
            queued = 1.0 if self.capacity is None else max(1.0, self.total[endpoint] / self.capacity)
            latency_s = self.call_s * queued * self._rng.uniform(0.9, 1.1)
            self._put(self.now_s + latency_s, "end", worker, endpoint, self.now_s)

    def _end(self, worker: SimulatedWorker, endpoint: str, begun_s: float) -> None:
        end = (self.now_s, "answer", self.now_s - begun_s, worker.in_flight[endpoint])
        if self.concurrency is None:
            worker.ended.setdefault(endpoint, []).append(end)
        worker.in_flight[endpoint] -= 1
        self.total[endpoint] -= 1
        self.served[worker.name] += 1


@pytest.mark.parametrize(("workers", "concurrency"), [(1, 8), (3, 8), (8, 8), (20, 64)])
def test_the_whole_limit_is_used_and_never_exceeded(workers: int, concurrency: int) -> None:
    """Calls in flight reach the limit of each endpoint and stay there, however many workers share it."""
    fleet = SimulatedFleet(workers, 3, concurrency)
    fleet.run(20.0)
    assert dict(fleet.most_in_flight) == dict.fromkeys(fleet.endpoints, concurrency)
    assert sum(fleet.served.values()) > 0.8 * 20 * 3 * concurrency


def test_workers_get_equal_shares() -> None:
    """What does not divide goes round: over some minutes, all workers make about as many calls."""
    fleet = SimulatedFleet(7, 2, 10)
    fleet.run(600.0)
    assert max(fleet.served.values()) < 1.25 * min(fleet.served.values())


def test_a_worker_without_work_leaves_its_slots_to_others() -> None:
    """The worker that is left has the whole limit."""
    fleet = SimulatedFleet(4, 1, 8)
    fleet.run(10.0)
    for worker in fleet.workers[1:]:
        worker.busy = False
    fleet.run(15.0)
    assert fleet.workers[0].in_flight["e0"] == 8
    assert fleet.most_in_flight["e0"] == 8


def test_a_worker_that_is_cut_off_works_to_the_end_of_its_lease() -> None:
    """It begins no call after its lease, and only then do others use its slots; its last calls finish."""
    fleet = SimulatedFleet(2, 1, 8)
    fleet.run(10.0)
    cut_off, other = fleet.workers
    cut_off.hears = False
    fleet.run(10.0 + LEASE_S / 2)
    assert (cut_off.in_flight["e0"], other.in_flight["e0"]) == (4, 4)
    fleet.run(10.0 + LEASE_S)
    begun = cut_off.calls
    fleet.run(10.0 + 2 * LEASE_S)
    assert cut_off.calls == begun
    assert (cut_off.in_flight["e0"], other.in_flight["e0"]) == (0, 8)
    fleet.most_in_flight.clear()
    cut_off.hears = True
    fleet.run(40.0)
    assert (cut_off.in_flight["e0"], other.in_flight["e0"]) == (4, 4)
    assert fleet.most_in_flight["e0"] == 8


@pytest.mark.parametrize("most", [1, 7, 100, 1_000])
def test_a_budget_of_calls_is_used_up_to_the_last_call(most: int) -> None:
    """All workers together make exactly as many calls as the run may, and are told that it is over."""
    fleet = SimulatedFleet(5, 2, 16, Budget(max_calls=most))
    fleet.run(120.0)
    assert sum(worker.calls for worker in fleet.workers) == most
    assert {worker.stopped_by for worker in fleet.workers} == {"max_calls"}


def test_what_a_lost_worker_was_allowed_counts_as_spent() -> None:
    """Nobody knows what it did with it, so the budget holds in any case."""
    fleet = SimulatedFleet(3, 1, 8, Budget(max_calls=400))
    fleet.run(5.0)
    fleet.workers[0].hears = False
    fleet.run(400.0)
    assert sum(worker.calls for worker in fleet.workers) <= 400
    assert {worker.stopped_by for worker in fleet.workers[1:]} == {"max_calls"}


@pytest.mark.parametrize("limit", ["max_total_tokens", "max_cost"])
def test_tokens_and_money_are_counted_over_all_workers(limit: str) -> None:
    """A worker that spent half of it does not stop the fleet; two do."""
    budget = Budget(max_tokens=1_000) if limit == "max_total_tokens" else Budget(max_cost=0.001, price_in=1.0)
    limits = Limiter(budget, CEILING)
    spending = Spending(prompt_tokens=500)
    assert limits.renew(LeaseReport("a", {}, spending)).stopped_by is None
    assert limits.renew(LeaseReport("b", {}, spending)).stopped_by == limit


def test_the_knee_of_an_endpoint_is_found_once_for_all_workers() -> None:
    """An endpoint that queues beyond 64 calls is given about as many, from four workers together."""
    fleet = SimulatedFleet(4, 1, None)
    fleet.capacity = 64
    fleet.run(240.0)
    assert 32 <= fleet.state().limit <= 160


def test_the_limiter_keeps_the_deadline() -> None:
    """No worker begins a call later than one renewal after it, and all are told why and when calls are cut off."""
    fleet = SimulatedFleet(5, 2, 16)
    fleet.state(ends_at_s=30.0)
    fleet.run(29.0)
    assert {worker.stopped_by for worker in fleet.workers} == {None}
    assert all(worker.ends_at_s == pytest.approx(30.0) for worker in fleet.workers)
    fleet.run(60.0)
    assert 29.0 < fleet.last_begun_s <= 30.0 + RENEW_S
    assert {worker.stopped_by for worker in fleet.workers} == {fleet.state().stopped_by} == {"deadline"}


@pytest.mark.slow
def test_a_large_fleet_loses_a_tenth_of_its_workers() -> None:
    """The limit of each endpoint holds all the time, and is used again one lease later, in fair shares."""
    workers, endpoints, concurrency = 100, 16, 50
    fleet = SimulatedFleet(workers, endpoints, concurrency, call_s=4.0)
    fleet.run(6.0)
    assert min(fleet.most_in_flight.values()) == concurrency
    for worker in fleet.workers[::10]:
        fleet.kill(worker)
    fleet.run(16.0)
    assert max(fleet.most_in_flight.values()) == concurrency
    shares = [sum(worker.in_flight.values()) for worker in fleet.workers if worker.hears]
    assert sum(shares) > 0.9 * endpoints * concurrency
    assert max(shares) < 2 * min(shares)
