"""Groups and cohorts by name, from their first request until their answers expire."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator

from msgspec import field
from msgspec.structs import replace

from genrm_cli.groups.asking.arriving import ArrivingGroup
from genrm_cli.groups.group import JudgedGroup
from genrm_cli.products.serve.cohorts.cohort import NO_ROLLOUT, Cohort
from genrm_cli.products.serve.served_answers import GroupAnswer, GroupCounts
from genrm_cli.settings.file_settings import ServeSettings

_TIMER_SLACK_S = 0.05
"""Added to a timer, which may ring a little before the time that it was set for."""


class ServedGroup(Cohort, kw_only=True):
    """A group or cohort from its first request until it is forgotten.

    Attributes:
        key: name under which the answer of a cohort is kept in the journal; None for a group.
        arriving: its requests to the judges; None before its first member.
        judged: None before it was judged, and for a cohort from before a restart.
        closes_at_s: when a cohort stops waiting for members, on the clock of the event loop.
        timer: rings then, or earlier if no member comes.
        late_answers: of members that were judged after the others.
        size_bytes: of its members' lines, while it is open.
    """

    answer: "asyncio.Future[GroupAnswer]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    opened_s: float = field(default_factory=time.monotonic)
    key: str | None = None
    arriving: ArrivingGroup | None = None
    judged: JudgedGroup | None = None
    closes_at_s: float = 0.0
    timer: asyncio.TimerHandle | None = None
    late_answers: dict[str, "asyncio.Future[GroupAnswer]"] = {}
    size_bytes: int = 0

    def set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        """Replace the timer."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = timer

    def is_final(self, counts: GroupCounts) -> bool:
        """Whether a repeated request gets the same answer; otherwise it is judged again."""
        return counts.scored > 0 and (self.key is not None or not counts.unanswered)

    def answer_of(self, member_id: str) -> "asyncio.Future[GroupAnswer] | None":
        """Return the answer for a member; None if the member is to be judged now.

        A late member is, and one without a reward because the judge did not answer, as far as texts
        are known.
        """
        answer = self.late_answers.get(member_id)
        if answer is None and member_id in self.members:
            answer = self.answer
        if answer is None or self.judged is None or not answer.done():
            return answer
        if answer.exception() is not None:
            return None
        found = answer.result()
        is_over = found.score_of(member_id).reward is not None or not found.counts.unanswered
        return answer if is_over else None

    def release(self) -> None:
        """Drop the texts of a group that takes no late member."""
        self.judged = None
        self.arriving = None
        self.members = {
            id_: replace(each, line={}, rollout=NO_ROLLOUT) for id_, each in self.members.items()
        }


class ServedGroups:
    """Groups and cohorts by name, from the first request until their answers were kept long
    enough.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.groups: dict[str, ServedGroup] = {}
        self.cohorts: dict[str, ServedGroup] = {}
        self._keep_s = settings.keep
        self._most = settings.max_cohorts
        self._kept: deque[tuple[float, ServedGroup]] = deque()

    def keep(self, entry: ServedGroup) -> None:
        """Forget an answered group after a while."""
        self._kept.append((time.monotonic() + self._keep_s, entry))
        asyncio.get_running_loop().call_later(self._keep_s + _TIMER_SLACK_S, self._forget_stale)
        self._forget_stale()

    def _forget_stale(self) -> None:
        """Forget answers that were kept long enough, and the oldest ones of too many."""
        now_s = time.monotonic()
        # All are kept for the same time, so the oldest is always the first.
        while self._kept and (self._kept[0][0] <= now_s or len(self._kept) > self._most):
            self.forget(self._kept.popleft()[1])

    def forget(self, entry: ServedGroup) -> None:
        """Let another group have the name."""
        for among in (self.groups, self.cohorts):
            if among.get(entry.name) is entry:
                del among[entry.name]

    def iter_open(self) -> Iterator[ServedGroup]:
        """Yield the groups without an answer."""
        every = (*self.groups.values(), *self.cohorts.values())
        return (entry for entry in every if not entry.answer.done())

    @property
    def oldest_s(self) -> float:
        """Age of the oldest group without an answer; 0 if there is none."""
        now_s = time.monotonic()
        return max((now_s - entry.opened_s for entry in self.iter_open()), default=0.0)
