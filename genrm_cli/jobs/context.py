"""What all parts of a run share."""

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from genrm_cli.metrics.run_metrics import RunMetrics, RunProgress
from genrm_cli.settings import Settings
from genrm_cli.storage.formats.location import S3Options

OnEvent = Callable[[str, dict[str, Any]], None]
Result = TypeVar("Result")


def _ignore(event: str, fields: dict[str, Any]) -> None:
    del event, fields


@dataclass(frozen=True, slots=True)
class RunContext:
    """One call of a command.

    Attributes:
        settings: the effective settings.
        api_keys: of the judges that need one, by their names; never shown, not even by `repr`.
        tally: what happened so far to one input.
        tallies: those of all inputs; another thread may read them to show progress.
        on_event: told what a person or a log should know when it happens: `plan`, `probe`, `paused`,
            `endpoint_down`, `endpoint_up`, `stopped`, `file`, ...
        stop: set when the run is interrupted: threads that loop over an input end soon.
        started_s: when the run began, by the monotonic clock.
    """

    settings: Settings
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    tally: RunMetrics = field(default_factory=RunMetrics)
    tallies: RunProgress = field(default_factory=RunProgress)
    on_event: OnEvent = _ignore
    stop: threading.Event = field(default_factory=threading.Event)
    started_s: float = field(default_factory=time.monotonic)

    @property
    def s3(self) -> S3Options:
        """How the settings want S3 to be reached."""
        settings = self.settings
        return S3Options(settings.s3_endpoint_url, settings.s3_profile, settings.s3_region)

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Do blocking work beside the event loop; if the run is interrupted, the work is told to stop."""
        return await in_thread(work, self.stop.set)


async def in_thread(work: Callable[[], Result], on_cancel: Callable[[], None] | None = None) -> Result:
    """Do blocking work beside the event loop. Who is cancelled waits for its end, as a thread cannot be cancelled.

    Args:
        work: what to do.
        on_cancel: tells the work to end soon.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at: the interruption is what counts
        raise


def first_error_of(group: BaseExceptionGroup) -> BaseException:
    """Return the first error of a group of tasks; the others are most often the same."""
    error = group.exceptions[0]
    return first_error_of(error) if isinstance(error, BaseExceptionGroup) else error


@asynccontextmanager
async def cancelled_by_sigterm() -> AsyncIterator[None]:
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
