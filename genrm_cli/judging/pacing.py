"""When to ask again, and how long to wait before."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from genrm_cli.judging.client import CallError

T = TypeVar("T")

MAX_RETRY_AFTER_S = 300.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call that may work later is tried again, and how the waits grow.

    Attributes:
        retries: further tries after the first.
        base_s: upper bound of the first wait; each later bound is twice the one before.
        cap_s: upper bound of every wait that the server did not ask for.
    """

    retries: int
    base_s: float = 0.5
    cap_s: float = 60.0

    def wait_s(self, failed_tries: int, retry_after_s: float | None, fraction: float) -> float:
        """Return the seconds to wait after so many failed tries (1 or more).

        The wait is drawn evenly from the upper half of a bound that doubles, so that calls which failed together
        do not come back together; never less than the server asked for (up to 300 s).

        Args:
            failed_tries: tries of this call that failed so far.
            retry_after_s: the server's Retry-After.
            fraction: a random number from 0 to 1.
        """
        bound_s = min(self.cap_s, self.base_s * 2.0 ** (failed_tries - 1))
        wait_s = bound_s * (0.5 + fraction / 2)
        return wait_s if retry_after_s is None else wait_s + min(retry_after_s, MAX_RETRY_AFTER_S)


async def call_with_retries(
    call: Callable[[], Awaitable[T]], policy: RetryPolicy, on_try: Callable[[], None]
) -> T:
    """Make a call, again and again while its failures may pass and tries are left.

    Args:
        call: makes one try.
        policy: how often, and the waits.
        on_try: called before each try.

    Raises:
        CallError: the last failure.
    """
    failed_tries = 0
    while True:
        on_try()
        try:
            return await call()
        except CallError as error:
            failed_tries += 1
            if not error.may_pass or failed_tries > policy.retries:
                raise
            # Unseeded on purpose: two processes that failed together must not wait alike. No result depends on it.
            await asyncio.sleep(policy.wait_s(failed_tries, error.retry_after_s, random.random()))
