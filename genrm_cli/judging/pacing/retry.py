"""Backoff between the attempts of a call."""

from dataclasses import dataclass

MAX_RETRY_AFTER_S = 300.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of retries, and the waits between them.

    Attributes:
        retries: attempts after the first one.
        base_s: upper bound of the first wait; the bound doubles with each wait.
        cap_s: upper bound of all waits, except those requested by the server.
    """

    retries: int
    base_s: float = 0.5
    cap_s: float = 60.0

    def wait_s(self, waits: int, retry_after_s: float | None, fraction: float) -> float:
        """Return the backoff before retry `waits`.

        The wait is uniform over the upper half of its bound, so that calls that failed together do not retry together.
        A server's Retry-After, up to 300 s, is added.

        Args:
            waits: number of waits of this call, including this one; 0 if the limit of the endpoint sets the pace.
            retry_after_s: the server's Retry-After.
            fraction: a random number from 0 to 1.
        """
        bound_s = min(self.cap_s, self.base_s * 2.0 ** min(waits - 1, 30))
        wait_s = bound_s * (0.5 + fraction / 2)
        return wait_s if retry_after_s is None else wait_s + min(retry_after_s, MAX_RETRY_AFTER_S)
