"""Groups and cohorts of a server: their waiting requests, and when each is judged.

    request ──> join or judge ──> the members wait on `GroupEntry.answer`
                  │ the last member, or a timer
                  v
                close ──> judge (a task) ──> ready ──> conclude, several groups at once ──> answer

A cohort asks about a pair as soon as both of its members have come. All state changes happen on the
event loop, between two awaits. The judging is a task of its own: a client that leaves cancels
nothing. An answer is in the journal before anyone gets it, so that a member that asks again after a
kill gets the same reward.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from genrm_cli.errors import StorageError
from genrm_cli.groups.arriving import ArrivingGroup
from genrm_cli.groups.group import Group
from genrm_cli.groups.results import GroupRewards
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.serve.cohorts.cohort import (
    BusyError,
    Cohort,
    DisagreementError,
    DrainingError,
    JoinResult,
    Member,
)
from genrm_cli.serve.cohorts.group_table import GroupEntry, ServedGroups
from genrm_cli.serve.cohorts.kept_cohorts import KeptCohort, KeptCohorts
from genrm_cli.serve.recorder import Recorder
from genrm_cli.serve.serve_events import (
    AbsentEvent,
    DeadlineEvent,
    DisagreementEvent,
    DrainingEvent,
    GroupEvent,
    RefusedEvent,
)
from genrm_cli.serve.served_answers import GroupAnswer, GroupCounts, ServiceCounts
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.steps import StepMetrics
from genrm_cli.settings.file_settings import ServeSettings
from genrm_cli.storage.record_events import StorageFailedEvent

_DRAIN_POLL_S = 0.05  # a fraction of what a judge takes
# A fit over several groups costs little more than over one: groups that end close together are
# concluded in one. A group waits at most this long for others, which nobody notices next to the
# seconds that a judge takes.
_BATCH_WAIT_S = 0.02
_MAX_BATCH = 64


class RewardService:
    """Judges groups and cohorts, each once, however often they are requested.

    Attributes:
        open_groups: number of groups and cohorts that have no answer yet.
        being_judged: comparisons of groups whose members have come, and that have no answer yet.
    """

    def __init__(
        self,
        scorer: ServedScorer,
        settings: ServeSettings,
        on_event: OnEvent = ignore_event,
        recorder: Recorder | None = None,
        steps: StepMetrics | None = None,
    ) -> None:
        self._scorer = scorer
        self._settings = settings
        self._on_event = on_event
        self.recorder = recorder
        self.steps = steps
        self.plan = scorer.plan
        self.counts = ServiceCounts()
        self.table = ServedGroups(settings)
        self.open_groups = 0
        self.being_judged = 0
        self.waiting = 0
        self.is_draining = False
        owner = f"{scorer.owner} {settings.listen}"
        self.journal = KeptCohorts(scorer.journal, owner, settings.keep)
        self._ready: list[GroupEntry] = []
        # The event loop holds tasks weakly.
        self._tasks: set[asyncio.Task[None]] = set()

    def knows(self, name: str) -> bool:
        """Whether a cohort of this name is open or kept."""
        return name in self.table.cohorts

    def is_closed(self, name: str) -> bool:
        """Whether a cohort of this name is known and waits for no further member in time."""
        entry = self.table.cohorts.get(name)
        return entry is not None and entry.cohort.is_closed

    def restore(self, key: str) -> Cohort | None:
        """Return the cohort kept under a name, which members may join again; None without one."""
        kept = self.journal.read(key)
        if kept is None:
            return None
        entry = self.table.cohorts.get(kept.name)
        if entry is not None:
            return entry.cohort
        answers = {id_: asyncio.get_running_loop().create_future() for id_ in kept.answers}
        for id_, answer in answers.items():
            answer.set_result(kept.answers[id_].answer(kept.name))
        entry = GroupEntry(kept.cohort(), answers.pop(""), key=key, late=answers)
        self.table.cohorts[kept.name] = entry
        self.table.keep(entry)
        return entry.cohort

    async def join(
        self, name: str, size: int, member: Member, *, key: str | None = None
    ) -> GroupAnswer:
        """Add a member to its cohort, wait for the cohort, and return the answer that has this
        member's reward.

        A cancelled caller cancels nothing. The answer is kept in the journal under `key`, by
        default the name. Raises `RefusedError` if the request cannot be served, and `GenrmError` if
        the group cannot be judged.
        """
        if name not in self.table.cohorts and key is None:
            self.restore(name)
        entry = self.table.cohorts.get(name) or self._open_cohort(name, size, key or name)
        if self._enter(entry, member, size) is JoinResult.NEW:
            index = entry.cohort.index_of(member.id)
            if index is not None:
                self._arriving_of(entry, member).add(index, member.rollout, member.line)
            self._close_or_wait(entry)
        answer = entry.answer_of(member.id)
        if answer is None:
            answer = entry.late[member.id] = asyncio.ensure_future(self._judge_late(entry, member))
        return await self._wait(answer)

    def leave_out(self, name: str, size: int, member_id: str) -> bool:
        """Tell a cohort that a member will not come; return False if it has come before.

        The others are answered at once if they wait for no other. Raises `RefusedError` as `join`
        does.
        """
        if name not in self.table.cohorts and self.restore(name) is None:
            self._open_cohort(name, size, name)
        entry = self.table.cohorts[name]
        was_absent = member_id in entry.cohort.absent
        with self._counting_disagreements(entry):
            is_absent = entry.cohort.leave_out(member_id, size)
        if is_absent and not was_absent and not entry.cohort.is_closed:
            self.counts.absent += 1
            self._on_event(AbsentEvent(name, member_id))
            self._close_or_wait(entry)
        return is_absent

    async def judge(
        self, name: str, members: Sequence[Member], deadline_s: float | None = None
    ) -> GroupAnswer:
        """Judge a whole group; its members have different ids. Raises as `join` does.

        Comparisons without an answer after `deadline_s` have failed.
        """
        entry = self.table.groups.get(name)
        if entry is None:
            self._refuse_above(
                self._settings.queue, self.being_judged, "comparisons are waiting (queue)"
            )
            cohort = Cohort(name, len(members))
            for member in members:
                cohort.join(member, len(members))
            entry = self._begin(self.table.groups, cohort)
            self._close(entry, deadline_s)
        else:
            for member in members:
                self._enter(entry, member, len(members))
        return await self._wait(entry.answer)

    async def _wait(self, answer: "asyncio.Future[GroupAnswer]") -> GroupAnswer:
        self.waiting += 1
        try:
            return await asyncio.shield(answer)
        finally:
            self.waiting -= 1

    def _open_cohort(self, name: str, size: int, key: str) -> GroupEntry:
        self._refuse_above(
            self._settings.max_cohorts, self.open_groups, "cohorts are open (max_cohorts)"
        )
        entry = self._begin(self.table.cohorts, Cohort(name, size))
        entry.key = key
        entry.closes_at_s = asyncio.get_running_loop().time() + self._settings.cohort_deadline
        return entry

    def _begin(self, among: dict[str, GroupEntry], cohort: Cohort) -> GroupEntry:
        entry = GroupEntry(cohort, asyncio.get_running_loop().create_future())
        among[cohort.name] = entry
        self.open_groups += 1
        return entry

    def _refuse_above(self, most: int, count: int, what: str) -> None:
        """Refuse a further group while the server is full or shutting down."""
        error: BusyError
        if self.is_draining:
            error = DrainingError("the server is shutting down")
        elif count >= most:
            error = BusyError(f"{count} {what}")
        else:
            return
        self.counts.refused += 1
        self._on_event(RefusedEvent(str(error)))
        raise error

    def _enter(self, entry: GroupEntry, member: Member, size: int) -> JoinResult:
        with self._counting_disagreements(entry):
            joining = entry.cohort.join(member, size)
        self.counts.repeated += joining is JoinResult.REPEATED
        self.counts.late += joining is JoinResult.LATE
        return joining

    @contextmanager
    def _counting_disagreements(self, entry: GroupEntry) -> Iterator[None]:
        try:
            yield
        except DisagreementError as error:
            self.counts.disagreements += 1
            self._on_event(DisagreementEvent(entry.cohort.name, str(error)))
            raise

    def _arriving_of(self, entry: GroupEntry, member: Member) -> ArrivingGroup:
        """Return the requests about a group, which begin with one of its members."""
        if entry.arriving is None:
            key = group_key(member.rollout, 1)
            entry.arriving = self._scorer.arriving(key, entry.cohort.size)
        return entry.arriving

    def _close_or_wait(self, entry: GroupEntry) -> None:
        """Close a cohort that nobody else joins; otherwise wait for the next member."""
        if entry.cohort.is_settled:
            self._close(entry)
            return
        loop = asyncio.get_running_loop()
        rings_at_s = entry.closes_at_s
        if self._settings.cohort_idle is not None:
            rings_at_s = min(rings_at_s, loop.time() + self._settings.cohort_idle)
        entry.set_timer(loop.call_at(rings_at_s, self._end_waiting, entry))

    def _end_waiting(self, entry: GroupEntry) -> None:
        cohort = entry.cohort
        came = len(cohort.members)
        self.counts.deadlines += 1
        self.counts.missing += cohort.size - came - len(cohort.absent)
        self._on_event(DeadlineEvent(cohort.name, cohort.size, came))
        self._close(entry)

    def _close(self, entry: GroupEntry, deadline_s: float | None = None) -> None:
        """Settle the members of a group, and judge it."""
        entry.cohort.is_closed = True
        entry.set_timer(None)
        if not entry.cohort.members:
            self._fail(entry, DisagreementError("no member of this group comes"))
            return
        task = asyncio.ensure_future(self._judge(entry, deadline_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _judge(self, entry: GroupEntry, deadline_s: float | None) -> None:
        members = entry.cohort.in_order()
        group = _group_of(members)
        references = None if self.steps is None else self.steps.references
        requests = self.plan.count_requests(len(members))
        if references is not None:
            requests += references.count_requests(group)
        self.being_judged += requests
        try:
            judging = self._arriving_of(entry, members[0]).judge(group, deadline_s)
            if references is None:
                entry.judged = await judging
            else:
                comparing = references.compare(group, deadline_s)
                entry.judged, entry.compared = await asyncio.gather(judging, comparing)
        except Exception as error:  # noqa: BLE001  (those who wait get it)
            self._fail(entry, error)
            return
        finally:
            self.being_judged -= requests
        self._ready.append(entry)
        if len(self._ready) >= _MAX_BATCH or not self.being_judged:
            self._conclude_ready()
        elif len(self._ready) == 1:
            asyncio.get_running_loop().call_later(_BATCH_WAIT_S, self._conclude_ready)

    def _conclude_ready(self) -> None:
        """Answer the groups that have been judged; several together cost little more than one."""
        # Draining may have given some up.
        ready = [entry for entry in self._ready if not entry.answer.done()]
        self._ready = []
        if not ready:
            return
        judged = []
        for entry in ready:
            members = entry.cohort.in_order()
            part = _digest_of(entry.key or entry.cohort.name, members)
            if entry.judged is not None:
                judged.append((part, _group_of(members), entry.judged))
        try:
            results = self._scorer.conclude(judged)
            answers = [
                self._answer_of(entry, entry.cohort.in_order(), rewards)
                for entry, rewards in zip(ready, results, strict=True)
            ]
            self._store(ready, answers)
        except Exception as error:  # noqa: BLE001  (those who wait get it)
            for entry in ready:
                self._fail(entry, error)
            return
        for entry, answer in zip(ready, answers, strict=True):
            self._answer(entry, answer)

    def _store(self, ready: Sequence[GroupEntry], answers: Sequence[GroupAnswer]) -> None:
        """Record groups, and keep the answers of cohorts."""
        kept = {}
        for entry, answer in zip(ready, answers, strict=True):
            if self.recorder and entry.judged and answer.counts.scored:
                self.recorder.add(entry.cohort.in_order(), entry.judged, answer.rewards)
            if entry.key is not None and entry.is_final(answer.counts):
                kept[entry.key] = KeptCohort.of(entry.cohort, {"": answer})
        self.journal.write(kept)

    def _answer(self, entry: GroupEntry, answer: GroupAnswer) -> None:
        self.open_groups -= 1
        if self.steps is not None and entry.judged is not None:
            rollouts = [member.rollout for member in entry.cohort.in_order()]
            self.steps.add(entry.judged, answer.rewards, entry.compared, rollouts)
            entry.compared = None
        counts = answer.counts
        self.counts.add(counts, answer.rewards.rewards)
        waited_s = round(time.monotonic() - entry.opened_s, 3)
        self._on_event(GroupEvent(answer.name, waited_s, counts))
        if entry.key is not None:  # its members are sent their own results only
            rewards = replace(answer.rewards, verdicts={}, by_judge={}, comparisons=[])
            answer = replace(answer, rewards=rewards)
        entry.answer.set_result(answer)
        if not entry.is_final(counts):
            self.table.forget(entry)
            return
        if entry.cohort.is_complete and not counts.unanswered:  # no late member can need the texts
            entry.release()
        self.table.keep(entry)

    def _fail(self, entry: GroupEntry, error: Exception) -> None:
        if entry.answer.done():
            return
        self.open_groups -= 1
        self.table.forget(entry)
        entry.set_timer(None)
        if isinstance(error, StorageError):
            self._on_event(StorageFailedEvent(str(error)))
        entry.answer.set_exception(error)
        entry.answer.exception()  # nobody may be waiting

    async def drain(self) -> None:
        """Accept no further group; wait until all open ones are answered, at most for `drain`
        seconds.

        Requests still waiting are then told to ask again: the journal keeps what the judge has
        answered.
        """
        self.is_draining = True
        self._on_event(DrainingEvent(self.open_groups, self.waiting))
        ends_s = time.monotonic() + self._settings.drain
        while self.open_groups and time.monotonic() < ends_s:
            await asyncio.sleep(_DRAIN_POLL_S)
        for entry in self.table.iter_open():
            self._fail(entry, DrainingError("the server is shutting down"))

    async def _judge_late(self, entry: GroupEntry, member: Member) -> GroupAnswer:
        await asyncio.shield(entry.answer)  # the others come first: theirs does not change
        arriving = self._arriving_of(entry, member)
        arriving.forget_failures()
        is_late = member.id in entry.cohort.late
        members = entry.cohort.in_order(*([member.id] if is_late else []))
        if entry.judged is None:  # a restart has lost the texts that it could be compared with
            members = [member]
        index = [each.id for each in members].index(member.id)
        if entry.judged is not None and is_late:
            judged = await arriving.judge_late(entry.judged, _group_of(members), index)
        else:
            judged = await arriving.judge(_group_of(members))
        rewards = self._scorer.reward_late(judged)
        if self.recorder is not None and rewards.scores[index].reward is not None:
            self.recorder.add_late(member, rewards, index)
        answer = self._answer_of(entry, members, rewards)
        done = {
            id_: task.result()
            for id_, task in entry.late.items()
            if task.done() and not task.exception()
        }
        if entry.key is not None:
            answers = {"": entry.answer.result(), **done, member.id: answer}
            self.journal.write({entry.key: KeptCohort.of(entry.cohort, answers)})
        return answer

    def _answer_of(
        self, entry: GroupEntry, members: Sequence[Member], rewards: GroupRewards
    ) -> GroupAnswer:
        reference = None if entry.compared is None else entry.compared.wins.rate()
        counts = GroupCounts.of(rewards, entry.cohort.size, self.counts.rewards.mean, reference)
        ids = tuple(member.id for member in members)
        return GroupAnswer(entry.cohort.name, ids, rewards, counts)


def _digest_of(name: str, members: Sequence[Member]) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    for member in members:
        digest.update(member.id.encode() + b"\0" + member.digest)
    return digest.digest()[:16]


def _group_of(members: Sequence[Member]) -> Group:
    rollouts = [member.rollout for member in members]
    return Group(group_key(rollouts[0], 1), rollouts, [member.line for member in members])
