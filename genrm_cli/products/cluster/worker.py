"""A worker: an actor on some node that asks about one shard, within its part of the limits."""

import asyncio
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli import __version__
from genrm_cli.errors import (
    GenrmError,
    InputError,
    Message,
    SettingRef,
    StorageError,
    TooManyUnscoredError,
)
from genrm_cli.jobs.context import RunContext, new_run
from genrm_cli.jobs.input_batch import BatchReport, score_inputs
from genrm_cli.jobs.journals import JournalDamagedEvent
from genrm_cli.jobs.replica import CopyFailingEvent
from genrm_cli.judging.opening.judge_spec import JudgeSpec
from genrm_cli.judging.opening.open_judges import OpenJudges, open_judges
from genrm_cli.judging.pacing.judge_events import (
    EndpointDownEvent,
    EndpointUpEvent,
    PausedEvent,
    StoppedEvent,
)
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.event import Event
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.judge_settings import LimitSettings
from genrm_cli.settings.sources.keys import find_api_keys
from genrm_cli.verdicts import StoppedBy

# What a user has to know at once; the driver sees the rest in its own probe and in the conclusion.
FORWARDED = (
    EndpointDownEvent,
    EndpointUpEvent,
    PausedEvent,
    CopyFailingEvent,
    JournalDamagedEvent,
    StoppedEvent,
)


class Order(Struct, frozen=True):
    """The instructions for every worker: names and settings.

    Attributes:
        folder: the driver's working folder, which relative paths refer to; None if no path is
            local.
        contexts: for each judge, its context length as the driver found it, 0 for an unknown one:
            prompts that some workers shorten and others do not would be other requests.
    """

    settings: Settings
    inputs: tuple[str, ...]
    folder: str | None
    contexts: tuple[int, ...]


class ShardResult(Struct, frozen=True):
    """The result of a shard.

    Attributes:
        errors: messages of failed inputs, without errors that the concluding run finds itself.
        fatal: the error that ended the shard, and would end the others.
        stopped_by: the limit that stopped it; None without one.
    """

    exit_code: int
    errors: tuple[Message, ...] = ()
    fatal: GenrmError | None = None
    stopped_by: StoppedBy | None = None


class WorkerState(Struct, frozen=True):
    """The progress of a worker since it began, and the events since the last call."""

    version: str
    now: RunMetrics
    events: Sequence[Event] = ()


class Worker:
    """Asks about one shard."""

    def __init__(self, order: Order, shard: str) -> None:
        self._order = order
        self._shard = shard
        self._progress = RunProgress()
        self._events: list[Event] = []
        self._judges: OpenJudges | None = None
        self._asking: asyncio.Task[Any] | None = None

    async def ask(self, left_s: float | None, lost: Sequence[RunMetrics]) -> ShardResult:
        """Ask about the shard; `left_s` is the time to the deadline, `lost` has what lost workers
        spent on this shard.
        """
        self._asking = asyncio.current_task()
        order = self._order
        report = BatchReport(keeps=True, alone=True)
        try:
            run = self._run(left_s)
            options = run.open_options
            options = dataclasses.replace(
                options, limits=limits_left(options.limits, lost), probe=False
            )
            # The driver has probed the judges, once for all workers.
            specs = settled_specs(run.judge_specs(), order)
            async with open_judges(specs, options, self._on_event) as self._judges:
                await score_inputs(order.inputs, run, report, self._judges)
        except GenrmError as error:
            report.end(error)
        # The run that concludes finds unreadable inputs and missing verdicts itself.
        of_conclusion = (InputError, TooManyUnscoredError)
        errors = tuple(
            result.error.message
            for result in report.results
            if result.error is not None and not isinstance(result.error, of_conclusion)
        )
        stopped_by = None if self._judges is None else self._judges.stopped_by
        return ShardResult(report.exit_code, errors, report.fatal, stopped_by)

    async def state(self) -> WorkerState:
        """Return progress and events."""
        events = self._events
        self._events = []
        return WorkerState(__version__, self._progress.now(), events)

    async def stop(self) -> None:
        """Interrupt the shard and wait until its answers are in the journal."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def _run(self, left_s: float | None) -> RunContext:
        order = self._order
        if order.folder is not None:
            try:
                os.chdir(order.folder)
            except OSError as error:
                raise StorageError(
                    f"{order.folder}: the worker of shard {self._shard} cannot enter this folder: "
                    f"{error.strerror}. "
                    "All nodes need the folder in which genrm was started; or pass inputs and ",
                    SettingRef("journal"),
                    " as s3://...",
                ) from error
        settings = changed(order.settings, shard=self._shard, deadline=left_s)
        return new_run(settings, find_api_keys(settings), self._progress, self._on_event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, FORWARDED):
            self._events.append(event)


def settled_specs(specs: Sequence[JudgeSpec], order: Order) -> list[JudgeSpec]:
    """Return the judges with the contexts that the driver found."""
    settled = []
    for spec, context in zip(specs, order.contexts, strict=True):
        judge = dataclasses.replace(spec.config.judge, max_model_len=context)
        config = replace(spec.config, judge=judge)
        settled.append(replace(spec, config=config))
    return settled


def limits_left(limits: LimitSettings, lost: Sequence[RunMetrics]) -> LimitSettings:
    """Return what lost workers left of their part of the limits, so that losses do not raise the
    cost of a run.
    """
    tokens_in = sum(each.prompt_tokens for each in lost)
    tokens_out = sum(each.completion_tokens for each in lost)
    spent = {
        "max_calls": sum(each.calls for each in lost),
        "max_total_tokens": tokens_in + tokens_out,
        "max_cost": cost_of(tokens_in, tokens_out, limits.price_in, limits.price_out),
    }
    left = {name: getattr(limits, name) for name in spent}
    return dataclasses.replace(
        limits,
        **{name: max(0, left[name] - spent[name]) for name in spent if left[name] is not None},
    )
