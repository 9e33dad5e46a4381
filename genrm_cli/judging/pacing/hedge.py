"""Send a straggling request a second time; the first answer counts."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from genrm_cli.judging.pacing import clock
from genrm_cli.judging.requests import Reply
from genrm_cli.metrics.latency import Latencies

Asking = Coroutine[Any, Any, Reply]

_KNOWN_LATENCIES = 100  # answers needed before any call counts as long
_STRAGGLER_FACTOR = 2.0  # times the 99th percentile


class Hedge:
    """Detect stragglers, and track the calls that were overtaken."""

    def __init__(self, latencies: Latencies, least_s: float = 1.0) -> None:
        """Compare calls with the latencies so far. Calls shorter than `least_s` are never stragglers."""
        self._latencies = latencies
        self._least_s = least_s
        self._overtaken: set[asyncio.Task[Reply]] = set()

    async def first_reply(self, asking: Asking, ask_again: Callable[[], Asking | None]) -> Reply:
        """Return the first reply to a call or, if it straggles, to a second one.

        Args:
            asking: the call.
            ask_again: makes the second call, or returns None while no slot is idle.

        Raises:
            CallError: the last error, if both calls fail.
        """
        begun_s = clock.now_s()
        racing = {asyncio.create_task(asking)}
        hedged = False
        try:
            while True:
                look_again_s = None if hedged else max(self._least_s, self._straggles_in_s(begun_s))
                done, racing = await asyncio.wait(racing, timeout=look_again_s, return_when=asyncio.FIRST_COMPLETED)
                good = next((task for task in done if task.exception() is None), None)
                if good is not None or not racing:
                    return (good or done.pop()).result()
                if not hedged and self._straggles_in_s(begun_s) <= 0 and (second := ask_again()) is not None:
                    hedged = True
                    racing.add(asyncio.create_task(second))
        except asyncio.CancelledError:
            for task in racing:
                task.cancel()
            raise
        finally:
            # The transport cannot cancel a request: an overtaken call keeps its slot until it ends.
            self._overtaken |= racing
            for task in racing:
                task.add_done_callback(self._forget)

    def _straggles_in_s(self, begun_s: float) -> float:
        """Return the seconds until the call counts as a straggler."""
        p99_s = self._latencies.quantile_s(0.99)
        if p99_s is None or self._latencies.count < _KNOWN_LATENCIES:
            return self._least_s
        return max(self._least_s, _STRAGGLER_FACTOR * p99_s) - (clock.now_s() - begun_s)

    def _forget(self, task: asyncio.Task[Reply]) -> None:
        self._overtaken.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it
