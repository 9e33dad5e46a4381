"""Events of a server."""

from dataclasses import asdict, dataclass

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import Record
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.products.serve.served_answers import GroupCounts


@dataclass(frozen=True, slots=True)
class GroupEvent(Event):
    """A group was answered, `waited_s` after its first member came."""

    group: str
    waited_s: float
    counts: GroupCounts

    def as_dict(self) -> Record:
        """Return the fields of a log line, with the counts among them."""
        status = self.counts.status
        fields = {"group": self.group, "status": status, "waited_s": self.waited_s}
        return fields | asdict(self.counts)


@dataclass(frozen=True, slots=True)
class AbsentEvent(Event):
    """A member of a group will not come."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class DisagreementEvent(Event):
    """A request contradicts earlier ones of its group."""

    group: str
    detail: str


@dataclass(frozen=True, slots=True)
class RefusedEvent(Event):
    """A group was refused, as the server is full or shutting down."""

    detail: str


@dataclass(frozen=True, slots=True)
class DeadlineEvent(Event):
    """A group is scored without the members that have not come."""

    severity = Severity.WARNING
    is_printed_once = True
    group: str
    size: int
    came: int

    def text(self) -> Message:
        """Name the group, and say what to do."""
        return Message.of(
            f"group {self.group!r} has {self.came} of {self.size} members at its deadline, and is "
            "scored without the others. If this happens often: all requests of a group must reach "
            "the same server, and a trainer that loses members needs ",
            SettingRef("cohort_idle"),
        )


@dataclass(frozen=True, slots=True)
class MadeUpEvent(Event):
    """The middle of the scale stands for the mean of all rewards, as there is none yet."""

    severity = Severity.WARNING
    is_printed_once = True
    group: str
    reward: float

    def text(self) -> Message:
        """Name the group, and say what was sent."""
        return Message.of(
            f"group {self.group!r} has no reward, and no group before it has one: where a trainer "
            f"needs a number, their mean is {self.reward:g}, the middle of the judge's scale."
        )


@dataclass(frozen=True, slots=True)
class DrainingEvent(Event):
    """The server accepts no more groups; it has `open` ones, with `waiting` requests."""

    open: int
    waiting: int
