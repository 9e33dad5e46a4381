"""The state of one cohort: members present, members expected, and how to treat a further request.

    OPEN ──(all members came or will not come, or the deadline passed)──> CLOSED

A closed cohort has the members that its rewards rest on. One that closed without all of them takes
late members, each of which is compared with the members that it closed with and with no other late
one. A member that will not come may come all the same: its trainer resumed it."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Self

import msgspec
from msgspec import Struct

from genrm_cli.http_server.http_replies import RefusedError
from genrm_cli.rollouts.group_keys import digest_of_prompt
from genrm_cli.rollouts.rollout import Rollout


class JoinResult(Enum):
    """The effect of a request on its cohort."""

    NEW = "new"
    REPEATED = "repeated"
    LATE = "late"


class BusyError(RefusedError):
    """The server accepts no further group now."""

    status = 429
    kind = "busy"


class DrainingError(BusyError):
    """The server is shutting down."""

    status = 503


class DisagreementError(RefusedError):
    """A request contradicts what the cohort knows; the message names both."""

    status = 409
    kind = "disagreement"


class Member(Struct, frozen=True):
    """One rollout of a cohort.

    Attributes:
        id: unique in its cohort; it fixes the order of the members.
        line: the rollout as in a line of a file.
        shown: the line in whole characters.
        digest: of the line, which is JSON of `size_bytes`.
        task: the prompt's digest, the principle and the reference, which all members of a cohort
            share.
    """

    id: str
    line: Mapping[str, Any]
    shown: Mapping[str, Any]
    rollout: Rollout
    digest: bytes
    task: str
    size_bytes: int = 0

    @classmethod
    def of(
        cls, id_: str, line: Mapping[str, Any], shown: Mapping[str, Any], rollout: Rollout
    ) -> Self:
        """Return a member; its task is that of its rollout."""
        task = repr((digest_of_prompt(rollout.prompt), rollout.principle, rollout.reference))
        content = canonical_json(line)
        digest = hashlib.sha256(content).digest()
        return cls(id_, line, shown, rollout, digest, task, len(content))


def canonical_json(value: object) -> bytes:
    """Return a JSON value as bytes; equal values have equal bytes."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(value, sort_keys=True).encode()


NO_ROLLOUT = Rollout((), None)


def in_order(ids: Iterable[str]) -> list[str]:
    """Sort member ids: integers by value, before all others by text."""
    return sorted(ids, key=lambda id_: (index_in(id_) is None, index_in(id_) or 0, id_))


def index_in(id_: str) -> int | None:
    """Return the non-negative integer that an id spells; None for other ids."""
    # More digits than any group has members, so that no text is slow to convert.
    is_short_number = id_.isascii() and id_.isdecimal() and len(id_) < 10
    if not is_short_number or str(int(id_)) != id_:  # "07" is another id than "7"
        return None
    return int(id_)


class Cohort(Struct):
    """One cohort.

    Attributes:
        members: those that came in time, by id.
        late: those that came after it closed, by id.
        absent: ids of those that will not come.
    """

    name: str
    size: int
    members: dict[str, Member] = {}
    late: dict[str, Member] = {}
    is_closed: bool = False
    absent: set[str] = set()
    _has_indices: bool = True

    def join(self, member: Member, size: int) -> JoinResult:
        """Process a request of a member; raise `DisagreementError`, and change nothing, if it
        contradicts another.
        """
        self._check_size(member.id, size)
        first = next(iter(self.members.values()), None)
        if first is not None and first.task != member.task:
            raise DisagreementError(
                f"group {self.name!r}: messages, principle or reference of member {member.id!r} "
                f"are not those of {first.id!r}"
            )
        known = self.members.get(member.id) or self.late.get(member.id)
        if known is not None:
            if known.digest != member.digest:
                raise DisagreementError(
                    f"group {self.name!r}: member {member.id!r} came before with another content; "
                    "give each response its own member id"
                )
            return JoinResult.REPEATED
        if len(self.members) + len(self.late) >= self.size:
            raise DisagreementError(
                f"group {self.name!r}: its {self.size} members have come, {member.id!r} is one "
                "more; give each group of each step its own id"
            )
        if self.is_closed:
            self.late[member.id] = member
            return JoinResult.LATE
        self.absent.discard(member.id)  # its trainer resumed it
        self.members[member.id] = member
        index = index_in(member.id)
        self._has_indices = self._has_indices and index is not None and index < self.size
        return JoinResult.NEW

    def leave_out(self, member_id: str, size: int) -> bool:
        """Note that a member will not come, unless it has; return whether it is absent.

        Raises `DisagreementError` for another size, or one member too many.
        """
        self._check_size(member_id, size)
        if member_id in self.members or member_id in self.late:
            return False
        if not self.is_closed and member_id not in self.absent:
            if len(self.members) + len(self.absent) >= self.size:
                raise DisagreementError(
                    f"group {self.name!r}: its {self.size} members have come or will not come, "
                    f"{member_id!r} is one more; give each group of each step its own id"
                )
            self.absent.add(member_id)
        return True

    def _check_size(self, member_id: str, size: int) -> None:
        if size != self.size:
            raise DisagreementError(
                f"group {self.name!r}: member {member_id!r} says size {size}, the first member "
                f"said {self.size}"
            )

    @property
    def is_complete(self) -> bool:
        """Whether all members came in time."""
        return len(self.members) == self.size

    @property
    def is_settled(self) -> bool:
        """Whether each member came in time or will not come."""
        return len(self.members) + len(self.absent) >= self.size

    def index_of(self, member_id: str) -> int | None:
        """Return the index that a member has if all come; None unless all ids so far are 0 to size
        - 1.
        """
        return index_in(member_id) if self._has_indices else None

    def in_order(self, *late: str) -> list[Member]:
        """Return the members that came in time, and these late ones, by id."""
        members = self.members | {id_: self.late[id_] for id_ in late}
        return [members[id_] for id_ in in_order(members)]
