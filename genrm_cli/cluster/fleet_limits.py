"""The limits of a fleet: leases of all endpoints, and one budget. The clock is that of the caller."""

import math
from collections.abc import Mapping

from genrm_cli.cluster.leases import EndpointLeases
from genrm_cli.cluster.messages import LEASE_S, FleetState, Grant, LeaseReport, Spending
from genrm_cli.judging.pacing.policy import Budget
from genrm_cli.verdicts import StoppedBy


class FleetLimits:
    """What all workers together may do."""

    def __init__(self, budget: Budget, ceiling: int, opens_at_s: float = -math.inf) -> None:
        """Begin without workers.

        Args:
            budget: the limits of the run; its counts are not used.
            ceiling: upper bound of adaptive limits.
            opens_at_s: nothing is granted before: leases of an earlier limiter may be in use.
        """
        self._budget = budget
        self._ceiling = ceiling
        self._opens_at_s = opens_at_s
        self._endpoints: dict[str, EndpointLeases] = {}
        self._until_s: dict[str, float] = {}
        self._spending: dict[str, Spending] = {}
        self._tidied_at_s = -math.inf
        self._ends_at_s = math.inf
        self._stopped_by: StoppedBy | None = None

    def renew(self, report: LeaseReport, now_s: float) -> Grant:
        """Renew the leases of a worker for `LEASE_S`."""
        self._until_s[report.worker] = now_s + LEASE_S
        self._tidy(now_s)
        may_grow = now_s >= self._opens_at_s
        slots, found = {}, {}
        for name, use in report.endpoints.items():
            if name not in self._endpoints:
                self._endpoints[name] = EndpointLeases(use.concurrency, self._ceiling, len(self._endpoints), use.found)
            slots[name] = self._endpoints[name].renew(report.worker, use, now_s, may_grow=may_grow)
            if use.concurrency is None:
                found[name] = self._endpoints[name].limit
        allowed = self._allow(report, may_grow=may_grow)
        self._keep_deadline(now_s)
        left_s = None if self._ends_at_s == math.inf else self._ends_at_s - now_s
        return Grant(slots, allowed, found, left_s, self._stopped_by)

    def state(self, known: Mapping[str, Spending], now_s: float, left_s: float | None) -> FleetState:
        """Return the load and the spending.

        Args:
            known: what an earlier limiter knew of workers that may be gone.
            now_s: any monotonic clock.
            left_s: time until the deadline of the run, by the driver's clock; None without one.
        """
        self._ends_at_s = math.inf if left_s is None else now_s + left_s
        self._keep_deadline(now_s)
        for worker, spending in known.items():
            self._spending.setdefault(worker, spending)
        endpoints = self._endpoints.values()
        return FleetState(
            sum(each.in_flight for each in endpoints),
            sum(each.limit for each in endpoints),
            dict(self._spending),
            self._stopped_by,
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

    def _allow(self, report: LeaseReport, *, may_grow: bool) -> int | None:
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
        if may_grow and not report.is_idle and left > 0:
            share = max(own.needed, math.ceil(left / (2 * len(self._until_s))))
            own = _allowed_more(own, max(0, min(left, share - unused)))
            self._spending[report.worker] = own
        if may_grow and own.needed > own.allowed - own.calls and not self._others_may_give_back(report.worker):
            self._stopped_by = self._stopped_by or StoppedBy.MAX_CALLS
        return own.allowed

    def _others_may_give_back(self, worker: str) -> bool:
        return any(
            self._spending[each].allowed > self._spending[each].calls for each in self._until_s if each != worker
        )


def _allowed_more(own: Spending, calls: int) -> Spending:
    return Spending(own.calls, own.allowed + calls, own.needed, own.prompt_tokens, own.completion_tokens)
