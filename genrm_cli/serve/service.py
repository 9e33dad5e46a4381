"""Groups and cohorts of a server: their waiting requests, and when each is judged."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from genrm_cli.errors import StorageError
from genrm_cli.groups.group import Group
from genrm_cli.groups.results import GroupRewards
from genrm_cli.judging.opening.judge_spec import ignore_event
from genrm_cli.judging.pacing.pool import OnEvent
from genrm_cli.rollouts.group_keys import group_key
from genrm_cli.serve.answers import CalibrationRecord, GroupAnswer, GroupCounts, ServiceCounts
from genrm_cli.serve.cohort import (
    BusyError,
    Cohort,
    DisagreementError,
    DrainingError,
    Joining,
    Member,
    SupersededError,
)
from genrm_cli.serve.kept import KeptCohort, KeptCohorts, KnownGroup, KnownGroups
from genrm_cli.serve.recorder import Recorder
from genrm_cli.serve.served_scorer import ServedScorer
from genrm_cli.serve.steps import JudgeWatch, StepMetrics
from genrm_cli.settings.file_settings import ServeSettings

_LOOK_S = 0.05
_TOGETHER_S = 0.02
_MOST_TOGETHER = 64


class RewardService:
    """Judges groups and cohorts, each once, however often they are requested.

    Attributes:
        known: groups and cohorts that repeated requests may name.
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
        self.known = KnownGroups(settings)
        self.open_groups = self.being_judged = self.waiting = 0
        self.is_draining = False
        self.journal = KeptCohorts(
            scorer.journal, f"{scorer.owner} {settings.listen}", settings.keep
        )
        self._attempts: dict[str, int] = {}
        self._ready: list[KnownGroup] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def watch(self) -> JudgeWatch | None:
        """What watches the judges; None if nothing does."""
        return None if self.steps is None else self.steps.watch

    def knows(self, name: str) -> bool:
        """Whether a cohort of this name is open or kept."""
        return name in self.known.cohorts

    def restore(self, key: str) -> Cohort | None:
        """Return the cohort kept under a name, which members may join again; None without one."""
        kept = self.journal.read(key)
        if kept is None:
            return None
        if (known := self.known.cohorts.get(kept.name)) is not None:
            return known.cohort
        answers = {id_: asyncio.get_running_loop().create_future() for id_ in kept.answers}
        for id_, answer in answers.items():
            answer.set_result(kept.answers[id_].answer(kept.name))
        arriving = self._scorer.arriving(kept.name, None)
        known = KnownGroup(
            kept.cohort(), arriving, answers.pop(""), time.monotonic(), key, late=answers
        )
        self.known.cohorts[kept.name] = known
        self.known.keep(known)
        return known.cohort

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
        if (known := self.known.cohorts.get(name_of_attempt(group, latest))) is not None:
            self._fail(known, over)

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
        if name not in self.known.cohorts and key is None:
            self.restore(name)
        known = self.known.cohorts.get(name)
        if known is None:
            self._refuse_above(
                self._settings.max_cohorts, self.open_groups, "cohorts are open (max_cohorts)"
            )
            known = self._begin(self.known.cohorts, Cohort(name, size), member)
            known.key = key or name
            known.needs_all = needs_all
            wait_s = self._settings.cohort_deadline if deadline_s is None else deadline_s
            known.deadline = asyncio.get_running_loop().call_later(wait_s, self._end_waiting, known)
        joining = self._enter(known, member, size)
        if joining is Joining.NEW:
            index = known.cohort.index_of(member.id)
            if index is not None:
                known.arriving.add(index, member.rollout, member.line)
            if known.cohort.is_complete:
                self._close(known)
        answer = known.answer_of(member.id)
        if answer is None:
            answer = known.late[member.id] = asyncio.ensure_future(self._judge_late(known, member))
        return await self._wait(answer)

    async def judge(
        self, name: str, members: Sequence[Member], deadline_s: float | None = None
    ) -> GroupAnswer:
        """Judge a whole group; its members have different ids. The deadline limits the wait for the
        judge.

        Raises as `join` does.
        """
        known = self.known.groups.get(name)
        if known is None:
            self._refuse_above(
                self._settings.queue, self.being_judged, "comparisons are waiting (queue)"
            )
            cohort = Cohort(name, len(members))
            for member in members:
                cohort.join(member, len(members))
            known = self._begin(self.known.groups, cohort, members[0])
            self._close(known, deadline_s)
        else:
            for member in members:
                self._enter(known, member, len(members))
        return await self._wait(known.answer)

    async def _wait(self, answer: "asyncio.Future[GroupAnswer]") -> GroupAnswer:
        self.waiting += 1
        try:
            return await asyncio.shield(answer)
        finally:
            self.waiting -= 1

    def _enter(self, known: KnownGroup, member: Member, size: int) -> Joining:
        try:
            joining = known.cohort.join(member, size)
        except DisagreementError as error:
            self.counts.disagreements += 1
            self._on_event("disagreement", {"group": known.cohort.name, "detail": str(error)})
            raise
        if joining in (Joining.NEW, Joining.LATE):
            self.known.hold(known, member)
        self.counts.repeated += joining is Joining.REPEATED
        self.counts.late += joining is Joining.LATE
        return joining

    def _begin(self, among: dict[str, KnownGroup], cohort: Cohort, member: Member) -> KnownGroup:
        self._refuse_above(
            self._settings.max_held, self.known.held_bytes, "bytes of responses are held (max_held)"
        )
        arriving = self._scorer.arriving(group_key(member.rollout, 1), cohort.size)
        answer = asyncio.get_running_loop().create_future()
        known = KnownGroup(cohort, arriving, answer, time.monotonic())
        for each in cohort.members.values():
            self.known.hold(known, each)
        among[cohort.name] = known
        self.open_groups += 1
        return known

    def _refuse_above(self, most: int, count: int, what: str) -> None:
        """Refuse a further group while the server is full or shutting down."""
        if count < most and not self.is_draining:
            return
        error = (
            DrainingError("the server is shutting down")
            if self.is_draining
            else BusyError(f"{count} {what}")
        )
        self.counts.refused += 1
        self._on_event("refused", {"detail": str(error)})
        raise error

    def _end_waiting(self, known: KnownGroup) -> None:
        self.counts.deadlines += 1
        cohort = known.cohort
        self._on_event(
            "deadline", {"group": cohort.name, "size": cohort.size, "came": len(cohort.members)}
        )
        self._close(known)

    def _close(self, known: KnownGroup, deadline_s: float | None = None) -> None:
        """Settle the members of a group, and judge it."""
        known.cohort.is_closed = True
        if known.deadline is not None:
            known.deadline.cancel()
        group = _group_of(known.cohort.in_order())
        known.requests = self.plan.count_requests(len(group.rollouts))
        if self.steps is not None:
            known.requests += self.steps.references.count_requests(group)
        self.being_judged += known.requests
        task = asyncio.ensure_future(self._judge(known, group, deadline_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _judge(self, known: KnownGroup, group: Group, deadline_s: float | None) -> None:
        try:
            judging = known.arriving.judge(group, deadline_s)
            if self.steps is None:
                known.judged = await judging
            else:
                comparing = self.steps.references.compare(group, deadline_s)
                known.judged, known.compared = await asyncio.gather(judging, comparing)
        except Exception as error:  # noqa: BLE001  (those who wait get it)
            self.being_judged -= known.requests
            self._fail(known, error)
            return
        self.being_judged -= known.requests
        self._ready.append(known)
        if len(self._ready) >= _MOST_TOGETHER or not self.being_judged:
            self._conclude_ready()
        elif len(self._ready) == 1:
            asyncio.get_running_loop().call_later(_TOGETHER_S, self._conclude_ready)

    def _conclude_ready(self) -> None:
        """Answer the groups that have been judged; several together cost little more than one."""
        ready = [
            known for known in self._ready if not known.answer.done()
        ]  # draining may have given some up
        self._ready = []
        if not ready:
            return
        judged = []
        for known in ready:
            members = known.cohort.in_order()
            if known.judged is not None:
                judged.append(
                    (
                        _digest_of(known.key or known.cohort.name, members),
                        _group_of(members),
                        known.judged,
                    )
                )
        try:
            results, calibration = self._scorer.conclude(judged)
            answers = [
                self._answer_of(known, known.cohort.in_order(), rewards, calibration)
                for known, rewards in zip(ready, results, strict=True)
            ]
            self._store(ready, answers, [part for part, _, _ in judged])
        except Exception as error:  # noqa: BLE001  (those who wait get it)
            for known in ready:
                self._fail(known, error)
            return
        for known, answer in zip(ready, answers, strict=True):
            self._answer(known, answer)

    def _store(
        self, ready: Sequence[KnownGroup], answers: Sequence[GroupAnswer], parts: Sequence[bytes]
    ) -> None:
        """Record groups, and keep the answers of cohorts. A group that is repeated after a kill is
        not recorded again.

        `parts` are the digests of the groups.
        """
        kept = {}
        recorded = []
        try:
            for known, answer, part in zip(ready, answers, parts, strict=True):
                is_final = known.is_to_keep(answer.counts)
                is_worth_it = answer.counts.scored and not (
                    known.needs_all and answer.counts.shortfall
                )
                if self.recorder and known.judged and is_worth_it and not self.journal.has(part):
                    self.recorder.add(known.cohort.in_order(), known.judged, answer.rewards)
                    recorded += [part] if is_final else []
                if known.key is not None and is_final:
                    kept[known.key] = KeptCohort.of(known.cohort, {"": answer})
        finally:  # a full disk refuses all of them, and they are asked for again
            self.journal.write(kept, recorded)

    def _answer(self, known: KnownGroup, answer: GroupAnswer) -> None:
        self.open_groups -= 1
        if self.steps is not None and known.judged is not None:
            self.steps.add(known.judged, answer.rewards, known.compared)
            known.compared = None
        counts = answer.counts
        self.counts.add(counts, answer.rewards.rewards)
        self.counts.wasted += known.arriving.wasted
        waited_s = round(time.monotonic() - known.opened_s, 3)
        self._on_event(
            "group",
            {"group": answer.name, "status": counts.status, "waited_s": waited_s, **asdict(counts)},
        )
        if known.key is not None:  # its members are sent their own results only
            answer = replace(
                answer, rewards=replace(answer.rewards, verdicts={}, by_judge={}, comparisons=[])
            )
        known.answer.set_result(answer)
        if not known.is_to_keep(counts):
            self.known.forget(known)
            return
        if known.cohort.is_complete and not counts.unanswered:  # no late member can need them
            known.judged = None
            known.arriving.release()
            known.cohort.release_texts()
            self.known.release(known)
        self.known.keep(known)

    def _fail(self, known: KnownGroup, error: Exception) -> None:
        if known.answer.done():
            return
        self.open_groups -= 1
        self.known.forget(known)
        if known.deadline is not None:
            known.deadline.cancel()
        if isinstance(error, StorageError):
            self._on_event("storage_failed", {"detail": str(error)})
        known.answer.set_exception(error)
        known.answer.exception()  # nobody may be waiting

    async def drain(self) -> None:
        """Accept no further group; wait until all open ones are answered, at most for `drain`
        seconds.

        Requests still waiting are then told to ask again: the journal keeps what the judge has
        answered."""
        self.is_draining = True
        self._on_event("draining", {"open": self.open_groups, "waiting": self.waiting})
        ends_s = time.monotonic() + self._settings.drain
        while self.open_groups and time.monotonic() < ends_s:
            await asyncio.sleep(_LOOK_S)
        for known in self.known.iter_open():
            self._fail(known, DrainingError("the server is shutting down"))

    async def _judge_late(self, known: KnownGroup, member: Member) -> GroupAnswer:
        await asyncio.shield(known.answer)
        if known.judged is None:  # a restart has lost the texts that it could be compared with
            members = [member]
            index = 0
            judged = await known.arriving.judge(_group_of(members))
        else:
            known.arriving.forget_failures()
            is_late = member.id in known.cohort.late
            members = known.cohort.in_order(*([member.id] if is_late else []))
            index = [each.id for each in members].index(member.id)
            if is_late:
                judged = await known.arriving.judge_late(
                    known.judged, _group_of(members), index, None
                )
            else:
                judged = await known.arriving.judge(_group_of(members))
        rewards, calibration = self._scorer.reward_late(judged)
        if self.recorder is not None and rewards.scores[index].reward is not None:
            self.recorder.add_late(member, rewards, index)
        answer = self._answer_of(known, members, rewards, calibration)
        done = {
            id_: task.result()
            for id_, task in known.late.items()
            if task.done() and not task.exception()
        }
        answers = {"": known.answer.result(), **done, member.id: answer}
        if known.key is not None:
            self.journal.write({known.key: KeptCohort.of(known.cohort, answers)})
        return answer

    def _answer_of(
        self,
        known: KnownGroup,
        members: Sequence[Member],
        rewards: GroupRewards,
        calibration: CalibrationRecord,
    ) -> GroupAnswer:
        reference = None if known.compared is None else known.compared.wins.rate()
        counts = GroupCounts.of(rewards, known.cohort.size, self.counts.rewards.mean, reference)
        return GroupAnswer(
            known.cohort.name, tuple(member.id for member in members), rewards, calibration, counts
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
