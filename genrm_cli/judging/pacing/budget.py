"""The budget of a run: calls, tokens and money."""

from dataclasses import dataclass

from genrm_cli.judging.requests import Reply
from genrm_cli.verdicts import StoppedBy


@dataclass(slots=True)
class Budget:
    """The limits of a run and its usage; None means no limit.

    Attributes:
        max_calls: maximum number of calls.
        max_tokens: maximum number of prompt and completion tokens, as counted by the server; calls in flight may
            overshoot it.
        max_cost: maximum cost, in the currency of the prices; calls in flight may overshoot it.
        price_in: price per million prompt tokens.
        price_out: price per million completion tokens.
        reserved: calls reserved for the second turns of comparisons in progress.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    calls: int = 0
    reserved: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def cost(self) -> float:
        """Cost of the tokens so far."""
        return cost_of(self.prompt_tokens, self.completion_tokens, self.price_in, self.price_out)

    async def room(self, calls: int) -> None:
        """Wait while more calls may yet be allowed; a process that owns its budget never waits."""

    def count_call(self) -> None:
        """Count a call."""
        self.calls += 1

    def count_reply(self, reply: Reply) -> None:
        """Count the tokens of a reply, if the server reports them."""
        self.prompt_tokens += reply.prompt_tokens or 0
        self.completion_tokens += reply.completion_tokens or 0

    def used_up(self, calls: int = 1) -> StoppedBy | None:
        """Return the limit that forbids this many more calls; None if none does."""
        if self.max_calls is not None and self.calls + self.reserved + calls > self.max_calls:
            return StoppedBy.MAX_CALLS
        if self.max_tokens is not None and self.prompt_tokens + self.completion_tokens >= self.max_tokens:
            return StoppedBy.MAX_TOTAL_TOKENS
        if self.max_cost is not None and self.cost >= self.max_cost:
            return StoppedBy.MAX_COST
        return None


def cost_of(prompt_tokens: float, completion_tokens: float, price_in: float, price_out: float) -> float:
    """Return the cost of tokens; prices are per million."""
    return (prompt_tokens * price_in + completion_tokens * price_out) / 1e6
