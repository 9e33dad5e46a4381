"""Score many inputs in one run: each once, several at a time, all with the same judges."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from genrm_cli.errors import (
    INTERRUPTED,
    ChangedInputError,
    GenrmError,
    JudgeError,
    SettingRef,
    StorageError,
    TooManyUnscoredError,
    worst_exit_code,
)
from genrm_cli.groups.check import check_settings
from genrm_cli.groups.tasks import first_error_of, in_thread
from genrm_cli.jobs.context import RunContext, cancelled_by_signals
from genrm_cli.jobs.due.decisions import LISTED_AT_ONCE, Decision, FileResult, Status, decide_again, iter_decisions
from genrm_cli.jobs.due.inputs import Task, is_one_input
from genrm_cli.jobs.due.leasing import Leftovers, leased
from genrm_cli.jobs.journals import check_journal_place, check_shard_journal
from genrm_cli.jobs.score_file import ask_task, refuse_unscored, score_task
from genrm_cli.jobs.shards import check_shards
from genrm_cli.judging.open_judges import JudgeSpec, OpenJudges, open_judges
from genrm_cli.scored.json_form import to_json
from genrm_cli.storage.leases import Lease, LeaseLostError, Leases, OtherLease
from genrm_cli.storage.location import folder_of
from genrm_cli.storage.sink import check_writable, make_folder

SHOWN_ROLLOUTS = 32

Held = Mapping[str, Lease | OtherLease | None]
"""Leases by output; None for outputs that are not leased."""


@dataclass(slots=True)
class BatchReport:
    """The results of all inputs of a run.

    Attributes:
        alone: whether the run has a single input, which its user named, or a set of files.
        keeps: whether results are kept, for `--json`; of many inputs those that are up to date are not.
        results: those that were kept.
        last: of the last input.
        samples: rewards of the first groups, for a person to look at.
        judges: as they were asked; empty if none was.
        counts: of all inputs, by status.
        exit_code: the worst of all inputs.
        fatal: the error that ended the run early; None without one.
        is_interrupted: whether Ctrl-C or SIGTERM ended it.
        is_listed: whether all inputs were found before the run ended.
    """

    alone: bool = False
    keeps: bool = False
    results: list[FileResult] = field(default_factory=list)
    last: FileResult | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)
    judges: Sequence[JudgeSpec] = ()
    counts: Counter[Status] = field(default_factory=Counter)
    exit_code: int = 0
    fatal: GenrmError | None = None
    is_interrupted: bool = False
    is_listed: bool = False

    def enter(self, result: FileResult) -> None:
        """Add the result of one more input."""
        self.last = result
        self.counts[result.status] += 1
        self.exit_code = worst_exit_code([self.exit_code, result.exit_code])
        if result.report is not None and len(self.samples) < SHOWN_ROLLOUTS:
            self.samples += result.report.samples
        if self.keeps and (self.alone or result.status is not Status.CURRENT):
            self.results.append(replace(result, report=None))

    def end(self, fatal: GenrmError) -> None:
        """Record the error that ended the run early."""
        self.fatal = fatal
        self.exit_code = worst_exit_code([self.exit_code, fatal.exit_code])

    def interrupt(self) -> None:
        """Record that Ctrl-C or SIGTERM ended the run."""
        self.is_interrupted, self.exit_code = True, INTERRUPTED

    @property
    def only_error(self) -> GenrmError | None:
        """What ended the run early, or failed its only input; None if nothing did."""
        if self.fatal is None and self.alone and self.last is not None:
            return self.last.error
        return self.fatal

    @property
    def error(self) -> str | None:
        """The same in words, interruptions included."""
        if self.is_interrupted:
            return "interrupted"
        return None if self.only_error is None else str(self.only_error)

    def as_dict(self) -> dict[str, Any]:
        """Return the report, JSON-ready."""
        counts = {status.value.replace(" ", "_"): self.counts[status] for status in Status if self.counts[status]}
        return {
            "files": self.counts.total(),
            "all_listed": self.is_listed,
            **counts,
            "error": self.error,
            "exit_code": self.exit_code,
            "results": [_with_metrics(result) for result in self.results],
        }


def _with_metrics(result: FileResult) -> dict[str, Any]:
    """Return a result with the metrics of its outputs; those of outputs to be replaced say nothing about it."""
    is_made = result.status in (Status.SCORED, Status.CURRENT)
    return result.as_dict() | {"metrics": to_json(result.metrics) if is_made and result.metrics is not None else None}


async def score_inputs(
    inputs: Sequence[str],
    run: RunContext,
    report: BatchReport | None = None,
    judges: OpenJudges | None = None,
    held: Held | None = None,
) -> BatchReport:
    """Score all inputs that are not up to date.

    One that fails does not stop the others; a judge that cannot be used stops the run, as does a cancellation.

    Args:
        inputs: as on the command line.
        run: settings, metrics and events.
        report: gets the results, so that those of an interrupted run are known, too.
        judges: open, of a process that asks about several shards; their limits are not divided by shards.
        held: the outputs to write, with their leases, if the caller took them; nothing else is scored.

    Raises:
        UsageError: the settings name no judge, or contradict the inputs.
        CancelledError: the run was interrupted, by SIGTERM too.
    """
    check_settings(run.settings)
    check_journal_place(run.settings)
    if judges is None:
        check_shards(run.settings)
    report = report or BatchReport(alone=is_one_input(inputs) or run.settings.input.together)
    await _Batch(run, report, held).score(inputs, judges)
    return report


class _Batch:
    """One run over many inputs."""

    def __init__(self, run: RunContext, report: BatchReport, held: Held | None) -> None:
        self.report = report
        self._held = held
        self._run = run
        self._leases = Leases(run.s3, run.settings.storage.lease_expiry)
        self._has_begun = False

    async def score(self, inputs: Sequence[str], given: OpenJudges | None) -> None:
        """Score all inputs, a few at a time."""
        lanes = self._run.settings.limits.parallel_files
        # Each lane reads or writes in one thread, renews its lease in a second, and copies its journal in a third.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4 + 3 * lanes))
        queue: asyncio.Queue[Decision | None] = asyncio.Queue(maxsize=lanes)
        opened = (
            open_judges(self._run.judge_specs(), self._run.open_options, self._run.on_event)
            if given is None
            else nullcontext(given)
        )
        try:
            async with (
                cancelled_by_signals(),
                opened as judges,
                asyncio.TaskGroup() as group,
            ):
                for _ in range(lanes):
                    group.create_task(self._work_through(queue, judges))
                await self._fill(queue, inputs)
                for _ in range(lanes):
                    await queue.put(None)
        except BaseExceptionGroup as group:
            error = first_error_of(group)
            if not isinstance(error, GenrmError):
                raise error from None
            self.report.end(error)
            while not queue.empty():
                if (decision := queue.get_nowait()) is not None:
                    self._enter(decision.waiting("skipped: the run ended early").result())

    async def _fill(self, queue: asyncio.Queue[Decision | None], inputs: Sequence[str]) -> None:
        asks_only = self._run.shard is not None
        leftovers = None if asks_only else Leftovers(self._run.s3, one_output=is_one_input(inputs))
        decisions = iter_decisions(inputs, self._run, None, leftovers)
        while chunk := await self._run.in_thread(lambda: list(islice(decisions, LISTED_AT_ONCE))):
            for decision in chunk:
                if decision.status is not Status.SCORE:
                    self._enter(decision.result())
                elif self._held is None or decision.is_current or decision.task.places.scored in self._held:
                    await queue.put(decision)
                else:
                    self._enter(decision.waiting("became due during the run").result())
        self.report.is_listed = True

    async def _work_through(self, queue: asyncio.Queue[Decision | None], judges: OpenJudges) -> None:
        while (decision := await queue.get()) is not None:
            started_s = time.monotonic()
            try:
                result = await self._score_unless_stopped(decision, judges)
            except JudgeError:  # the others would meet the same judge
                self._enter(decision.waiting("not finished: the judge failed").result())
                raise
            except asyncio.CancelledError:
                self._enter(decision.waiting("not finished: the run ended").result())
                raise
            except (ChangedInputError, LeaseLostError) as error:
                result = decision.put_off(error).result()
            except GenrmError as error:
                result = decision.failed(error).result()
            self._enter(replace(result, wall_time_s=time.monotonic() - started_s))

    async def _score_unless_stopped(self, decision: Decision, judges: OpenJudges) -> FileResult:
        if judges.stopped_by is not None and self._has_begun:
            stopped = TooManyUnscoredError("skipped: the run was stopped by ", SettingRef(judges.stopped_by))
            return decision.waiting(str(stopped), stopped).result()
        self._has_begun = True
        await in_thread(lambda: prove_writable([decision.task], self._run))
        if self._run.shard is not None:  # claims of the outputs are for the run that writes them
            return await self._ask(decision, judges)
        if self._run.settings.storage.leases and decision.can_be_leased:
            return await self._score_leased(decision, judges)
        return await self._score_if_still_due(decision, judges)

    async def _score_leased(self, decision: Decision, judges: OpenJudges) -> FileResult:
        """Score an input under a lease, unless another run holds it or was quicker."""
        output = decision.task.places.scored
        if decision.is_current and not await in_thread(lambda: self._leases.remove_expired(output)):
            return replace(decision, status=Status.CURRENT).result()
        held = self._held or {}
        async with nullcontext(held) if output in held else leased([output], self._leases, self._run) as found:
            lease = found[output]
            if isinstance(lease, OtherLease) and decision.is_current:
                return replace(decision, status=Status.CURRENT).result()
            if isinstance(lease, OtherLease):
                return decision.put_off(StorageError(f"{output}: {lease}; run again when it is done")).result()
            return await self._score_if_still_due(decision, judges, lease)

    async def _score_if_still_due(
        self, decision: Decision, judges: OpenJudges, lease: Lease | None = None
    ) -> FileResult:
        decision = await in_thread(lambda: decide_again(decision, self._run))
        return await self._score(decision, judges, lease) if decision.status is Status.SCORE else decision.result()

    async def _score(self, decision: Decision, judges: OpenJudges, lease: Lease | None) -> FileResult:
        task, settings = decision.task, self._run.settings
        counts = self._run.progress.begin()
        try:
            run = replace(self._run, metrics=counts, stop=threading.Event())  # one input may stop alone
            report = await score_task(task, run, judges, lease, overwrite=decision.replaces)
        finally:
            self._run.progress.end(counts)
            self.report.judges = judges.specs
        error = None
        try:
            refuse_unscored(counts, settings)
        except TooManyUnscoredError as too_many:
            error = too_many
        failures = f"failures: {counts.failed}, " if counts.failed else ""
        told = f"rollouts: {counts.statuses['scored']} of {counts.rollouts}, {failures}calls: {counts.calls}"
        reason = f"{told} ({decision.reason})"
        if error is not None:
            reason += f"; {str(error).rstrip('.')}"
        metrics, files = report.metrics, len(task.files)
        return FileResult(
            task.uri, task.places.shown, Status.SCORED, reason, error, report, metrics=metrics, files=files
        )

    async def _ask(self, decision: Decision, judges: OpenJudges) -> FileResult:
        """Ask about the groups of a shard."""
        task, metrics = decision.task, self._run.progress.begin()
        check_shard_journal(task.places.scored, self._run.settings)
        try:
            await ask_task(task, replace(self._run, metrics=metrics, stop=threading.Event()), judges)
        finally:
            self._run.progress.end(metrics)
            self.report.judges = judges.specs
        reason = (
            f"shard {self._run.shard}, groups: {metrics.groups}, verdicts: {metrics.verdicts + metrics.journal_hits}, "
            f"failures: {metrics.failed}, calls: {metrics.calls}"
        )
        error = None
        if metrics.stopped_by is not None:
            error = TooManyUnscoredError(
                SettingRef(metrics.stopped_by), f" stopped shard {self._run.shard}; run the same command again."
            )
            reason += f"; {str(error).rstrip('.')}"
        return FileResult(task.uri, task.places.shown, Status.ASKED, reason, error, files=len(task.files))

    def _enter(self, result: FileResult) -> None:
        self.report.enter(result)
        self._run.on_event("file", result.as_dict())


def prove_writable(tasks: Iterable[Task], run: RunContext) -> None:
    """Check that the outputs of inputs can be written, before anything is paid for; blocks on storage.

    Raises:
        StorageError: they cannot.
    """
    outputs = (uri for task in tasks for uri in (task.places.scored, *task.places.files))
    for uri in {folder_of(uri): uri for uri in outputs}.values():
        if run.settings.output.output is None:  # the folders of a template are created
            make_folder(uri)
        check_writable(uri, run.s3)
