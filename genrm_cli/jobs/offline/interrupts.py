"""Ctrl-C while batches are in progress."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from genrm_cli.jobs.context import RunContext

_SECOND_PRESS_S = 5.0


class Interrupts:
    """Ctrl-C while batches are waited for: the first press leaves them to a later run, a second one
    cancels them.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._presses = self._waiting = 0
        self._events = asyncio.Event(), asyncio.Event()
        self._end: Any = signal.SIG_DFL

    @contextmanager
    def heard(self) -> Iterator["Interrupts"]:
        """Yield itself, and take SIGINT over from the event loop, which gets it back while nobody
        waits.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        loop = asyncio.get_running_loop()

        def press(*signal_: Any) -> None:
            self._presses += 1
            if self._waiting and self._presses <= len(self._events):
                loop.call_soon_threadsafe(self._events[self._presses - 1].set)
            elif callable(self._end):
                self._end(*signal_)

        self._end = signal.signal(signal.SIGINT, press)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, self._end)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Take presses for those who wait, which they notice at their next pause."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def pause(
        self, pause_s: float, batch_ids: list[str], cancel: Callable[[], Awaitable[None]]
    ) -> None:
        """Wait, unless Ctrl-C is pressed: then end the run, and first cancel the batches if it is
        pressed again.
        """
        if await _is_set_within(self._events[0], pause_s):
            self._run.on_event(
                "batches_left", {"batches": ", ".join(batch_ids), "again_s": _SECOND_PRESS_S}
            )
            if await _is_set_within(self._events[1], _SECOND_PRESS_S):
                await cancel()
            self._end(signal.SIGINT, None)  # the loop cancels all tasks, this one included
            await asyncio.Event().wait()


async def _is_set_within(event: asyncio.Event, limit_s: float) -> bool:
    try:
        async with asyncio.timeout(limit_s):
            return await event.wait()
    except TimeoutError:
        return False
