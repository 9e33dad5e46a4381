"""Rounds: trainers that send no group id of their own use the same group again in each epoch, and
retry unannounced.

A request says which group and which member it is; it does not say whether it is a retry, another
equal response, or the same prompt one epoch later. How the earlier requests ended tells them apart:

- a client that left without an answer retries;
- a client that has the answer begins the next round, whatever the response;
- a client that is still waiting is another member, unless the trainer names its members.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Self

from genrm_cli.groups.results import RolloutScore
from genrm_cli.products.serve.cohorts.cohort import Cohort, Member
from genrm_cli.products.serve.served_answers import GroupAnswer
from genrm_cli.products.serve.service import RewardService

IsGone = Callable[[], Awaitable[bool]]


@dataclass(slots=True)
class Ticket:
    """The requests of one member in one round, whose key is unique among all rounds of all groups.

    Attributes:
        has_left: whether the client has left without a reward.
        is_delivered: whether a reward was sent to a client that was still there.
    """

    round: str
    member_id: str
    digest: bytes
    is_gone: IsGone
    has_left: bool = False
    is_delivered: bool = False

    def is_over_for(self, digest: bytes) -> bool:
        """Whether a request of this member with this digest cannot be a retry."""
        return self.is_delivered or (self.has_left and self.digest != digest)


@dataclass(slots=True)
class Rounds:
    """The latest round of one group: its key, empty before the first, and its tickets by member id.

    `turn` is held while a request is admitted.
    """

    name: str
    round: str = ""
    tickets: dict[str, Ticket] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    requests: int = 0

    @classmethod
    def of_kept(cls, name: str, cohort: Cohort | None) -> Self:
        """Return the rounds of a group after a restart: clients of the latest, if it is kept, may
        lack its answer.
        """
        if cohort is None:
            return cls(name)

        async def has_left() -> bool:
            return True

        members = (cohort.members | cohort.late).values()
        tickets = {
            each.id: Ticket(cohort.name, each.id, each.digest, has_left, has_left=True)
            for each in members
        }
        return cls(name, cohort.name, tickets)

    async def look(self, digest: bytes, member_id: str | None) -> None:
        """Ask whether the clients of the requests that this one could repeat have left."""
        for ticket in self.tickets.values():
            if ticket.digest == digest or ticket.member_id == member_id:
                ticket.has_left = ticket.has_left or await ticket.is_gone()

    def admit(
        self,
        digest: bytes,
        size: int,
        serial: int,
        is_gone: IsGone,
        member_id: str | None = None,
        *,
        latest: Cohort | None,
    ) -> Ticket:
        """Return the ticket of a request; `serial` is unique to the round that it may begin.

        `member_id` is None if the trainer sends none. `latest` is the cohort of the latest round;
        None if it is not known any more."""
        if latest is None:
            self._begin_round(serial)
        if member_id is None:
            # An equal response whose client left without an answer.
            left = (each for each in self.tickets.values() if each.has_left)
            repeated = next((each for each in left if not each.is_over_for(digest)), None)
        else:
            repeated = self.tickets.get(member_id)
            if repeated is not None and repeated.is_over_for(digest):
                self._begin_round(serial)  # an epoch later, or dispatched again after an accident
                repeated = None
        if repeated is not None:
            repeated.has_left = False
            repeated.is_gone = is_gone
            return repeated
        # Without ids, a further response after an answered round is the next epoch's first: as its
        # missing member, it would be missing there.
        is_over = latest is not None and latest.is_closed and member_id is None
        is_answered = is_over and any(each.is_delivered for each in self.tickets.values())
        if len(self.tickets) >= size or is_answered:
            self._begin_round(serial)
        id_ = member_id or digest.hex()[:24]
        number = 1
        while id_ in self.tickets:
            number += 1
            id_ = f"{digest.hex()[:24]}-{number}"
        ticket = self.tickets[id_] = Ticket(self.round, id_, digest, is_gone)
        return ticket

    def _begin_round(self, serial: int) -> None:
        self.round = f"{self.name}#{serial}"
        self.tickets = {}


class RoundsService:
    """Finds the round and the member that a request means, and joins them in a service."""

    def __init__(self, service: RewardService, keep_s: float) -> None:
        self.service = service
        self._keep_s = keep_s
        self._groups: dict[str, Rounds] = {}
        # Not 0: rounds that the journal keeps from before a restart have other names.
        self._serial = time.time_ns()

    async def join(
        self,
        name: str,
        size: int,
        member: Member,
        is_gone: IsGone,
        *,
        is_named: bool,
        asks_again: bool = True,
    ) -> tuple[RolloutScore, GroupAnswer]:
        """Join the cohort that a request means, as `RewardService.join` does; return the member's
        result, and all.

        The name of the group is the same in each epoch. The id of the member counts only if
        `is_named`. `asks_again`: a client that gets no reward sends its request again."""
        key = f"{name}#"
        rounds = self._groups.get(name)
        if rounds is None:
            rounds = self._groups[name] = Rounds.of_kept(name, self.service.restore(key))
        rounds.requests += 1
        try:
            # One after the other: asking whether clients have left takes time, in which another
            # request could take the same ticket.
            async with rounds.turn:
                member_id = member.id if is_named else None
                await rounds.look(member.digest, member_id)
                self._serial += 1
                earlier = rounds.round
                ticket = rounds.admit(
                    member.digest,
                    size,
                    self._serial,
                    is_gone,
                    member_id,
                    latest=self.service.table.cohorts.get(rounds.round),
                )
                # Else, after a restart, the answers of the last round would be those of this one.
                if earlier not in ("", ticket.round):
                    self.service.journal.drop(key)
            member = replace(member, id=ticket.member_id)
            answer = await self.service.join(ticket.round, size, member, key=key)
            score = answer.score_of(ticket.member_id)
            ticket.has_left = (asks_again and score.reward is None) or await is_gone()
            ticket.is_delivered = ticket.is_delivered or not ticket.has_left
        finally:
            rounds.requests -= 1
            if not rounds.requests:
                # A second after the table forgets its cohort, at the latest.
                asyncio.get_running_loop().call_later(self._keep_s + 1, self._forget, rounds)
        return score, answer

    def _forget(self, rounds: Rounds) -> None:
        if not rounds.requests and rounds.round not in self.service.table.cohorts:
            self._groups.pop(rounds.name, None)
