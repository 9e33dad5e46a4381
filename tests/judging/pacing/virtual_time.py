"""Run asyncio code in virtual time: every wait ends at once, and the loop's clock shows as if it
had been waited.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TypeVar

Result = TypeVar("Result")


class _SkippingSelector(selectors.SelectSelector):
    """Skips to the end of each wait for a timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Advance the clock instead of waiting.

        Raises:
            RuntimeError: no timer is set, so the wait would never end.
        """
        if timeout is None:
            raise RuntimeError("everything waits, and nothing will happen")
        self.now_s += max(0.0, timeout)
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s


def run_in_virtual_time(main: Coroutine[object, object, Result]) -> Result:
    """Run a coroutine to its end in a fresh loop whose clock begins at 0."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main)
