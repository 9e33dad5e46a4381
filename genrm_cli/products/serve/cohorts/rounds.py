"""Rounds: trainers that send no group id of their own use the same group again in each epoch, and
retry unannounced.

A request says which group and perhaps which member it is; it does not say whether it is a retry,
another equal response, or the same prompt one epoch later. How the earlier requests ended tells
them apart:

- a client that left without an answer retries, or its place goes to the next member;
- a client that has the answer begins the next round with another response; with the same one, its
  reply may have been lost on the way, so it is held back, too;
- a client that is still waiting is another member, unless the trainer names its members.

Where nobody waits in the latest round any more, a member that it lacks is either late or the first
of the next round. Nothing about its request says which, so it is held back until another request
does:

    held ──> a member that has its answer sends another, or too many come ──> the next round
         ──> nobody comes for as long as members of this group are apart ──> late, or answered again
"""

import asyncio
import time
from collections.abc import Callable
from itertools import chain
from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from genrm_cli.groups.line_records import ScoredLine
from genrm_cli.products.serve.cohorts.cohort import Cohort, DisagreementError, Member
from genrm_cli.products.serve.served_answers import GroupAnswer
from genrm_cli.products.serve.service import RewardService
from genrm_cli.settings.file_settings import ServeSettings

IsGone = Callable[[], bool]
# Members of one batch come within it, also over a busy network; a step that waits for a late one
# hardly notices it.
_SHORTEST_HOLD_S = 5.0
_STALLED_S = 0.5  # a timer that rings so late was kept by a slow disk or a stopped process
_BETWEEN_POLLS_S = 15.0  # a client that was told to ask again does so at once, if it is there


class Ticket(Struct):
    """The requests of one member in one round, whose key is unique among all rounds of all groups.

    Attributes:
        round: empty while the request is held back.
        is_gone: whether the latest client has got a reply or has left.
        is_delivered: whether a reward was sent to a client that was still there.
        is_late: whether its round had closed before.
        is_repeat: whether a client that has the answer sent the same again, and is held back.
        polls: whether the client was told to ask again, and has not yet.
        came_s: when it came, on the monotonic clock.
    """

    round: str
    member_id: str
    digest: bytes
    is_gone: IsGone
    is_delivered: bool = False
    is_late: bool = False
    is_repeat: bool = False
    polls: bool = False
    came_s: float = field(default_factory=time.monotonic)

    @property
    def has_left(self) -> bool:
        """Whether no client waits, and none has the reward."""
        return not self.is_delivered and self.is_gone()

    def is_over_for(self, digest: bytes) -> bool:
        """Whether a request of this member with this digest cannot be a retry."""
        return self.is_delivered or (self.digest != digest and (self.polls or self.has_left))

    def is_same_as_delivered(self, digest: bytes) -> bool:
        """Whether a request with this digest may be a retry of one whose reply was lost."""
        return self.is_delivered and self.digest == digest

    def ask_again(self, is_gone: IsGone) -> None:
        """Note that a client repeats the request."""
        self.is_gone = is_gone
        self.polls = False

    def expect_again(self, is_gone: IsGone) -> None:
        """Note that a client was told to ask again, unless it had left or has asked since."""
        if self.is_gone is not is_gone or is_gone():
            return
        until_s = time.monotonic() + _BETWEEN_POLLS_S
        self.is_gone = lambda: time.monotonic() > until_s
        self.polls = True


class Rounds(Struct):
    """The latest round of one group: its key, empty before the first, and its tickets by member id.

    Attributes:
        held: tickets that may be late, or of the next round.
        decided: set once the held ones have a round; another event takes its place.
    """

    name: str
    round: str = ""
    tickets: dict[str, Ticket] = {}
    held: dict[str, Ticket] = {}
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0
    timer: asyncio.TimerHandle | None = None

    @classmethod
    def of_kept(cls, name: str, cohort: Cohort | None) -> Self:
        """Return the rounds of a group after a restart: clients of the latest, if it is kept, may
        lack its answer.
        """
        if cohort is None:
            return cls(name)
        members = (cohort.members | cohort.late).values()
        tickets = {
            each.id: Ticket(cohort.name, each.id, each.digest, lambda: True) for each in members
        }
        return cls(name, cohort.name, tickets)

    @property
    def spread_s(self) -> float:
        """Seconds from the first member of the latest round to the last that came in time."""
        came = [each.came_s for each in self.tickets.values() if not each.is_late]
        return max(came, default=0.0) - min(came, default=0.0)

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
        """Return the ticket of a request, without a round if the request is held back; `serial` is
        unique to the round that it may begin.

        `member_id` is None if the trainer sends none. `latest` is the cohort of the latest round;
        None if it is not known any more."""
        if latest is None:
            self.begin_round(serial)
        is_open = latest is not None and not latest.is_closed
        repeated = self._repeated(digest, member_id)
        if repeated is not None and repeated.is_repeat and repeated.digest != digest:
            # Its member has another response now, so it was a retry: it is answered again.
            repeated.round = self.round
            del self.held[repeated.member_id]
            self.begin_round(serial)
            repeated = None
            latest = None
        if repeated is not None and not repeated.is_over_for(digest):
            repeated.ask_again(is_gone)
            if is_open and repeated.round:
                self.settle()  # its round goes on
            return repeated
        is_answered = latest is not None and latest.is_closed
        if repeated is not None and is_answered and repeated.is_same_as_delivered(digest):
            return self._hold_repeat(repeated, size, serial, is_gone)
        was_held = repeated is not None and self.held.pop(repeated.member_id, None) is not None
        if repeated is not None and not was_held:
            # An epoch later, or dispatched again after an accident.
            self.begin_round(serial)
            latest = None
        if latest is not None and is_open and member_id is None:
            self._free_seat(latest)
        free = size - len(self.tickets)
        is_unclear = latest is not None and self._is_unclear(is_open, member_id)
        newcomers = sum(not each.is_repeat for each in self.held.values())
        if free <= 0 or (is_unclear and newcomers >= free):
            self.begin_round(serial)
            latest = None
            is_unclear = False
        is_late = latest is not None and latest.is_closed
        ticket = Ticket("", self._new_id(digest, member_id), digest, is_gone, is_late=is_late)
        if is_unclear:
            self.held[ticket.member_id] = ticket
        else:
            ticket.round = self.round
            self.tickets[ticket.member_id] = ticket
            self.settle()
        return ticket

    def _repeated(self, digest: bytes, member_id: str | None) -> Ticket | None:
        """Return the ticket that a request may repeat: that of its id, or without ids that of an
        equal response whose client has left, or else has the answer.
        """
        known = self.tickets | self.held
        if member_id is not None:
            return known.get(member_id)
        equal = [each for each in known.values() if each.digest == digest]
        left = (each for each in equal if each.polls or each.has_left)
        delivered = (each for each in equal if each.is_delivered)
        return next(chain(left, delivered), None)

    def _hold_repeat(self, repeated: Ticket, size: int, serial: int, is_gone: IsGone) -> Ticket:
        """Hold a request back that was answered before; all members together are a next round of
        equal responses.
        """
        id_ = repeated.member_id
        ticket = Ticket("", id_, repeated.digest, is_gone, is_late=repeated.is_late, is_repeat=True)
        self.held[id_] = ticket
        if len(self.held) >= size:
            self.begin_round(serial)
        return ticket

    def _is_unclear(self, is_open: bool, member_id: str | None) -> bool:
        """Whether a member that the latest round lacks may be of the next one: nobody waits in the
        latest any more, or all who do are between two requests, and the next will tell.
        """
        in_time = [each for each in self.tickets.values() if not each.is_late]
        polls = any(each.polls for each in in_time)
        if is_open and member_id is None and not polls:
            return False  # those who have left give up their seats
        nobody_waits = all(each.is_delivered or each.polls or each.is_gone() for each in in_time)
        return nobody_waits and bool(in_time)

    def _free_seat(self, cohort: Cohort) -> None:
        """Withdraw a member of an open cohort whose client has left: if it comes back, it finds
        another seat, and if it does not, nobody is compared with an abandoned response.
        """
        left = next((each for each in self.tickets.values() if each.has_left), None)
        if left is not None:
            del self.tickets[left.member_id]
            cohort.members.pop(left.member_id, None)

    def _new_id(self, digest: bytes, member_id: str | None) -> str:
        id_ = member_id or digest.hex()[:24]
        number = 1
        while id_ in self.tickets or id_ in self.held:
            number += 1
            id_ = f"{digest.hex()[:24]}-{number}"
        return id_

    def begin_round(self, serial: int) -> None:
        """Begin a round with the requests that are held back. A client that was told to ask again
        joins when it does.
        """
        self.round = f"{self.name}#{serial}"
        self.tickets = {}
        self.held = {id_: each for id_, each in self.held.items() if not each.polls}
        for each in self.held.values():
            each.is_late = False
        self.settle()

    def settle(self) -> None:
        """Give the requests that are held back a place in the latest round, unless their clients
        have left.
        """
        seated = {id_: each for id_, each in self.held.items() if not each.has_left}
        for id_, each in seated.items():
            each.round = self.round
            if each.is_repeat and id_ in self.tickets:
                each.came_s = self.tickets[id_].came_s
            each.is_repeat = False
        self.tickets |= seated
        self.held = {}
        self.decided.set()
        self.decided = asyncio.Event()


class RoundsService:
    """Finds the round and the member that a request means, and joins them in a service."""

    def __init__(self, service: RewardService, settings: ServeSettings) -> None:
        self.service = service
        self._settings = settings
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
    ) -> tuple[ScoredLine, GroupAnswer]:
        """Join the cohort that a request means, as `RewardService.join` does; return the member's
        result, and all.

        The name of the group is the same in each epoch. The id of the member counts only if
        `is_named`. `asks_again`: a client that gets no reward sends its request again. A cancelled
        caller's client was told to ask again."""
        key = f"{name}#"
        gone = f"group {name!r}: the client of this request had left"
        rounds = self._groups.get(name)
        if rounds is None:
            rounds = self._groups[name] = Rounds.of_kept(name, self.service.restore(key))
        rounds.requests += 1
        ticket = self._admit(rounds, size, member, is_gone, is_named=is_named)
        try:
            if not ticket.round:
                await rounds.decided.wait()
            if not ticket.round:  # nobody gets this reply
                raise DisagreementError(gone)
            member = replace(member, id=ticket.member_id)
            answer = await self.service.join(ticket.round, size, member, key=key)
            if ticket.member_id not in answer.ids:
                raise DisagreementError(gone)
            score = answer.score_of(ticket.member_id)
            has_reply = score.reward is not None or not asks_again
            ticket.is_delivered = ticket.is_delivered or (has_reply and not is_gone())
        except asyncio.CancelledError:
            ticket.expect_again(is_gone)
            raise
        finally:
            rounds.requests -= 1
            if not rounds.requests:
                # A second after the table forgets its cohort, at the latest.
                loop = asyncio.get_running_loop()
                loop.call_later(self._settings.keep + 1, self._forget, rounds)
        return score, answer

    def _admit(
        self, rounds: Rounds, size: int, member: Member, is_gone: IsGone, *, is_named: bool
    ) -> Ticket:
        self._serial += 1
        earlier = rounds.round
        held = len(rounds.held)
        ticket = rounds.admit(
            member.digest,
            size,
            self._serial,
            is_gone,
            member.id if is_named else None,
            latest=self.service.table.cohorts.get(rounds.round),
        )
        # Else, after a restart, the answers of the last round would be those of this one.
        if earlier not in ("", rounds.round):
            self.service.journal.drop(f"{rounds.name}#")
        if len(rounds.held) > held:
            self._hold(rounds, self._hold_s(rounds))
        return ticket

    def _hold(self, rounds: Rounds, for_s: float) -> None:
        if rounds.timer is not None:
            rounds.timer.cancel()
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + for_s
        rounds.timer = loop.call_at(ends_s, self._end_hold, rounds, ends_s)

    def _end_hold(self, rounds: Rounds, ends_s: float) -> None:
        """Nobody else came: those held back are late, or after a restart, which has lost the texts
        of the others, can be compared with each other only.
        """
        if asyncio.get_running_loop().time() > ends_s + _STALLED_S:
            # The machine stood still: what was sent meanwhile is still to be read.
            self._hold(rounds, self._hold_s(rounds))
            return
        latest = self.service.table.cohorts.get(rounds.round)
        newcomers = [each for each in rounds.held.values() if not each.is_repeat]
        if len(newcomers) > 1 and latest is not None and latest.judged is None:
            self._serial += 1
            rounds.begin_round(self._serial)
        else:
            rounds.settle()

    def _hold_s(self, rounds: Rounds) -> float:
        """Return how long the members of a group may be apart: as the user says, or as far as those
        of the latest round were.
        """
        if self._settings.cohort_idle is not None:
            return self._settings.cohort_idle
        return min(self._settings.cohort_deadline, max(_SHORTEST_HOLD_S, rounds.spread_s))

    def _forget(self, rounds: Rounds) -> None:
        if not rounds.requests and rounds.round not in self.service.table.cohorts:
            self._groups.pop(rounds.name, None)
