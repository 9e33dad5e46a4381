"""Groups and cohorts of a server: their waiting requests, and when each is judged."""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from genrm_cli.errors import StorageError
from genrm_cli.groups.group import Group
from genrm_cli.groups.results import GroupRewards
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.serve.answers import CalibrationRecord, GroupAnswer, GroupCounts, ServiceCounts
from genrm_cli.serve.cohorts.cohort import (
    BusyError,
    Cohort,
    DisagreementError,
    DrainingError,
    JoinResult,
    Member,
    SupersededError,
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
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.steps import JudgeWatch, StepMetrics
from genrm_cli.settings.file_settings import ServeSettings
from genrm_cli.storage.record_events import StorageFailedEvent

_DRAIN_POLL_S = 0.05
# A fit over several groups costs little more than over one: groups that end close together are
# concluded in one. A group waits at most this long for others, which nobody notices next to the
# seconds that a judge takes.
_BATCH_WAIT_S = 0.02
_MAX_BATCH = 64


class RewardService:
    """Judges groups and cohorts, each once, however often they are requested.

    Attributes:
        entry: groups and cohorts that repeated requests may name.
        open_groups: number of those that have no answer yet.
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
        self.journal = KeptCohorts(
            scorer.journal, f"{scorer.owner} {settings.listen}", settings.keep
        )
        self._attempts: dict[str, int] = {}
        self._ready: list[GroupEntry] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def watch(self) -> JudgeWatch | None:
        """What watches the judges; None if nothing does."""
        return None if self.steps is None else self.steps.watch

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
        arriving = self._scorer.arriving(kept.name, None)
        answer = answers.pop("")
        entry = GroupEntry(kept.cohort(), arriving, answer, time.monotonic(), key, late=answers)
        self.table.cohorts[kept.name] = entry
        self.table.keep(entry)
        return entry.cohort

    def supersede(self, group: str, attempt: int) -> None:
        """Give up the cohort of the attempt before, if its members still wait: nobody will complete
        it.

        Raises `SupersededError` if a later attempt has begun.
        """
        latest = self._attempts.get(group, 0)
        if attempt == latest:
            return
        over = SupersededError(
            f"attempt {min(attempt, latest)} was superseded by attempt {max(attempt, latest)}"
        )
        if attempt < latest:
            raise over
        self._attempts[group] = attempt
        if len(self._attempts) > self._settings.max_cohorts:
            del self._attempts[next(iter(self._attempts))]
        entry = self.table.cohorts.get(name_of_attempt(group, latest))
        if entry is not None:
            self._fail(entry, over)

    async def join(
        self,
        name: str,
        size: int,
        member: Member,
        deadline_s: float | None = None,
        *,
        key: str | None = None,
        needs_all: bool = False,
    ) -> GroupAnswer:
        """Add a member to its cohort, wait for the cohort, and return the answer that has this
        member's reward.

        A cancelled caller cancels nothing. The deadline is that of the first member; it limits the
        wait for members. The answer is kept in the journal under `key`, by default the name. With
        `needs_all`, the answer of a cohort that lacks members is not kept: those who ask again form
        a new one. Raises `RefusedError` if the request cannot be served, and `GenrmError` if the
        group cannot be judged."""
        if name not in self.table.cohorts and key is None:
            self.restore(name)
        entry = self.table.cohorts.get(name)
        if entry is None:
            entry = self._open_cohort(name, size, group_key(member.rollout, 1), deadline_s, key)
            entry.needs_all = needs_all
        joining = self._enter(entry, member, size)
        if joining is JoinResult.NEW:
            if len(entry.cohort.members) == 1 and entry.cohort.absent:
                entry.arriving = self._scorer.arriving(group_key(member.rollout, 1), size)
            index = entry.cohort.index_of(member.id)
            if index is not None:
                entry.arriving.add(index, member.rollout, member.line)
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
        entry = self.table.cohorts.get(name)
        if entry is None and self.restore(name) is None:
            entry = self._open_cohort(name, size, "")  # its key follows with its first member
        entry = self.table.cohorts[name]
        was_absent = member_id in entry.cohort.absent
        with self._counting_disagreements(entry):
            is_absent = entry.cohort.leave_out(member_id, size)
        if is_absent and not was_absent and not entry.cohort.is_closed:
            self.counts.absent += 1
            self._on_event(AbsentEvent(name, member_id))
            self._close_or_wait(entry)
        return is_absent

    def _open_cohort(
        self,
        name: str,
        size: int,
        group: str,
        deadline_s: float | None = None,
        key: str | None = None,
    ) -> GroupEntry:
        self._refuse_above(
            self._settings.max_cohorts, self.open_groups, "cohorts are open (max_cohorts)"
        )
        entry = self._begin(self.table.cohorts, Cohort(name, size), group)
        entry.key = key or name
        wait_s = self._settings.cohort_deadline if deadline_s is None else deadline_s
        entry.closes_at_s = asyncio.get_running_loop().time() + wait_s
        return entry

    def _close_or_wait(self, entry: GroupEntry) -> None:
        """Close a cohort that nobody else joins; otherwise wait for the next member."""
        if entry.cohort.is_settled:
            self._close(entry)
            return
        loop = asyncio.get_running_loop()
        rings_at_s = entry.closes_at_s
        if self._settings.cohort_idle is not None:
            rings_at_s = min(rings_at_s, loop.time() + self._settings.cohort_idle)
        if entry.timer is not None:
            entry.timer.cancel()
        entry.timer = loop.call_at(rings_at_s, self._end_waiting, entry)

    async def judge(
        self, name: str, members: Sequence[Member], deadline_s: float | None = None
    ) -> GroupAnswer:
        """Judge a whole group; its members have different ids. The deadline limits the wait for the
        judge.

        Raises as `join` does.
        """
        entry = self.table.groups.get(name)
        if entry is None:
            self._refuse_above(
                self._settings.queue, self.being_judged, "comparisons are waiting (queue)"
            )
            cohort = Cohort(name, len(members))
            for member in members:
                cohort.join(member, len(members))
            entry = self._begin(self.table.groups, cohort, group_key(members[0].rollout, 1))
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

    def _enter(self, entry: GroupEntry, member: Member, size: int) -> JoinResult:
        with self._counting_disagreements(entry):
            joining = entry.cohort.join(member, size)
        if joining in (JoinResult.NEW, JoinResult.LATE):
            self.table.hold(entry, member)
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

    def _begin(self, among: dict[str, GroupEntry], cohort: Cohort, group: str) -> GroupEntry:
        self._refuse_above(
            self._settings.max_held, self.table.held_bytes, "bytes of responses are held (max_held)"
        )
        arriving = self._scorer.arriving(group, cohort.size)
        answer = asyncio.get_running_loop().create_future()
        entry = GroupEntry(cohort, arriving, answer, time.monotonic())
        for each in cohort.members.values():
            self.table.hold(entry, each)
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

    def _end_waiting(self, entry: GroupEntry) -> None:
        cohort = entry.cohort
        came = len(cohort.members)
        self.counts.deadlines += 1
        self.counts.missing += cohort.size - came - len(cohort.absent)
        is_idle = asyncio.get_running_loop().time() < entry.closes_at_s
        self._on_event(DeadlineEvent(cohort.name, cohort.size, came, is_idle))
        self._close(entry)

    def _close(self, entry: GroupEntry, deadline_s: float | None = None) -> None:
        """Settle the members of a group, and judge it."""
        entry.cohort.is_closed = True
        if entry.timer is not None:
            entry.timer.cancel()
        if not entry.cohort.members:
            self._fail(entry, DisagreementError("no member of this group comes"))
            return
        group = _group_of(entry.cohort.in_order())
        entry.requests = self.plan.count_requests(len(group.rollouts))
        if self.steps is not None:
            entry.requests += self.steps.references.count_requests(group)
        self.being_judged += entry.requests
        task = asyncio.ensure_future(self._judge(entry, group, deadline_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _judge(self, entry: GroupEntry, group: Group, deadline_s: float | None) -> None:
        try:
            judging = entry.arriving.judge(group, deadline_s)
            if self.steps is None:
                entry.judged = await judging
            else:
                comparing = self.steps.references.compare(group, deadline_s)
                entry.judged, entry.compared = await asyncio.gather(judging, comparing)
        except Exception as error:  # noqa: BLE001  (those who wait get it)
            self.being_judged -= entry.requests
            self._fail(entry, error)
            return
        self.being_judged -= entry.requests
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
            results, calibration = self._scorer.conclude(judged)
            answers = [
                self._answer_of(entry, entry.cohort.in_order(), rewards, calibration)
                for entry, rewards in zip(ready, results, strict=True)
            ]
            self._store(ready, answers, [part for part, _, _ in judged])
        except Exception as error:  # noqa: BLE001  (those who wait get it)
            for entry in ready:
                self._fail(entry, error)
            return
        for entry, answer in zip(ready, answers, strict=True):
            self._answer(entry, answer)

    def _store(
        self, ready: Sequence[GroupEntry], answers: Sequence[GroupAnswer], parts: Sequence[bytes]
    ) -> None:
        """Record groups, and keep the answers of cohorts. A group that is repeated after a kill is
        not recorded again.

        `parts` are the digests of the groups.
        """
        kept = {}
        recorded = []
        try:
            for entry, answer, part in zip(ready, answers, parts, strict=True):
                is_final = entry.is_final(answer.counts)
                is_worth_it = answer.counts.scored and not (
                    entry.needs_all and answer.counts.shortfall
                )
                if self.recorder and entry.judged and is_worth_it and not self.journal.has(part):
                    self.recorder.add(entry.cohort.in_order(), entry.judged, answer.rewards)
                    recorded += [part] if is_final else []
                if entry.key is not None and is_final:
                    kept[entry.key] = KeptCohort.of(entry.cohort, {"": answer})
        finally:  # a full disk refuses all of them, and they are asked for again
            self.journal.write(kept, recorded)

    def _answer(self, entry: GroupEntry, answer: GroupAnswer) -> None:
        self.open_groups -= 1
        if self.steps is not None and entry.judged is not None:
            rollouts = [member.rollout for member in entry.cohort.in_order()]
            self.steps.add(entry.judged, answer.rewards, entry.compared, rollouts)
            entry.compared = None
        counts = answer.counts
        self.counts.add(counts, answer.rewards.rewards)
        self.counts.wasted += entry.arriving.wasted
        waited_s = round(time.monotonic() - entry.opened_s, 3)
        self._on_event(GroupEvent(answer.name, waited_s, counts))
        if entry.key is not None:  # its members are sent their own results only
            answer = replace(
                answer, rewards=replace(answer.rewards, verdicts={}, by_judge={}, comparisons=[])
            )
        entry.answer.set_result(answer)
        if not entry.is_final(counts):
            self.table.forget(entry)
            return
        if entry.cohort.is_complete and not counts.unanswered:  # no late member can need them
            entry.judged = None
            entry.arriving.release()
            entry.cohort.release_texts()
            self.table.release(entry)
        self.table.keep(entry)

    def _fail(self, entry: GroupEntry, error: Exception) -> None:
        if entry.answer.done():
            return
        self.open_groups -= 1
        self.table.forget(entry)
        if entry.timer is not None:
            entry.timer.cancel()
        if isinstance(error, StorageError):
            self._on_event(StorageFailedEvent(str(error)))
        entry.answer.set_exception(error)
        entry.answer.exception()  # nobody may be waiting

    async def drain(self) -> None:
        """Accept no further group; wait until all open ones are answered, at most for `drain`
        seconds.

        Requests still waiting are then told to ask again: the journal keeps what the judge has
        answered."""
        self.is_draining = True
        self._on_event(DrainingEvent(self.open_groups, self.waiting))
        ends_s = time.monotonic() + self._settings.drain
        while self.open_groups and time.monotonic() < ends_s:
            await asyncio.sleep(_DRAIN_POLL_S)
        for entry in self.table.iter_open():
            self._fail(entry, DrainingError("the server is shutting down"))

    async def _judge_late(self, entry: GroupEntry, member: Member) -> GroupAnswer:
        await asyncio.shield(entry.answer)
        if entry.judged is None:  # a restart has lost the texts that it could be compared with
            members = [member]
            index = 0
            judged = await entry.arriving.judge(_group_of(members))
        else:
            entry.arriving.forget_failures()
            is_late = member.id in entry.cohort.late
            members = entry.cohort.in_order(*([member.id] if is_late else []))
            index = [each.id for each in members].index(member.id)
            if is_late:
                judged = await entry.arriving.judge_late(
                    entry.judged, _group_of(members), index, None
                )
            else:
                judged = await entry.arriving.judge(_group_of(members))
        rewards, calibration = self._scorer.reward_late(judged)
        if self.recorder is not None and rewards.scores[index].reward is not None:
            self.recorder.add_late(member, rewards, index)
        answer = self._answer_of(entry, members, rewards, calibration)
        done = {
            id_: task.result()
            for id_, task in entry.late.items()
            if task.done() and not task.exception()
        }
        answers = {"": entry.answer.result(), **done, member.id: answer}
        if entry.key is not None:
            self.journal.write({entry.key: KeptCohort.of(entry.cohort, answers)})
        return answer

    def _answer_of(
        self,
        entry: GroupEntry,
        members: Sequence[Member],
        rewards: GroupRewards,
        calibration: CalibrationRecord,
    ) -> GroupAnswer:
        reference = None if entry.compared is None else entry.compared.wins.rate()
        counts = GroupCounts.of(rewards, entry.cohort.size, self.counts.rewards.mean, reference)
        return GroupAnswer(
            entry.cohort.name, tuple(member.id for member in members), rewards, calibration, counts
        )


def name_of_attempt(group: str, attempt: int) -> str:
    """Return the name of the cohort of an attempt at a group."""
    return f"{group} attempt {attempt}"


def _digest_of(name: str, members: Sequence[Member]) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    for member in members:
        digest.update(member.id.encode() + b"\0" + member.digest)
    return digest.digest()[:16]


def _group_of(members: Sequence[Member]) -> Group:
    rollouts = [member.rollout for member in members]
    return Group(group_key(rollouts[0], 1), rollouts, [member.line for member in members])
