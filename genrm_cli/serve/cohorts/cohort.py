"""The state of one cohort: who came, who may still come, and what a further request means.

    OPEN ──(all members came, or the deadline passed)──> CLOSED

A closed cohort has the members that its rewards rest on. One that closed without all of them takes late members, each
of which is compared with the members that it closed with and with no other late one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from genrm_cli.serve.cohorts.member import Member, in_order, index_in


class Joining(Enum):
    """What a request means for its cohort."""

    NEW = "new"
    REPEATED = "repeated"
    LATE = "late"


class DisagreementError(Exception):
    """A request contradicts what the cohort knows; the message names both."""


@dataclass(slots=True)
class Cohort:
    """One cohort.

    Attributes:
        name: its group id.
        size: the number of its members.
        declared: the ids of all its members, if they were given; else empty.
        members: those that came in time, by id.
        late: those that came after it was closed, by id.
        is_closed: whether its members are settled.
    """

    name: str
    size: int
    declared: Sequence[str] = ()
    members: dict[str, Member] = field(default_factory=dict)
    late: dict[str, Member] = field(default_factory=dict)
    is_closed: bool = False
    _has_indices: bool = True

    def join(self, member: Member, size: int, declared: Sequence[str] = ()) -> Joining:
        """Take a request of a member.

        Args:
            member: who asks.
            size: of the cohort, as the request says.
            declared: ids of all members, as the request says; empty if it does not.

        Raises:
            DisagreementError: the request contradicts an earlier one. Nothing has changed then.
        """
        self._check(member, size, declared)
        known = self.members.get(member.id) or self.late.get(member.id)
        if known is not None:
            if known.digest != member.digest:
                raise DisagreementError(
                    f"group {self.name!r}: member {member.id!r} came before with another content; "
                    "give each response its own member id"
                )
            return Joining.REPEATED
        if len(self.members) + len(self.late) >= self.size:
            raise DisagreementError(
                f"group {self.name!r}: its {self.size} members have come, {member.id!r} is one more; "
                "give each group of each step its own id"
            )
        if self.is_closed:
            self.late[member.id] = member
            return Joining.LATE
        self.members[member.id] = member
        index = index_in(member.id)
        self._has_indices = self._has_indices and index is not None and index < self.size
        return Joining.NEW

    def _check(self, member: Member, size: int, declared: Sequence[str]) -> None:
        if size != self.size:
            raise DisagreementError(
                f"group {self.name!r}: member {member.id!r} says size {size}, the first member said {self.size}"
            )
        if declared and self.declared and in_order(declared) != in_order(self.declared):
            raise DisagreementError(f"group {self.name!r}: member {member.id!r} lists other members than the first one")
        if self.declared and member.id not in self.declared:
            raise DisagreementError(f"group {self.name!r}: {member.id!r} is not in the list of its members")
        first = next(iter(self.members.values()), None)
        if first is not None and first.task != member.task:
            raise DisagreementError(
                f"group {self.name!r}: messages or principle of member {member.id!r} are not those of {first.id!r}"
            )

    def close(self) -> None:
        """Settle the members; whoever comes now is late."""
        self.is_closed = True

    def release_texts(self) -> None:
        """Drop the texts of a cohort that takes no late member."""
        self.members = {id_: member.without_texts() for id_, member in self.members.items()}

    @property
    def is_complete(self) -> bool:
        """Whether all members came in time."""
        return len(self.members) == self.size

    def index_of(self, member_id: str) -> int | None:
        """Return the index that a member has if all come; None where that is not certain before all have come.

        It is certain where the ids are declared, or are 0 to size - 1.
        """
        if self.declared:
            return in_order(self.declared).index(member_id)
        return index_in(member_id) if self._has_indices else None

    def in_order(self) -> list[Member]:
        """Return the members that came in time, by id."""
        return [self.members[id_] for id_ in in_order(self.members)]

    def with_late(self, member_id: str) -> list[Member]:
        """Return the members that came in time and one late one, by id."""
        members = {**self.members, member_id: self.late[member_id]}
        return [members[id_] for id_ in in_order(members)]
