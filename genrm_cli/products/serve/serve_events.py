"""Events of a server."""

from msgspec import to_builtins

from genrm_cli.errors import Message, SettingRef
from genrm_cli.json_types import Record
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.products.serve.served_answers import GroupCounts


class GroupEvent(Event, frozen=True):
    """A group was answered, `waited_s` after its first member came."""

    group: str
    waited_s: float
    counts: GroupCounts

    def as_dict(self) -> Record:
        """Return the fields of a log line, with the counts among them."""
        status = self.counts.status
        fields: Record = {"group": self.group, "status": status, "waited_s": self.waited_s}
        return {**fields, **to_builtins(self.counts)}


class AbsentEvent(Event, frozen=True):
    """A member of a group will not come."""

    group: str
    member: str


class DisagreementEvent(Event, frozen=True):
    """A request contradicts earlier ones of its group."""

    group: str
    detail: str


class RefusedEvent(Event, frozen=True):
    """A group was refused, as the server is full or shutting down."""

    detail: str


class DeadlineEvent(Event, frozen=True):
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


class MadeUpEvent(Event, frozen=True):
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


class DrainingEvent(Event, frozen=True):
    """The server accepts no more groups; it has `open` ones, with `waiting` requests."""

    open: int
    waiting: int
