"""Events: what a run reports while it works.

    @dataclass(frozen=True, slots=True)
    class WorkerLostEvent(Event):
        severity = Severity.WARNING
        shard: str

        def text(self) -> str:
            return f"the worker of shard {self.shard} was lost; another continues"

    run.on_event(WorkerLostEvent("0/2"))

The folder that emits an event defines it. The command line prints its text; a log gets its kind,
here `worker_lost`, and its fields."""

from collections.abc import Callable
from enum import Enum, auto
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from genrm_cli.errors import Message
from genrm_cli.json_types import Record
from genrm_cli.texts.late_pattern import late_pattern

_WORD_START = late_pattern(r"(?<!^)(?=[A-Z])")


class Severity(Enum):
    """How a text is printed."""

    INFO = auto()
    WARNING = auto()
    ERROR = auto()


class Event(Struct, frozen=True):
    """Something that happened in a run.

    Attributes:
        is_printed_once: whether only the first of a run is printed; the log gets all of them.
    """

    severity: ClassVar[Severity] = Severity.INFO
    is_printed_once: ClassVar[bool] = False

    @property
    def level(self) -> Severity:
        """The severity of this one."""
        return self.severity

    @property
    def is_failure(self) -> bool:
        """Whether it is printed even if the user wants no messages."""
        return False

    def text(self) -> str | Message | None:
        """Return what to print; None for events that are only logged."""
        return None

    def as_dict(self) -> Record:
        """Return the fields of a log line."""
        return asdict(self)

    @classmethod
    def kind(cls) -> str:
        """Return the name of its kind in a log: `worker_lost` for a `WorkerLostEvent`."""
        return _WORD_START.sub("_", cls.__name__.removesuffix("Event")).lower()


OnEvent = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """Ignore an event."""
    del event
