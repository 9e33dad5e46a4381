"""Wait for what another process or thread does, with a limit that only a hang reaches."""

import asyncio
import time
from collections.abc import Callable

LIMIT_S = 100.0
_PAUSE_S = 0.01


def poll_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    give_up_at = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"not within {LIMIT_S} s")
        time.sleep(_PAUSE_S)


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, while the event loop goes on."""
    give_up_at = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"not within {LIMIT_S} s")
        await asyncio.sleep(_PAUSE_S)
