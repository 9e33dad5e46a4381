"""State that all parts of a run share."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from genrm_cli.groups.check import judge_specs, open_options
from genrm_cli.groups.compile import compile_plan
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.tasks import in_thread
from genrm_cli.judging.open_judges import JudgeSpec, OnEvent, OpenOptions, ignore_event
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.settings import Settings
from genrm_cli.storage.formats.location import S3Options

Result = TypeVar("Result")
_STOP_WITHIN_S = 8.0
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class RunContext:
    """One call of a command.

    Attributes:
        settings: the effective settings.
        plan: compiled from them.
        api_keys: of the judges that need one, by name; never shown, not even by `repr`.
        metrics: of one input.
        progress: of all inputs; another thread may read it.
        on_event: called when something happens that a person or a log should know: `plan`, `probe`, `paused`,
            `endpoint_down`, `endpoint_up`, `stopped`, `file`, ...
        stop: set when the run is interrupted: threads that loop over an input end soon.
        started_s: when the run began, by the monotonic clock.
    """

    settings: Settings
    plan: GroupPlan
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    metrics: RunMetrics = field(default_factory=RunMetrics)
    progress: RunProgress = field(default_factory=RunProgress)
    on_event: OnEvent = ignore_event
    stop: threading.Event = field(default_factory=threading.Event)
    started_s: float = field(default_factory=time.monotonic)

    @property
    def s3(self) -> S3Options:
        """Options of S3."""
        storage = self.settings.storage
        return S3Options(storage.s3_endpoint_url, storage.s3_profile, storage.s3_region)

    @property
    def open_options(self) -> OpenOptions:
        """Options of the judges."""
        return open_options(self.settings, api_keys=self.api_keys, started_s=self.started_s)

    def judge_specs(self) -> list[JudgeSpec]:
        """Return the judges to open."""
        return judge_specs(self.settings)

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run blocking work beside the event loop; if the run is interrupted, the work is told to stop."""
        return await in_thread(work, self.stop.set)


def new_run(
    settings: Settings,
    api_keys: Mapping[str, str] | None = None,
    progress: RunProgress | None = None,
    on_event: OnEvent = ignore_event,
) -> RunContext:
    """Compile the settings and begin a run.

    Raises:
        UsageError: the settings cannot be compiled.
    """
    progress = progress or RunProgress()
    return RunContext(settings, compile_plan(settings), api_keys or {}, progress.begin(), progress, on_event)


@asynccontextmanager
async def cancelled_by_signals() -> AsyncIterator[None]:
    """Let SIGTERM (cron's timeout, a spot instance's end) and SIGHUP cancel the run like Ctrl-C: verdicts are kept.

    Computations cannot be cancelled, so a run that has not ended after `_STOP_WITHIN_S` is ended as a kill would.
    A signal that is ignored, as nohup ignores SIGHUP, stays so.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    before = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    watchdog = threading.Timer(_STOP_WITHIN_S, _end_now)
    watchdog.daemon = True

    def stop(*_: object) -> None:
        # Not the loop's own handler, which waits while the loop is busy.
        if watchdog.ident is None:
            watchdog.start()
        loop.call_soon_threadsafe(task.cancel)

    for each in before:
        signal.signal(each, stop)
    try:
        yield
    finally:
        watchdog.cancel()
        for each, handler in before.items():
            signal.signal(each, handler or signal.SIG_DFL)


def _end_now() -> None:
    """End the process. The journal has what was answered, and no output has appeared in part."""
    os.write(2, b"genrm: interrupted; the journal has what was answered\n")
    os._exit(_INTERRUPTED)
