"""The clock of pacing: the event loop's, so that tests can run it in virtual time."""

import asyncio


def now_s() -> float:
    """Return the monotonic time of the running event loop."""
    return asyncio.get_running_loop().time()
