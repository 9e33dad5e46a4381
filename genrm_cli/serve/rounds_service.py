"""Cohorts of trainers that do not name their groups anew in each step."""

import asyncio
from dataclasses import dataclass, field, replace

from genrm_cli.groups.results import RolloutScore
from genrm_cli.serve.answers import GroupAnswer
from genrm_cli.serve.cohorts.cohort import Member
from genrm_cli.serve.cohorts.rounds import IsGone, Rounds, Ticket
from genrm_cli.serve.service import RewardService


@dataclass(slots=True)
class _Group:
    """The rounds of one group."""

    rounds: Rounds
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    requests: int = 0


class RoundsService:
    """Finds the round and the member that a request means, and joins them."""

    def __init__(self, service: RewardService, keep_s: float) -> None:
        self._service = service
        self._keep_s = keep_s
        self._groups: dict[str, _Group] = {}
        self._serial = 0

    async def join(
        self, name: str, size: int, member: Member, is_gone: IsGone, *, is_named: bool
    ) -> tuple[RolloutScore, GroupAnswer]:
        """Join the cohort that a request means; return the member's result, and the whole answer.

        Args:
            name: of the group, the same in each epoch.
            size: of the cohort.
            member: the response; its id counts only if `is_named`.
            is_gone: whether the client has left.
            is_named: whether the trainer names its members.

        Raises:
            DisagreementError: as `RewardService.join`.
            BusyError: as `RewardService.join`.
            GenrmError: as `RewardService.join`.
        """
        group = self._groups.setdefault(name, _Group(Rounds(name)))
        group.requests += 1
        try:
            async with group.turn:
                ticket = await self._admit(group.rounds, size, member, is_gone, member.id if is_named else None)
            answer = await self._service.join(ticket.round, size, replace(member, id=ticket.member_id))
            score = answer.score_of(ticket.member_id)
            ticket.has_left = score.reward is None or await is_gone()  # without a reward it will ask again
            ticket.is_delivered = ticket.is_delivered or not ticket.has_left
        finally:
            group.requests -= 1
            if not group.requests:
                asyncio.get_running_loop().call_later(self._keep_s + 1, self._forget, group)
        return score, answer

    async def _admit(self, rounds: Rounds, size: int, member: Member, is_gone: IsGone, member_id: str | None) -> Ticket:
        await rounds.look(member.digest, member_id)
        self._serial += 1
        is_kept = self._service.knows(rounds.round)
        return rounds.admit(member.digest, size, self._serial, is_gone, member_id, is_kept=is_kept)

    def _forget(self, group: _Group) -> None:
        if not group.requests and not self._service.knows(group.rounds.round):
            self._groups.pop(group.rounds.name, None)
