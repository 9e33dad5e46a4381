"""Events of the inputs of a run, and of leases on their outputs."""

from dataclasses import dataclass

from genrm_cli.metrics.event import Event, Severity


@dataclass(frozen=True, slots=True)
class NothingFoundEvent(Event):
    """An input names no file of rollouts, while others do."""

    severity = Severity.WARNING
    input: str
    detail: str
    exit_code: int = 0

    def text(self) -> str:
        """Name the input."""
        return f"{self.input}: {self.detail}"
