"""Messages between workers and the limiter: names and counts, never texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from genrm_cli.verdicts import StoppedBy

LEASE_S = 5.0
RENEW_S = 0.5


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
    """What a worker does at an endpoint.

    Attributes:
        held: calls that it may have in flight until it receives another grant.
        wants_more: whether comparisons wait for a slot.
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
    """What a worker has spent since it began, and the calls that it may make in total.

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
        stopped_by: the limit that is used up; None while calls may be made.
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
