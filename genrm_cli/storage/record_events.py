"""Events of files of records."""

from genrm_cli.metrics.event import Event, Severity


class RecordedEvent(Event, frozen=True):
    """Files of records are complete; `output` is the one that readers wait for."""

    output: str


class RecordFailedEvent(Event, frozen=True):
    """Files of records could not be completed."""

    severity = Severity.WARNING
    detail: str

    def text(self) -> str:
        """Say where the records are."""
        return (
            f"records cannot be published ({self.detail}); they are safe in hidden files, and the "
            "next file is another try"
        )


class StorageFailedEvent(Event, frozen=True):
    """A server could not store what an answer depends on."""

    severity = Severity.WARNING
    is_printed_once = True
    detail: str

    def text(self) -> str:
        """Say why."""
        return f"a group was refused: {self.detail}"
