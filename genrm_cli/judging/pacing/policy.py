"""The budget, timeouts and retries of a run."""

from msgspec import Struct

from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import StoppedBy

# A server may ask for hours, by mistake or not; a run that waits so long would look dead.
MAX_RETRY_AFTER_S = 300.0


class CallPolicy(Struct, frozen=True):
    """Timeouts, retries, and the waits between them, of which the upper bound doubles from `base_s`
    to `cap_s`.

    The timeout of a comparison includes all calls and waits."""

    call_timeout_s: float
    comparison_timeout_s: float
    retries: int
    base_s: float = 0.5
    cap_s: float = 60.0

    def wait_s(self, waits: int, retry_after_s: float | None, fraction: float) -> float:
        """Return the backoff before retry `waits`, from 1; 0 if the limit of the endpoint sets the
        pace.

        With a random `fraction` from 0 to 1, it is uniform over the upper half of its bound, so
        that calls that failed together do not retry together. A server's Retry-After, up to 300 s,
        is added."""
        bound_s = min(self.cap_s, self.base_s * 2.0 ** min(waits - 1, 30))
        wait_s = bound_s * (0.5 + fraction / 2)
        return wait_s if retry_after_s is None else wait_s + min(retry_after_s, MAX_RETRY_AFTER_S)


class Budget(Struct):
    """The limits of a run and its usage; None means no limit.

    Calls in flight may overshoot `max_tokens` (prompt and completion, as counted by the server, or
    estimated) and `max_cost`. Prices are per million tokens. `calls` includes the second turns that
    comparisons in progress may still need."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def cost(self) -> float:
        """Cost of the tokens so far."""
        return cost_of(self.prompt_tokens, self.completion_tokens, self.price_in, self.price_out)

    def count_reply(self, reply: Reply) -> None:
        """Count the tokens of a reply."""
        self.prompt_tokens += reply.prompt_tokens or 0
        self.completion_tokens += reply.completion_tokens or 0

    def used_up(self, calls: int = 1) -> StoppedBy | None:
        """Return the limit that forbids this many more calls; None if none does."""
        if self.max_calls is not None and self.calls + calls > self.max_calls:
            return StoppedBy.MAX_CALLS
        if (
            self.max_tokens is not None
            and self.prompt_tokens + self.completion_tokens >= self.max_tokens
        ):
            return StoppedBy.MAX_TOTAL_TOKENS
        if self.max_cost is not None and self.cost >= self.max_cost:
            return StoppedBy.MAX_COST
        return None


def cost_of(
    prompt_tokens: float, completion_tokens: float, price_in: float, price_out: float
) -> float:
    """Return the cost of tokens; prices are per million."""
    return (prompt_tokens * price_in + completion_tokens * price_out) / 1e6
