"""The event loop of a command. Import it late: asyncio would slow `--help` down."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_to_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work in a new event loop; a cancellation, by SIGTERM too, becomes a KeyboardInterrupt."""
    try:
        return asyncio.run(work)
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
