"""Limits that this process shares with others."""

from typing import Protocol

from genrm_cli.judging.pacing.budget import Budget
from genrm_cli.judging.pacing.endpoint import Limit
from genrm_cli.judging.pacing.pool import EndpointPool


class SharedLimits(Protocol):
    """The source of a process's slots and budget, if it does not own them."""

    @property
    def budget(self) -> Budget:
        """What this process may spend, as far as it is known yet."""

    def limit_of(self, pool: int, endpoint: str, concurrency: int | None) -> Limit:
        """Return the limit of an endpoint of a pool; None as concurrency stands for `auto`."""

    def attach(self, pool: EndpointPool) -> None:
        """Remember a pool, to hand out new slots and to stop it."""
