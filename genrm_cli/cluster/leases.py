"""Lease the slots of one endpoint to workers, in bulk and for some seconds.

The slots that all workers may use never exceed the limit: what a worker holds counts until it reports less, or until
its lease ends. Workers that want more get equal shares; what does not divide goes round.
"""

import heapq
import math
from collections.abc import Mapping

from genrm_cli.cluster.messages import RENEW_S, CallEnd, EndpointUse
from genrm_cli.judging.pacing.limit import FIRST_LEVEL, AdaptiveLimit

_ROTATION_S = 30.0
_GOLDEN = (5**0.5 - 1) / 2
_SETTLED_S = 2 * RENEW_S  # older call ends have arrived from all workers


class EndpointLeases:
    """The leases of one endpoint."""

    def __init__(self, concurrency: int | None, ceiling: int, number: int, found: int | None = None) -> None:
        """Begin without leases.

        Args:
            concurrency: calls that may be in flight; None to adapt to the endpoint.
            ceiling: upper bound of an adaptive limit.
            number: of the endpoint: where shares do not divide, workers are favoured at different endpoints.
            found: the adaptive limit that an earlier limiter found.
        """
        self._fixed = concurrency
        self._adaptive = AdaptiveLimit(ceiling, found or FIRST_LEVEL) if concurrency is None else None
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

    def renew(self, worker: str, use: EndpointUse, now_s: float, *, may_grow: bool) -> int:
        """Renew a lease; return the slots that the worker may use from now on.

        Args:
            worker: name of the worker.
            use: what it reports.
            now_s: any monotonic clock.
            may_grow: False while a restarted limiter does not know all leases yet.
        """
        self._learn(worker, use, now_s)
        occupied = max(use.held, use.in_flight)
        self._total_held += occupied - self._held.get(worker, 0)
        self._held[worker], self._in_flight[worker] = occupied, use.in_flight
        is_new = worker not in self._wanted
        was, self._wanted[worker] = self._wanted.get(worker), math.inf if use.wants_more else float(occupied)
        if is_new or (was != self._wanted[worker] and len(self._wanted) < 64):
            self.share_out(now_s)
        free = self.limit - (self._total_held - occupied)
        granted = max(0, min(self._shares.get(worker, 0), free if may_grow else use.held))
        # What it may use until the grant arrives.
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
        """Let an adaptive limit learn from calls in the order in which they ended, whoever made them."""
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
