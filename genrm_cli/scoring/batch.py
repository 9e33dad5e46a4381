"""Score many inputs in one run: each once, some side by side, all with one judge."""

import asyncio
import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from genrm_cli.errors import (
    ChangedInputError,
    GenrmError,
    JudgeError,
    StorageError,
    TooManyUnscoredError,
    UsageError,
    worst_exit_code,
)
from genrm_cli.scoring.context import Run
from genrm_cli.scoring.freshness import Freshness, Standing, look_at_outputs
from genrm_cli.scoring.inputs import Task, iter_tasks
from genrm_cli.scoring.judges import JudgeDesk, check_judge, open_judge
from genrm_cli.scoring.run import Report, refuse_unscored, score_task
from genrm_cli.storage.claims import Claim, ClaimLostError, Claims, HeldClaim
from genrm_cli.storage.sink import check_writable, make_folder
from genrm_cli.storage.source import identity_of

_LOOKS_AT_ONCE = 32
_LISTED_AT_ONCE = 256


class Status(StrEnum):
    """What became of an input, or with `--dry-run` would."""

    SCORE = "score"  # to be scored
    SCORED = "scored"
    CURRENT = "up to date"
    WAITS = "waits"  # for the next run
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one input.

    Attributes:
        uri: of the input.
        output: where its scored lines are, or would be.
        status: what became of it.
        reason: why, or with what result.
        error: what went wrong; also of an input that was scored, but with too many unscored.
        report: of an input that was scored now.
        metrics: of its outputs, if there are some.
        wall_time_s: what it took.
    """

    uri: str
    output: str
    status: Status
    reason: str
    error: GenrmError | None = None
    report: Report | None = None
    metrics: dict[str, Any] | None = None
    wall_time_s: float = 0.0

    @property
    def exit_code(self) -> int:
        """What a run over this input alone would end with."""
        return 0 if self.error is None else self.error.exit_code

    def as_dict(self) -> dict[str, Any]:
        """Return the result as it stands in the run's JSON object."""
        return {
            "input": self.uri,
            "output": self.output,
            "status": self.status.value,
            "reason": self.reason,
            "exit_code": self.exit_code,
            "wall_time_s": round(self.wall_time_s, 3),
        }


@dataclass(slots=True)
class BatchReport:
    """What became of all inputs of a run.

    Attributes:
        results: of all but those that were up to date.
        last: of the last one, whatever became of it.
        counts: of all, by status.
        fatal: what ended the run before its end; None if nothing did.
    """

    results: list[FileResult] = field(default_factory=list)
    last: FileResult | None = None
    counts: Counter[Status] = field(default_factory=Counter)
    fatal: GenrmError | None = None

    @property
    def exit_code(self) -> int:
        """The worst of all inputs' exit codes."""
        codes = [result.exit_code for result in self.results]
        return worst_exit_code([*codes, self.fatal.exit_code] if self.fatal is not None else codes)

    def as_dict(self) -> dict[str, Any]:
        """Return the run as one JSON-ready object."""
        counts = {status.value.replace(" ", "_"): self.counts[status] for status in Status if self.counts[status]}
        return {
            "files": self.counts.total(),
            **counts,
            "error": None if self.fatal is None else str(self.fatal),
            "exit_code": self.exit_code,
            "results": [result.as_dict() for result in self.results],
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done with an input: to score it, or what became of it without."""

    task: Task
    status: Status
    reason: str
    error: GenrmError | None = None
    freshness: Freshness | None = None

    def result(self) -> FileResult:
        """Return what became of an input that is not scored now."""
        metrics = None if self.freshness is None else self.freshness.metrics
        places = self.task.places
        return FileResult(self.task.uri, places.scored, self.status, self.reason, self.error, metrics=metrics)


def iter_decisions(inputs: Sequence[str], run: Run) -> Iterator[Decision]:
    """Yield what is to be done with each input, in the order of the listing; blocks on storage.

    Raises:
        UsageError: the inputs and settings do not go together.
    """
    tasks = iter_tasks(inputs, run.settings, run.s3)
    with ThreadPoolExecutor(_LOOKS_AT_ONCE) as looks:
        while chunk := list(islice(tasks, _LISTED_AT_ONCE)):
            yield from looks.map(lambda task: decide(task, run), chunk)


def decide(task: Task, run: Run) -> Decision:
    """Look at an input and its outputs, and decide what is to be done; blocks on storage."""
    settings = run.settings
    if task.problem is not None:
        return Decision(task, Status.FAILED, str(task.problem), task.problem)
    try:
        identity = identity_of(task.uri, run.s3) if task.found is None else task.found.identity
        freshness = look_at_outputs(task.places, identity, settings, run.s3)
    except GenrmError as error:
        return Decision(task, Status.FAILED, str(error), error)
    if freshness.standing is Standing.CURRENT:
        return Decision(task, Status.CURRENT, freshness.reason, freshness=freshness)
    if freshness.standing is Standing.FOREIGN and not settings.overwrite:
        foreign = UsageError(
            f"{task.places.scored} exists, but {freshness.reason}; pass --force to replace it, "
            "or choose another output."
        )
        return Decision(task, Status.FAILED, str(foreign), foreign)
    if task.found is not None and task.found.age_s < settings.min_age:
        reason = f"{task.found.age_s:.0f} s old, younger than --min-age {settings.min_age:g} s: perhaps still written"
        return Decision(task, Status.WAITS, reason, freshness=freshness)
    return Decision(task, Status.SCORE, freshness.reason, freshness=freshness)


def plan_inputs(inputs: Sequence[str], run: Run) -> Iterator[FileResult]:
    """Yield what a run would do with each input, claims of others included; nothing is written."""
    claims = Claims(run.s3, run.settings.claim_expiry)
    for decision in iter_decisions(inputs, run):
        held = claims.look(decision.task.places.scored) if _is_claimable(decision, run) else None
        yield (decision if held is None else replace(decision, status=Status.WAITS, reason=str(held))).result()


def score_inputs(inputs: Sequence[str], run: Run) -> BatchReport:
    """Score all inputs that are not up to date.

    One that fails does not stop the others; a judge that cannot be used stops the run, as does an interruption.

    Raises:
        UsageError: the settings name no judge, or do not go with the inputs.
        KeyboardInterrupt: the run was interrupted, by SIGTERM too.
    """
    check_judge(run.settings)
    batch = _Batch(run)
    try:
        asyncio.run(batch.score(inputs))
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error  # SIGTERM
    return batch.report


class _Batch:
    """One run over many inputs."""

    def __init__(self, run: Run) -> None:
        self.report = BatchReport()
        self._run = run
        self._claims = Claims(run.s3, run.settings.claim_expiry)
        self._said_uncertain = self._has_begun = False

    async def score(self, inputs: Sequence[str]) -> None:
        """Score all inputs, a few at a time."""
        lanes = self._run.settings.parallel_files
        # Each lane reads or writes in one thread, renews its claim in another, and copies its journal in a third.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4 + 3 * lanes))
        queue: asyncio.Queue[Decision | None] = asyncio.Queue(maxsize=lanes)
        try:
            async with _cancelled_by_sigterm(), open_judge(self._run) as desk, asyncio.TaskGroup() as group:
                for _ in range(lanes):
                    group.create_task(self._work_through(queue, desk))
                await self._fill(queue, inputs)
                for _ in range(lanes):
                    await queue.put(None)
        except BaseExceptionGroup as group:
            error = _first_of(group)
            if not isinstance(error, GenrmError):
                raise error from None
            self.report.fatal = error

    async def _fill(self, queue: asyncio.Queue[Decision | None], inputs: Sequence[str]) -> None:
        decisions = iter_decisions(inputs, self._run)
        while chunk := await self._run.in_thread(lambda: list(islice(decisions, _LISTED_AT_ONCE))):
            for decision in chunk:
                if decision.status is Status.SCORE:
                    await queue.put(decision)
                else:
                    self._enter(decision.result())

    async def _work_through(self, queue: asyncio.Queue[Decision | None], desk: JudgeDesk) -> None:
        while (decision := await queue.get()) is not None:
            started_s = time.monotonic()
            try:
                result = await self._score_claimed(decision, desk)
            except JudgeError:
                raise  # the others would meet the same judge
            except (ChangedInputError, ClaimLostError) as error:
                result = _put_off(decision, str(error), error)
            except GenrmError as error:
                result = replace(decision, status=Status.FAILED, reason=str(error), error=error).result()
            self._enter(replace(result, wall_time_s=time.monotonic() - started_s))

    async def _score_claimed(self, decision: Decision, desk: JudgeDesk) -> FileResult:
        """Score an input under a claim, unless somebody else has one, or was quicker."""
        if desk.stopped_by is not None and self._has_begun:
            stopped = TooManyUnscoredError(f"not begun: the run was stopped by --{desk.stopped_by.replace('_', '-')}")
            return replace(decision, status=Status.WAITS, reason=str(stopped), error=stopped).result()
        self._has_begun = True
        await self._run.in_thread(lambda: self._prove_writable(decision.task))
        if not _is_claimable(decision, self._run):
            return await self._score(decision, desk)
        output = decision.task.places.scored
        claim = await self._run.in_thread(lambda: self._take(output))
        if isinstance(claim, HeldClaim):
            return _put_off(decision, str(claim), StorageError(f"{output}: {claim}; run again when it is done."))
        try:
            decision = await self._run.in_thread(lambda: decide(decision.task, self._run))
            if decision.status is not Status.SCORE:
                return decision.result()
            async with _renewed(claim, self._claims.expiry_s):
                return await self._score(decision, desk, claim)
        finally:
            await self._run.in_thread(claim.release)

    async def _score(self, decision: Decision, desk: JudgeDesk, claim: Claim | None = None) -> FileResult:
        task, settings = decision.task, self._run.settings
        tally = self._run.tallies.begin()
        is_there = decision.freshness is not None and decision.freshness.standing is not Standing.NEW
        try:
            run = replace(self._run, tally=tally, stop=threading.Event())  # one input may stop alone
            report = await score_task(task, run, desk, claim, replace=is_there)
        finally:
            self._run.tallies.end(tally)
        error = None
        try:
            refuse_unscored(tally, settings)
        except TooManyUnscoredError as too_many:
            error = too_many
        scored = tally.rollouts - tally.statuses["unscored"]
        reason = f"{scored} of {tally.rollouts} rollouts, {tally.calls} calls ({decision.reason})"
        return FileResult(task.uri, task.places.scored, Status.SCORED, reason, error, report, metrics=report.metrics)

    def _prove_writable(self, task: Task) -> None:
        """Make sure, before anything is paid for, that the outputs can be written."""
        if self._run.settings.output is None:  # the folder of a template is ours to make
            make_folder(task.places.scored)
        check_writable(task.places.scored, self._run.s3)

    def _take(self, output: str) -> Claim | HeldClaim:
        if not self._claims.are_certain(output) and not self._said_uncertain:
            self._said_uncertain = True
            self._run.on_event("claims_uncertain", {"output": output})
        return self._claims.take(output)

    def _enter(self, result: FileResult) -> None:
        self.report.last = result
        self.report.counts[result.status] += 1
        if result.status is not Status.CURRENT:
            self.report.results.append(result)
        self._run.on_event("file", result.as_dict())


def _is_claimable(decision: Decision, run: Run) -> bool:
    """Say whether an input is to be scored to a place where other runs could score it, too."""
    return decision.status is Status.SCORE and run.settings.claims and decision.task.places.metrics is not None


def _put_off(decision: Decision, reason: str, error: GenrmError) -> FileResult:
    """Leave an input to the next run; one that the user named has failed, as nobody else looks for it."""
    if decision.task.found is not None:
        return replace(decision, status=Status.WAITS, reason=reason).result()
    return replace(decision, status=Status.FAILED, reason=reason, error=error).result()


@contextlib.asynccontextmanager
async def _renewed(claim: Claim, expiry_s: float) -> AsyncIterator[None]:
    """Renew a claim while something is done under it; losing it ends what is done.

    Raises:
        ClaimLostError: another run has taken it over.
    """

    async def renew() -> None:
        while True:
            await asyncio.sleep(expiry_s / 3)
            try:
                await asyncio.to_thread(claim.renew)
            except ClaimLostError:
                raise
            except StorageError:
                continue  # it is tried again before it expires; what is lost is found out in the end

    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renew())
            yield
            renewing.cancel()
    except BaseExceptionGroup as group:
        raise _first_of(group) from None


def _first_of(group: BaseExceptionGroup) -> BaseException:
    """Return the first error of a group of tasks; the others are most often the same."""
    error = group.exceptions[0]
    return _first_of(error) if isinstance(error, BaseExceptionGroup) else error


@contextlib.asynccontextmanager
async def _cancelled_by_sigterm() -> AsyncIterator[None]:
    """Let SIGTERM (cron's timeout, a spot instance's end) cancel the run like Ctrl-C: what is answered is kept."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGTERM)
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        # The loop would leave the system's handler, which ends a process that writes its outputs half-way.
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
