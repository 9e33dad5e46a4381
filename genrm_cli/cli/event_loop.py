"""Run asynchronous work to its end. Import it late: asyncio would slow `--help` down."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_to_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work in an event loop of its own.

    Raises:
        KeyboardInterrupt: the work was cancelled, by SIGTERM too.
    """
    try:
        return asyncio.run(work)
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
