"""Tasks: blocking work in threads, and the first error of several tasks."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(
    work: Callable[[], Result],
    on_cancel: Callable[[], None] | None = None,
    threads: Executor | None = None,
) -> Result:
    """Run blocking work in a thread. A cancelled caller waits until the work ends, as a thread
    cannot be cancelled.

    Args:
        work: what to run.
        on_cancel: asks the work to end soon.
        threads: executor for the work; None for the event loop's own.
    """
    task = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # retrieved: the cancellation is what counts
        raise


def first_error_of(group: BaseExceptionGroup) -> BaseException:
    """Return the first error of a group of tasks; the others are usually the same."""
    error = group.exceptions[0]
    return first_error_of(error) if isinstance(error, BaseExceptionGroup) else error
