"""How long to wait before a call is tried again."""

from dataclasses import dataclass

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

    def wait_s(self, waits: int, retry_after_s: float | None, fraction: float) -> float:
        """Return the seconds to wait for the so-manieth time (from 1).

        The wait is drawn evenly from the upper half of a bound that doubles, so that calls which failed together
        do not come back together; never less than the server asked for (up to 300 s).

        Args:
            waits: waits of this call, this one included.
            retry_after_s: the server's Retry-After.
            fraction: a random number from 0 to 1.
        """
        bound_s = min(self.cap_s, self.base_s * 2.0 ** min(waits - 1, 30))
        wait_s = bound_s * (0.5 + fraction / 2)
        return wait_s if retry_after_s is None else wait_s + min(retry_after_s, MAX_RETRY_AFTER_S)
