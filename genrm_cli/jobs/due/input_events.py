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


@dataclass(frozen=True, slots=True)
class LeftOutEvent(Event):
    """Files of a folder were left out that may hold rollouts; `detail` names the first."""

    severity = Severity.WARNING
    input: str
    files: int
    detail: str

    def text(self) -> str:
        """Name some of the files, and what to do."""
        return (
            f"{self.input}: left out {self.detail}; of a folder, only .jsonl, .ndjson, .parquet "
            "and .eval files are read. Name a file to read it."
        )


@dataclass(frozen=True, slots=True)
class LeaseLeftEvent(Event):
    """A lease could not be released at the end."""

    severity = Severity.WARNING
    is_printed_once = True
    lease: str
    detail: str

    def text(self) -> str:
        """Say what it means, and what to do."""
        return (
            f"a lease could not be released ({self.detail}); it stays until it expires. The role "
            "needs s3:DeleteObject for *.lease-* objects."
        )
