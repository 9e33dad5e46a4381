"""The actor that leases slots and calls to all workers."""

import time
from collections.abc import Mapping

import ray

from genrm_cli.cluster.fleet_limits import FleetLimits
from genrm_cli.cluster.messages import LEASE_S, FleetState, Grant, LeaseReport, Spending
from genrm_cli.judging.pacing.policy import Budget


class Limiter:
    """Ray starts it again when it dies, with the same arguments and an empty memory."""

    def __init__(self, budget: Budget, ceiling: int) -> None:
        is_restarted = ray.get_runtime_context().was_current_actor_reconstructed
        self._limits = FleetLimits(budget, ceiling, time.monotonic() + LEASE_S * is_restarted)

    def renew(self, report: LeaseReport) -> Grant:
        """Renew the leases of a worker."""
        return self._limits.renew(report, time.monotonic())

    def state(self, known: Mapping[str, Spending], left_s: float | None) -> FleetState:
        """Return the load and the spending of all workers; hear how much time is left."""
        return self._limits.state(known, time.monotonic(), left_s)
