"""Events of a run on a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass

from genrm_cli.errors import Message, counted
from genrm_cli.metrics.event import Event, Severity


@dataclass(frozen=True, slots=True)
class FleetEvent(Event):
    """The workers start."""

    workers: int
    nodes: int

    def text(self) -> str:
        """Say how many."""
        return f"asking with {counted(self.workers, 'worker')} on {counted(self.nodes, 'node')}"


@dataclass(frozen=True, slots=True)
class WorkerLostEvent(Event):
    """A worker cannot be reached; another takes its shard over."""

    severity = Severity.WARNING
    shard: str
    detail: str

    def text(self) -> str:
        """Name the shard."""
        return f"the worker of shard {self.shard} was lost ({self.detail}); another continues"


@dataclass(frozen=True, slots=True)
class ShardEvent(Event):
    """A shard is asked about; `errors` are those of its inputs that failed."""

    shard: str
    errors: Sequence[Message]

    @property
    def level(self) -> Severity:
        """A warning if inputs failed."""
        return Severity.WARNING if self.errors else Severity.INFO

    def text(self) -> Message | None:
        """Say why inputs failed."""
        parts = [part for error in self.errors for part in ("; ", error)]
        return Message.of(f"shard {self.shard}: ", *parts[1:]) if parts else None
