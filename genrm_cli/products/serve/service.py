"""Groups and cohorts of a server: their waiting requests, and when each is judged.

    request ──> join or judge ──> the members wait on `ServedGroup.answer`
                  │ the last member, or a timer
                  v
                close ──> judge (a task) ──> ready ──> conclude, several groups at once ──> answer

A cohort asks about a pair as soon as both of its members have come. All state changes happen on the
event loop, between two awaits. Judging is a separate task: a client that disconnects cancels
nothing. An answer is in the journal before anyone gets it, so that a member that asks again after a
kill gets the same reward.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import StorageError
from genrm_cli.groups.asking.arriving import ArrivingGroup
from genrm_cli.groups.group import Group, JudgedGroup
from genrm_cli.groups.results import GroupRewards
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.products.serve.cohorts.cohort import (
    BusyError,
    DisagreementError,
    DrainingError,
    JoinResult,
    Member,
)
from genrm_cli.products.serve.cohorts.group_table import ServedGroup, ServedGroups
from genrm_cli.products.serve.cohorts.kept_cohorts import KeptCohort, KeptCohorts
from genrm_cli.products.serve.recorder import Recorder
from genrm_cli.products.serve.reference_answers import ReferenceComparisons
from genrm_cli.products.serve.serve_events import (
    AbsentEvent,
    DeadlineEvent,
    DisagreementEvent,
    DrainingEvent,
    GroupEvent,
    MadeUpEvent,
    RefusedEvent,
)
from genrm_cli.products.serve.served_answers import GroupAnswer, GroupCounts, ServiceCounts
from genrm_cli.products.serve.served_scorer import ServedScorer
from genrm_cli.products.serve.steps import StepMetrics
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.settings.components import GENRM
from genrm_cli.settings.file_settings import ServeSettings
from genrm_cli.settings.reward_settings import REFERENCE_SCORE
from genrm_cli.storage.record_events import StorageFailedEvent

T = TypeVar("T")

_DRAIN_POLL_S = 0.05  # a fraction of what a judge takes
# A fit over several groups costs little more than over one: groups that end close together are
# concluded in one. A group waits at most this long for others, which is negligible next to the
# seconds that a judge takes.
_BATCH_WAIT_S = 0.02
_MAX_BATCH = 64


class RewardService:
    """Judges groups and cohorts, each once, however often they are requested.

    Attributes:
        scorer: its judges, and their calibration.
        open_groups: number of groups and cohorts that have no answer yet.
        open_bytes: bytes of their members.
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
        """Judge nothing yet."""
        self.scorer = scorer
        self._settings = settings
        self._on_event = on_event
        self.recorder = recorder
        self.steps = steps
        self.plan = scorer.plan
        self.counts = ServiceCounts()
        self.table = ServedGroups(settings)
        self.open_groups = 0
        self.open_bytes = 0
        self.being_judged = 0
        self.waiting = 0
        self.is_draining = False
        owner = f"{scorer.running.name} {settings.listen}"
        self.journal = KeptCohorts(scorer.journal, owner, settings.keep)
        self._ready: list[_Judged] = []
        self._evaluations: dict[bytes, asyncio.Future[GroupRewards]] = {}
        # The event loop holds tasks weakly.
        self._tasks: set[asyncio.Task[None]] = set()

    def restore(self, key: str) -> ServedGroup | None:
        """Return the cohort kept under a name, which members may join again; None without one."""
        kept = self.journal.read(key)
        if kept is None:
            return None
        if kept.name not in self.table.cohorts:
            entry = self.table.cohorts[kept.name] = kept.restored(key)
            self.table.keep(entry)
        return self.table.cohorts[kept.name]

    async def join(
        self, name: str, size: int, member: Member, *, key: str | None = None
    ) -> GroupAnswer:
        """Add a member to its cohort, wait for the cohort, and return the answer that has this
        member's reward.

        A cancelled caller cancels nothing. The answer is kept in the journal under `key`, by
        default the name. Raises `RefusedError` if the request cannot be served, and `GenrmError` if
        the group cannot be judged.
        """
        # A round was restored under its key, when the first of its requests came.
        if name not in self.table.cohorts and key is None:
            self.restore(name)
        entry = self.table.cohorts.get(name) or self._open_cohort(name, size, key or name)
        if self._enter(entry, member, size) is JoinResult.NEW:
            index = entry.index_of(member.id)
            if index is not None:
                self._arriving_of(entry, member).add(index, member.rollout, member.shown)
            self._close_or_wait(entry)
        answer = entry.answer_of(member.id)
        if answer is None:
            answer = entry.late_answers[member.id] = asyncio.ensure_future(
                self._judge_late(entry, member)
            )
        return await self._wait(answer)

    def forget(self, name: str) -> bool:
        """Forget a cohort, open or answered, so that its name is free; return whether it was known.

        Those who wait for an open one are told, and what the judge has answered stays in the
        journal.
        """
        entry = self.table.cohorts.get(name) or self.restore(name)
        if entry is None:
            return False
        self.journal.drop(entry.key or name)
        self.table.forget(entry)
        self._fail(entry, DisagreementError(f"group {name!r} was deleted"))
        return True

    def leave_out(self, name: str, size: int, member_id: str) -> bool:
        """Tell a cohort that a member will not come; return False if it has come before.

        The others are answered at once if they wait for no other. Raises `RefusedError` as `join`
        does.
        """
        # A generation may be aborted before any other of its group has ended.
        if name not in self.table.cohorts and self.restore(name) is None:
            self._open_cohort(name, size, name)
        entry = self.table.cohorts[name]
        was_absent = member_id in entry.absent
        with self._counting_disagreements(entry):
            is_absent = entry.leave_out(member_id, size)
        if is_absent and not was_absent and not entry.is_closed:
            self.counts.absent_members += 1
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
                self._settings.max_cohorts,
                self.being_judged,
                "comparisons are waiting (max_cohorts)",
            )
            entry = self._begin(self.table.groups, name, len(members))
            for member in members:
                self._enter(entry, member, len(members))
            self._close(entry, deadline_s)
        else:
            for member in members:
                self._enter(entry, member, len(members))
        return await self._wait(entry.answer)

    async def evaluate(
        self, name: str, members: Sequence[Member], deadline_s: float | None = None
    ) -> GroupAnswer:
        """Return which share of its comparisons with the reference answer each member wins.

        It waits for no other, and counts in no statistics. Raises `UnreadableRecordError` without
        an answer to the prompt, and otherwise as `judge` does.
        """
        digest = b"".join(member.digest for member in members)
        asked = self._evaluations.get(digest)
        if asked is None:
            asked = asyncio.ensure_future(self._evaluate(members, deadline_s))
            self._evaluations[digest] = asked
            asked.add_done_callback(lambda _: self._evaluations.pop(digest))
            asked.add_done_callback(asyncio.Future.exception)  # nobody may be waiting
        rewards = await self._wait(asked)
        ids = tuple(member.id for member in members)
        return GroupAnswer(name, ids, rewards, GroupCounts.of(rewards, len(members)))

    async def _evaluate(self, members: Sequence[Member], deadline_s: float | None) -> GroupRewards:
        references = None if self.steps is None else self.steps.references
        rewards = None
        if references is not None:
            rewards = await references.evaluate(_group_of(members), deadline_s)
        if rewards is None:
            raise UnreadableRecordError(
                "there is no reference answer to this prompt; as=reference needs the setting "
                "reference, a file with one answer to each prompt of the evaluation"
            )
        return replace(rewards, comparisons=[])

    async def _wait(self, answer: "asyncio.Future[T]") -> T:
        self.waiting += 1
        try:
            return await asyncio.shield(answer)
        finally:
            self.waiting -= 1

    def _open_cohort(self, name: str, size: int, key: str) -> ServedGroup:
        self._refuse_above(
            self._settings.max_cohorts, self.open_groups, "cohorts are open (max_cohorts)"
        )
        entry = self._begin(self.table.cohorts, name, size)
        entry.key = key
        entry.closes_at_s = asyncio.get_running_loop().time() + self._settings.cohort_deadline
        return entry

    def _begin(self, among: dict[str, ServedGroup], name: str, size: int) -> ServedGroup:
        self._refuse_above(
            self._settings.max_open_bytes,
            self.open_bytes,
            "bytes of rollouts wait (max_open_bytes)",
        )
        entry = among[name] = ServedGroup(name, size)
        self.open_groups += 1
        return entry

    def _refuse_above(self, most: int, count: int, what: str) -> None:
        """Refuse a further group while the server is full or shutting down."""
        if self.is_draining:
            error: BusyError = DrainingError("the server is shutting down")
        elif count >= most:
            error = BusyError(f"{count} {what}")
        else:
            return
        self.counts.refused_requests += 1
        self._on_event(RefusedEvent(str(error)))
        raise error

    def _enter(self, entry: ServedGroup, member: Member, size: int) -> JoinResult:
        with self._counting_disagreements(entry):
            joining = entry.join(member, size)
        if joining is JoinResult.NEW:
            entry.size_bytes += member.size_bytes
            self.open_bytes += member.size_bytes
        self.counts.repeated_requests += joining is JoinResult.REPEATED
        self.counts.late_members += joining is JoinResult.LATE
        return joining

    @contextmanager
    def _counting_disagreements(self, entry: ServedGroup) -> Iterator[None]:
        try:
            yield
        except DisagreementError as error:
            self.counts.disagreements += 1
            self._on_event(DisagreementEvent(entry.name, str(error)))
            raise

    def _arriving_of(self, entry: ServedGroup, member: Member) -> ArrivingGroup:
        """Return the requests about a group, which begin with one of its members."""
        if entry.arriving is None:
            key = group_key(member.rollout, 1)
            entry.arriving = self.scorer.arriving(key, entry.size)
        return entry.arriving

    def _close_or_wait(self, entry: ServedGroup) -> None:
        """Close a cohort that nobody else joins; otherwise wait for the next member."""
        if entry.is_settled:
            self._close(entry)
            return
        loop = asyncio.get_running_loop()
        rings_at_s = entry.closes_at_s
        if self._settings.cohort_idle is not None:
            rings_at_s = min(rings_at_s, loop.time() + self._settings.cohort_idle)
        entry.set_timer(loop.call_at(rings_at_s, self._end_waiting, entry))

    def _end_waiting(self, entry: ServedGroup) -> None:
        came = len(entry.members)
        self.counts.deadlines += 1
        self.counts.missing_members += entry.size - came - len(entry.absent)
        self._on_event(DeadlineEvent(entry.name, entry.size, came))
        self._close(entry)

    def _close(self, entry: ServedGroup, deadline_s: float | None = None) -> None:
        """Settle the members of a group, and judge it."""
        entry.is_closed = True
        entry.set_timer(None)
        if not entry.members:
            self._fail(entry, DisagreementError("no member of this group comes"))
            return
        task = asyncio.ensure_future(self._judge(entry, deadline_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _judge(self, entry: ServedGroup, deadline_s: float | None) -> None:
        members = entry.in_order()
        group = _group_of(members)
        references = None if self.steps is None else self.steps.references
        requests = self.plan.count_requests(len(members))
        if references is not None:
            requests += references.count_requests(group)
        self.being_judged += requests
        compared = None
        try:
            judging = self._arriving_of(entry, members[0]).judge(group, deadline_s)
            if references is None:
                judged = await judging
            else:
                comparing = references.compare(group, deadline_s)
                judged, compared = await asyncio.gather(judging, comparing)
        except Exception as error:  # noqa: BLE001  (those who wait get it)
            self._fail(entry, error)
            return
        finally:
            self.being_judged -= requests
        entry.judged = judged
        self._ready.append(_Judged(entry, members, group, judged, compared))
        # With nothing else at the judge, there is no other group to wait for.
        if len(self._ready) >= _MAX_BATCH or not self.being_judged:
            self._conclude_ready()
        elif len(self._ready) == 1:
            asyncio.get_running_loop().call_later(_BATCH_WAIT_S, self._conclude_ready)

    def _conclude_ready(self) -> None:
        """Answer the groups that have been judged; several together cost little more than one."""
        # Draining may have given some up.
        ready = [each for each in self._ready if not each.entry.answer.done()]
        self._ready = []
        if not ready:
            return
        try:
            results = self.scorer.conclude(
                [(each.digest(), each.judged) for each in ready],
                has_halves=self.steps is not None,
            )
            answers = [
                self._answer_of(each.entry, each.members, rewards, each.compared)
                for each, rewards in zip(ready, results, strict=True)
            ]
            self._store(ready, answers)
        except Exception as error:  # noqa: BLE001  (those who wait get it)
            for each in ready:
                self._fail(each.entry, error)
            return
        for each, answer in zip(ready, answers, strict=True):
            if self.steps is not None:
                self.steps.add(each.judged, answer.rewards, each.compared)
            self._answer(each.entry, answer)

    def _store(self, ready: Sequence["_Judged"], answers: Sequence[GroupAnswer]) -> None:
        """Record groups, and keep the answers of cohorts."""
        kept = {}
        for each, answer in zip(ready, answers, strict=True):
            entry = each.entry
            if self.recorder is not None and answer.counts.scored:
                self.recorder.add(each.members, each.judged, answer.rewards)
            if entry.key is not None and entry.is_final(answer.counts):
                kept[entry.key] = KeptCohort.of(entry, {"": answer})
        self.journal.write(kept)

    def _end(self, entry: ServedGroup) -> None:
        self.open_groups -= 1
        self.open_bytes -= entry.size_bytes

    def _answer(self, entry: ServedGroup, answer: GroupAnswer) -> None:
        self._end(entry)
        counts = answer.counts
        self.counts.add(counts)
        waited_s = round(time.monotonic() - entry.opened_s, 3)
        self._on_event(GroupEvent(answer.name, waited_s, counts))
        if entry.key is not None:  # its members are sent their own results only
            rewards = replace(answer.rewards, verdicts={}, by_judge={}, comparisons=[])
            answer = replace(answer, rewards=rewards)
        entry.answer.set_result(answer)
        if not entry.is_final(counts):
            self.table.forget(entry)
            return
        if entry.is_complete and not counts.unanswered:  # no late member can need the texts
            entry.release()
        self.table.keep(entry)

    def _fail(self, entry: ServedGroup, error: Exception) -> None:
        # The judge may still answer about a group that draining gave up.
        if entry.answer.done():
            return
        self._end(entry)
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

    async def _judge_late(self, entry: ServedGroup, member: Member) -> GroupAnswer:
        await asyncio.shield(entry.answer)  # the others come first: theirs does not change
        arriving = self._arriving_of(entry, member)
        # It asks because the judge failed, so its requests are made again.
        arriving.forget_failures()
        is_late = member.id in entry.late
        members = entry.in_order(*([member.id] if is_late else []))
        if entry.judged is None:  # a restart has lost the texts that it could be compared with
            members = [member]
        index = [each.id for each in members].index(member.id)
        group = _group_of(members)
        if entry.judged is not None and is_late:
            judged = await arriving.judge_late(entry.judged, group, index)
        else:
            judged = await arriving.judge(group)
        rewards = self.scorer.reward_late(judged)
        if self.recorder is not None and rewards.scores[index].reward is not None:
            self.recorder.add_late(member, rewards, index)
        answer = self._answer_of(
            entry, members, rewards, earlier=len(members) - 1 if is_late else None
        )
        done = {
            id_: task.result()
            for id_, task in entry.late_answers.items()
            if task.done() and not task.exception()
        }
        # One that was deleted meanwhile is not to come back.
        if entry.key is not None and self.table.cohorts.get(entry.name) is entry:
            answers = {"": entry.answer.result(), **done, member.id: answer}
            self.journal.write({entry.key: KeptCohort.of(entry, answers)})
        return answer

    def _answer_of(
        self,
        entry: ServedGroup,
        members: Sequence[Member],
        rewards: GroupRewards,
        compared: ReferenceComparisons | None = None,
        earlier: int | None = None,
    ) -> GroupAnswer:
        reference = None if compared is None else compared.wins.rate()
        before = self.scorer.rewards.mean
        counts = GroupCounts.of(rewards, entry.size, before, reference, earlier)
        # A judge that is away for good is not to go unnoticed.
        if before is None and counts.reward_mean is None and not counts.unanswered:
            middle = REFERENCE_SCORE * dict(self.plan.rewards.total.weights).get(GENRM, 0.0)
            self._on_event(MadeUpEvent(entry.name, middle))
            counts = replace(counts, reward_mean_before=middle)
        ids = tuple(member.id for member in members)
        return GroupAnswer(entry.name, ids, rewards, counts)


class _Judged(Struct, frozen=True):
    """A group that has been judged, and its comparisons with the reference answer to its prompt;
    None if there is none.
    """

    entry: ServedGroup
    members: Sequence[Member]
    group: Group
    judged: JudgedGroup
    compared: ReferenceComparisons | None

    def digest(self) -> bytes:
        """Return a digest of the group, the same when it is judged again."""
        name = self.entry.key or self.entry.name
        digest = hashlib.sha256(name.encode() + b"\0")
        for member in self.members:
            digest.update(member.id.encode() + b"\0" + member.digest)
        return digest.digest()[:16]


def _group_of(members: Sequence[Member]) -> Group:
    rollouts = [member.rollout for member in members]
    records = [member.shown for member in members]
    return Group(group_key(rollouts[0], 1), rollouts, records)
