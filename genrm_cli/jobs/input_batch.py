"""Score many inputs in one run: each once, several at a time, all with the same judges.

Listing is lazy: it waits while as many inputs are scored as there are lanes, so that a folder of a
million files needs no more memory than one of ten. Small objects share a lane. For each input, a
task takes the lease on its output, decides again, since another run may have written it since it
was listed, and scores. What concerns one input ends that input; an unusable judge ends the run,
because all inputs share it.
"""

import asyncio
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from genrm_cli.errors import (
    INTERRUPTED,
    ChangedInputError,
    GenrmError,
    JudgeError,
    Message,
    SettingRef,
    TooManyUnscoredError,
    counted,
    worst_exit_code,
)
from genrm_cli.groups.check import check_settings
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.advise_grouping import describe_grouping, describe_unread
from genrm_cli.jobs.due.decisions import (
    LISTED_AT_ONCE,
    Decision,
    Status,
    decide_again,
    iter_decisions,
)
from genrm_cli.jobs.due.inputs import Task, is_one_input
from genrm_cli.jobs.due.leasing import LeaseHeldError, leased
from genrm_cli.jobs.due.refusals import refuse_unscored
from genrm_cli.jobs.journals import check_journal_place, check_shard_journal
from genrm_cli.jobs.offline.open_exchange import check_offline, open_exchange
from genrm_cli.jobs.score_file import ask_task, score_task
from genrm_cli.jobs.shards import shard_of
from genrm_cli.json_types import Record
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.opening.open_judges import OpenJudges, open_judges
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.scored.account import RunAccount
from genrm_cli.scored.json_form import to_json
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.storage.leases import Lease, LeaseLostError
from genrm_cli.storage.location import folder_of, is_remote
from genrm_cli.tasks import first_error_of

# A small object waits for a dozen replies of its store, one after another.
_SMALL_BYTES = 1_000_000
_SMALL_IN_LANE = 4


class UnreadFieldEvent(Event, frozen=True):
    """All responses of each prompt are equal, and a field beside them is not."""

    severity = Severity.WARNING
    input: str
    detail: Message

    def text(self) -> Message:
        """Name the input and the field."""
        return Message.of(f"{self.input}: ", self.detail, ".")


class FileEvent(Event, frozen=True):
    """An input is done, failed, or left to the next run."""

    result: Decision

    @property
    def level(self) -> Severity:
        """An error for an input that failed."""
        return Severity.ERROR if self.result.status is Status.FAILED else Severity.INFO

    @property
    def is_failure(self) -> bool:
        """Whether the input ends with an exit code."""
        return self.result.exit_code != 0

    def text(self) -> Message | None:
        """Describe the result; None for an input that is up to date."""
        is_quiet = self.result.status is Status.CURRENT and not self.is_failure
        return None if is_quiet else self.result.text()

    def as_dict(self) -> Record:
        """Return the fields of a log line."""
        return self.result.as_dict()


class BatchReport(Struct):
    """The results of all inputs of a run.

    Attributes:
        alone: whether the user named a single input, or a set of files.
        keeps: whether results are kept; with many inputs, those that are up to date are not.
        is_listed: whether all inputs were found before the run ended.
        totals: of what was scored, once the run has ended; None if nothing was.
    """

    alone: bool = False
    keeps: bool = False
    results: list[Decision] = []
    last: Decision | None = None
    judges: Sequence[JudgeSpec] = ()
    counts: Counter[Status] = field(default_factory=Counter)
    exit_code: int = 0
    fatal: GenrmError | None = None
    is_interrupted: bool = False
    is_listed: bool = False
    totals: RunTotals | None = None

    def enter(self, result: Decision) -> None:
        """Add the result of one more input."""
        self.last = result
        self.counts[result.status] += 1
        self.exit_code = worst_exit_code([self.exit_code, result.exit_code])
        if self.keeps and (
            self.alone or result.status is not Status.CURRENT or result.error is not None
        ):
            self.results.append(result)

    def end(self, fatal: GenrmError) -> None:
        """Record the error that ended the run early."""
        self.fatal = fatal
        self.exit_code = worst_exit_code([self.exit_code, fatal.exit_code])

    def interrupt(self) -> None:
        """Record that Ctrl-C or SIGTERM ended the run."""
        self.is_interrupted = True
        self.exit_code = INTERRUPTED

    @property
    def only_error(self) -> GenrmError | None:
        """The error that ended the run early, or that of its only input; None without one."""
        if self.fatal is None and self.alone and self.last is not None:
            return self.last.error
        return self.fatal

    @property
    def error(self) -> str | None:
        """The error of the run or its only input as text; `interrupted` if it was interrupted."""
        if self.is_interrupted:
            return "interrupted"
        return None if self.only_error is None else str(self.only_error)

    def as_dict(self) -> dict[str, Any]:
        """Return the report, JSON-ready."""
        counts = {
            status.value.replace(" ", "_"): self.counts[status]
            for status in Status
            if self.counts[status]
        }
        return {
            "files": self.counts.total(),
            "all_listed": self.is_listed,
            **counts,
            "error": self.error,
            "exit_code": self.exit_code,
            "results": [
                result.as_dict()
                | {
                    "reason": str(result.reason),
                    "metrics": None if result.record is None else to_json(result.record),
                    "account": result.record and to_json(RunAccount.of(result.record)),
                }
                for result in self.results
            ],
        }


async def score_inputs(
    inputs: Sequence[str],
    run: RunContext,
    report: BatchReport | None = None,
    judges: OpenJudges | None = None,
) -> BatchReport:
    """Score all inputs that are not up to date, a few at a time.

    A failed input does not stop the others; an unusable judge or a cancellation stops the run.
    """
    check_settings(run.settings)
    check_journal_place(run.settings)
    shard_of(run.settings)  # refuses a shard that does not exist
    check_offline(run.settings)
    report = report or BatchReport(alone=is_one_input(inputs) or run.settings.input.together)
    opened = (
        open_judges(run.judge_specs(), run.open_options, run.on_event)
        if judges is None
        else nullcontext(judges)
    )
    # Replies and requests in files belong to all inputs, which take turns.
    lanes = 1 if run.settings.offline.is_used else run.settings.limits.parallel_files
    # Each input is read or written in one thread, renews its lease in a second, and copies its
    # journal in a third.
    threads = ThreadPoolExecutor(4 + 3 * lanes * _SMALL_IN_LANE)
    try:
        async with cancelled_by_signals(), opened as judges, open_exchange(run) as exchange:
            of_batch = dataclasses.replace(run, threads=threads, exchange=exchange)
            await _BatchRun(of_batch, report, judges).score_all(inputs, lanes)
    except BaseExceptionGroup as group:
        error = first_error_of(group)
        if not isinstance(error, GenrmError):
            raise error from None
        report.end(error)
    finally:
        threads.shutdown(wait=False)
    return report


class _BatchRun(Struct):
    """One run over many inputs."""

    run: RunContext
    report: BatchReport
    judges: OpenJudges
    has_begun: bool = False

    async def score_all(self, inputs: Sequence[str], lanes: int) -> None:
        """Score the inputs that are due, some at a time, and report the others."""
        free = asyncio.Semaphore(lanes * _SMALL_IN_LANE)
        decisions = iter_decisions(inputs, self.run)
        async with asyncio.TaskGroup() as group:
            while chunk := await self.run.in_thread(
                lambda: list(islice(decisions, LISTED_AT_ONCE))
            ):
                for decision in chunk:
                    if decision.status is not Status.SCORE:
                        self._enter(decision)
                        continue
                    places = 1 if self._is_small(decision.task) else _SMALL_IN_LANE
                    for _ in range(places):
                        await free.acquire()
                    scoring = group.create_task(self._score_reported(decision))
                    for _ in range(places):
                        scoring.add_done_callback(lambda _: free.release())
            self.report.is_listed = True

    def _is_small(self, task: Task) -> bool:
        """Return whether an input mostly waits for its store and needs little memory. Under a
        budget, no more inputs are begun than needed: it leaves each of them incomplete.
        """
        settings = self.run.settings
        if settings.offline.is_used or settings.limits.has_budget or task.found is None:
            return False
        identity = task.found.identity
        return is_remote(identity.uri) and (identity.size_bytes or 0) <= _SMALL_BYTES

    async def _score_reported(self, decision: Decision) -> None:
        """Score an input and report its result; raise what ends the run."""
        started_s = time.monotonic()
        try:
            result = await self._score(decision)
        except JudgeError:  # the other inputs use the same judge
            self._enter(decision.skipped("the judge failed"))
            raise
        except asyncio.CancelledError:
            self._enter(decision.skipped("the run ended"))
            raise
        except (ChangedInputError, LeaseHeldError, LeaseLostError) as error:
            result = decision.put_off(error)
        except GenrmError as error:
            result = decision.failed(error)
        self._enter(replace(result, wall_time_s=time.monotonic() - started_s))

    async def _score(self, decision: Decision) -> Decision:
        """Score an input, under a lease on its output; a shard only asks the judge."""
        # The first input is always begun: its outputs say which limit stopped the run.
        stopped_by = self.judges.stopped_by
        if stopped_by is not None and self.has_begun:
            stopped = TooManyUnscoredError("the run was stopped by ", SettingRef(stopped_by))
            return decision.skipped(stopped.message, stopped)
        self.has_begun = True
        # Before anything is paid for.
        await self.run.in_thread(lambda: self._check_writable(decision.task))
        if self.run.shard is not None:  # leases on the outputs are for the run that writes them
            return await self._ask(decision)
        places = decision.task.places
        # Nobody else writes to a stream. The decision is repeated under the lease, because another
        # run may have written the outputs since the input was listed.
        outputs = [] if places.metrics is None else [places.scored]
        async with leased(outputs, self.run) as leases:
            return await self._score_leased(decision, next(iter(leases), None))

    async def _score_leased(self, decision: Decision, lease: Lease | None) -> Decision:
        """Score an input if it is still due; without a lease if it needs none."""
        beside = None if lease is None else lease.beside
        decision = await self.run.in_thread(lambda: decide_again(decision, self.run, beside))
        if decision.status is not Status.SCORE:
            return decision
        with self._input_run() as run:
            record = await score_task(
                decision.task, run, self.judges, lease, overwrite=decision.replaces
            )
        counts = run.metrics
        if record is None:
            reason = (
                f"it waits for replies; groups that have all of them: {counts.groups_done}, "
                f"with {counted(counts.verdicts + counts.journal_hits, 'verdict')}"
            )
            return replace(decision, status=Status.ASKED, reason=Message.of(reason))
        failures = f"failures: {counts.failures}, " if counts.failures else ""
        rollouts = f"rollouts: {counts.statuses['scored']} of {counts.rollouts}"
        reason = f"{rollouts}, {failures}calls: {counts.calls} ("
        scored = replace(
            decision,
            status=Status.SCORED,
            reason=Message.of(reason, decision.reason, ")"),
            record=record,
        )
        task = decision.task

        def advise() -> Message:
            with task.sources(run) as sources, sources.open(0) as source:
                return describe_grouping(source, run.settings.input)

        if counts.rollouts > counts.groups and not counts.comparisons_planned:
            with task.sources(run) as sources, sources.open(0) as source:
                unread = describe_unread(source, run.settings.input)
            if unread is not None:
                self.run.on_event(UnreadFieldEvent(task.uri, unread))
        return scored.checked(lambda: refuse_unscored(counts, record, run.settings, advise))

    @contextmanager
    def _input_run(self) -> Iterator[RunContext]:
        counts = self.run.progress.begin()
        try:
            yield dataclasses.replace(self.run, metrics=counts, stop=threading.Event())
        finally:
            self.run.progress.end(counts)
            self.report.judges = self.judges.specs

    async def _ask(self, decision: Decision) -> Decision:
        task = decision.task
        check_shard_journal(task.places.scored, self.run.settings)
        with self._input_run() as run:
            await ask_task(task, run, self.judges)
        metrics = run.metrics
        error = None
        reason = Message.of(
            f"shard {run.shard}, groups: {metrics.groups}, verdicts: "
            f"{metrics.verdicts + metrics.journal_hits}, "
            f"failures: {metrics.failures}, calls: {metrics.calls}"
        )
        if metrics.stopped_by is not None:
            stopped = SettingRef(metrics.stopped_by)
            error = TooManyUnscoredError(
                stopped, f" stopped shard {run.shard}; run the same command again."
            )
            reason = Message.of(reason, "; ", error.message)
        return replace(decision, status=Status.ASKED, reason=reason, error=error)

    def _check_writable(self, task: Task) -> None:
        """Check that the outputs can be written, before any paid call."""
        for uri in {
            folder_of(uri): uri for uri in (task.places.scored, *task.places.files)
        }.values():
            place = self.run.store.at(uri)
            if self.run.settings.output.output is None:  # the folders of a template are created
                place.make_folder()
            # On S3 the lease beside the outputs is the first thing that is written.
            if not is_remote(uri) or task.places.files or self.run.shard is not None:
                place.check_writable()

    def _enter(self, result: Decision) -> None:
        self.report.enter(result)
        self.run.on_event(FileEvent(result))
