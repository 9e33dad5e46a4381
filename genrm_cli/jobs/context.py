"""State that all parts of a run share."""

import asyncio
import dataclasses
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from genrm_cli.groups.check import judge_specs, open_options
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.offline.exchange import FileExchange
from genrm_cli.jobs.shards import Shard, limits_of_shard, shard_of
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.opening.judge_spec import JudgeSpec, OpenOptions
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import Settings
from genrm_cli.storage.source import Source, open_source
from genrm_cli.storage.store import Store
from genrm_cli.tasks import in_thread
from genrm_cli.verdicts import StoppedBy

Result = TypeVar("Result")
# Verdicts are copied meanwhile, as the disk of a pod is lost with it. Below the 120 seconds that
# the manifests of the guide grant.
_END_WITHIN_S = 80


@dataclass(frozen=True, slots=True)
class RunContext:
    """One call of a command.

    Attributes:
        api_keys: API keys by judge name; never shown, not even by `repr`.
        on_event: called with each event that a user or a log should see: `plan`, `probe`, `paused`,
            `endpoint_down`, `endpoint_up`, `stopped`, `file`, ...
        stop: set when the run is interrupted: threads that loop over an input then end soon.
        threads: executor for blocking work; None for the event loop's default.
        shards_stopped_by: with `conclude`: the limit that stopped the shards; None without one.
        exchange: how a run without calls gets its replies; None for a run that calls its judges.
        known: a journal that another run may be writing, in place of one of its own.
    """

    settings: Settings
    plan: GroupPlan
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    metrics: RunMetrics = field(default_factory=RunMetrics)
    progress: RunProgress = field(default_factory=RunProgress)
    on_event: OnEvent = ignore_event
    stop: threading.Event = field(default_factory=threading.Event)
    threads: Executor | None = None
    started_s: float = field(default_factory=time.monotonic)
    shards_stopped_by: StoppedBy | None = None
    exchange: FileExchange | None = None
    known: Journal | None = None

    @property
    def store(self) -> Store:
        """Where inputs and outputs are."""
        return Store(self.settings.storage)

    @property
    def open_options(self) -> OpenOptions:
        """Options of the judges."""
        options = open_options(self.settings, api_keys=self.api_keys)
        limits = limits_of_shard(options.limits, self.shard)
        return dataclasses.replace(options, limits=limits, started_s=self.started_s)

    @property
    def shard(self) -> Shard | None:
        """The groups that are asked about; None for all of them."""
        return shard_of(self.settings)

    def open_source(self, uri: str) -> Source:
        """Open an input within the limits of the settings; `stop` ends its reading."""
        return open_source(uri, self.store, self.settings.input, self.stop.is_set)

    def judge_specs(self) -> list[JudgeSpec]:
        """Return the judges to open."""
        return [
            replace(
                spec,
                config=replace(spec.config, limits=limits_of_shard(spec.config.limits, self.shard)),
            )
            for spec in judge_specs(self.settings)
        ]

    def in_thread(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """Run blocking work in a thread; an interrupted run tells the work to stop."""
        return in_thread(work, self.stop.set, self.threads)


def new_run(
    settings: Settings,
    api_keys: Mapping[str, str] | None = None,
    progress: RunProgress | None = None,
    on_event: OnEvent = ignore_event,
) -> RunContext:
    """Compile the settings and begin a run."""
    progress = progress or RunProgress()
    return RunContext(
        settings, compile_plan(settings), api_keys or {}, progress.begin(), progress, on_event
    )


@asynccontextmanager
async def cancelled_by_signals(end_within_s: int = _END_WITHIN_S) -> AsyncIterator[None]:
    """Let SIGTERM (cron's timeout, a spot instance's end) and SIGHUP cancel the run like Ctrl-C:
    verdicts are kept.

    Computations cannot be cancelled, so the kernel ends a run (SIGALRM) that has not ended after
    `end_within_s`. Ignored signals, such as SIGHUP under nohup, stay ignored."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    before = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}
    # Python takes signals in the main thread only; a server or a notebook may run elsewhere.
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        # Not the loop's own handler, which waits while the loop is busy.
        signal.alarm(end_within_s)
        loop.call_soon_threadsafe(task.cancel)

    for each in before:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler or signal.SIG_DFL)
        signal.alarm(0)
