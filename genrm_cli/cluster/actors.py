"""The workers of a run: actors on each node that process shards."""

import asyncio
import contextlib
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import ray

from genrm_cli import __version__
from genrm_cli.cluster.fleet_limits import LEASE_S, Grant, LeaseReport
from genrm_cli.cluster.leased_slots import LeasedSlots
from genrm_cli.errors import GenrmError, InputError, Message, SettingRef, StorageError, TooManyUnscoredError
from genrm_cli.groups.check import judge_specs
from genrm_cli.jobs.batch import BatchReport, score_inputs
from genrm_cli.jobs.context import RunContext, new_run
from genrm_cli.judging.lookup import ProfileSource
from genrm_cli.judging.open_judges import JudgeSpec, OpenJudges, open_judges
from genrm_cli.metrics.progress import Progress, RunProgress
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.sources.keys import find_api_keys

FORWARDED = ("endpoint_down", "endpoint_up", "paused", "copy_failing", "journal_damaged", "stopped")


@dataclass(frozen=True, slots=True)
class Order:
    """The instructions for every worker: names and settings.

    Attributes:
        folder: the driver's working folder, which relative paths refer to; None if no path is local.
        with_roles: for each judge, whether the driver's probe chose the profile with roles.
        outputs: of the inputs to ask about; the driver holds their leases.
    """

    settings: Settings
    inputs: tuple[str, ...]
    folder: str | None
    with_roles: tuple[bool, ...]
    outputs: frozenset[str]


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The result of a shard.

    Attributes:
        errors: messages of failed inputs, without errors that the concluding run finds itself.
        fatal: the error that ended the shard, and would end the others.
    """

    exit_code: int
    errors: tuple[Message, ...] = ()
    fatal: GenrmError | None = None


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The progress of a worker since it began, and the events since the last call."""

    version: str
    node: str
    now: Progress
    latencies: Latencies
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


class Worker:
    """Asks about one shard after another, or several at once; all share its judges and slots."""

    def __init__(self, name: str, order: Order, limiter: Any) -> None:
        self._name = name
        self._order = order
        self._limiter = limiter
        self._progress = RunProgress()
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._opened = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._judges: OpenJudges | None = None
        self._slots: LeasedSlots | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[Any]] = set()

    async def ask(self, shard: str) -> ShardResult:
        """Ask about a shard."""
        task = asyncio.current_task()
        if task is not None:
            self._asking.add(task)
        report = BatchReport(keeps=True, alone=True)
        try:
            run = self._run(shard)
            judges = await self._open(run)
            await score_inputs(self._order.inputs, run, report, judges, dict.fromkeys(self._order.outputs))
        except GenrmError as error:
            report.end(error)
        finally:
            if task is not None:
                self._asking.discard(task)
            if self._slots is not None:
                self._slots.is_idle = not self._asking
        found = (result.error for result in report.results)
        told_later = InputError, TooManyUnscoredError
        errors = tuple(error.message for error in found if error is not None and not isinstance(error, told_later))
        return ShardResult(report.exit_code, errors, report.fatal)

    async def state(self) -> WorkerState:
        """Return progress and events."""
        events = self._events.copy()
        self._events.clear()
        latencies = Latencies() if self._judges is None else self._judges.latencies
        node = ray.get_runtime_context().get_node_id()
        now = replace(self._progress.now(), pace=None)
        return WorkerState(__version__, node, now, latencies, events)

    async def stop(self) -> None:
        """Interrupt all shards and wait until their answers are in the journals."""
        tasks = list(self._asking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, shard: str) -> RunContext:
        order = self._order
        if order.folder is not None:
            try:
                os.chdir(order.folder)
            except OSError as error:
                raise StorageError(
                    f"{order.folder}: worker {self._name} cannot enter this folder: {error.strerror}. All nodes need "
                    "the folder in which genrm was started; or pass inputs and ",
                    SettingRef("journal"),
                    " as s3://...",
                ) from error
        settings = changed(order.settings, shard=shard, probe=False, deadline=None)  # the limiter keeps the deadline
        return new_run(settings, find_api_keys(settings), self._progress, self._on_event)

    async def _open(self, run: RunContext) -> OpenJudges:
        async with self._opening:
            if self._slots is None or self._judges is None:
                self._slots = LeasedSlots(self._name, self._renew)
                options = replace(run.open_options, shared=self._slots)
                specs = settled_specs(run.settings, self._order.with_roles)
                self._judges = await self._opened.enter_async_context(open_judges(specs, options, self._on_event))
                self._renewing = asyncio.create_task(self._slots.keep_renewed())
            self._slots.is_idle = False
            return self._judges

    async def _renew(self, report: LeaseReport) -> Grant | None:
        """Ask the limiter, which may be gone."""
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            grant: Grant = await asyncio.wait_for(
                asyncio.wrap_future(self._limiter.renew.remote(report).future()), LEASE_S
            )
            return grant
        return None

    def _on_event(self, event: str, fields: dict[str, Any]) -> None:
        if event in FORWARDED:
            self._events.append((event, fields))


def settled_specs(settings: Settings, with_roles: tuple[bool, ...]) -> list[JudgeSpec]:
    """Return the judges with the profiles that the driver chose."""
    return [
        replace(spec, profile=spec.roles, source=ProfileSource.PROBE, roles=None)
        if has_roles and spec.roles is not None
        else replace(spec, roles=None)
        for spec, has_roles in zip(judge_specs(settings), with_roles, strict=True)
    ]
