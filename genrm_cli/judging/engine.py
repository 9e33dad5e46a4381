"""Comparisons in, verdicts and failures out, as they finish."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from genrm_cli.errors import GenrmError
from genrm_cli.judging.client import CallError, JudgeClient
from genrm_cli.judging.lexical import judge_lexically
from genrm_cli.judging.pacing import RetryPolicy, call_with_retries
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.verdict import Exhibit, Failure, FailureKind, Reply, Verdict

Ticket = TypeVar("Ticket")

_NOT_ASKED = Failure(FailureKind.NO_VERDICT, "not asked")


@dataclass(slots=True)
class Outcome:
    """What became of one comparison.

    Attributes:
        result: the verdict, or why there is none.
        attempts: calls made, retries and re-askings included.
        latency_s: from the first call to the last answer, waits included.
        prompt_tokens: summed over all replies, as far as the server told. Likewise the two below.
        reply_text: the content of the last reply; None if there was none.
    """

    result: Verdict | Failure
    attempts: int = 0
    latency_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reply_text: str | None = None


class Judge(Protocol):
    """What answers a comparison."""

    async def compare(self, exhibit: Exhibit) -> Outcome:
        """Compare the two responses. Never raises for a failed call: that is a `Failure`."""
        ...


class EmbeddedJudge:
    """The lexical judge behind the interface of a real one."""

    async def compare(self, exhibit: Exhibit) -> Outcome:
        """Compare without any call; gives way to the event loop, so that Ctrl-C is noticed."""
        await asyncio.sleep(0)
        return Outcome(judge_lexically(exhibit))


class RemoteJudge:
    """A generative reward model behind an OpenAI-compatible endpoint."""

    def __init__(
        self,
        client: JudgeClient,
        profile: Profile,
        *,
        model: str,
        sampling: Mapping[str, float],
        policy: RetryPolicy,
        reask: int,
    ) -> None:
        """Combine a client with a profile.

        Args:
            client: the endpoint.
            profile: how to ask and how to read.
            model: the model's name, as the server knows it.
            sampling: request fields that replace the profile's.
            policy: retries of a call that may work later.
            reask: further askings when a reply holds no readable verdict.
        """
        self._client = client
        self._profile = profile
        self._request_fields = {"model": model, **profile.sampling, **sampling}
        self._policy = policy
        self._reask = reask

    async def compare(self, exhibit: Exhibit) -> Outcome:
        """Ask until a reply holds a verdict, the askings are used up, or a call fails for good."""
        body = self._request_fields | {"messages": self._profile.render_messages(exhibit)}
        outcome = Outcome(_NOT_ASKED)
        started_s = time.monotonic()
        for _ in range(1 + self._reask):
            try:
                reply = await self._call(body, outcome)
            except CallError as error:
                outcome.result = error.failure
                break
            _add_usage(outcome, reply)
            outcome.result = self._profile.parse_reply(reply)
            if isinstance(outcome.result, Verdict):
                break
        outcome.latency_s = time.monotonic() - started_s
        return outcome

    async def _call(self, body: Mapping[str, Any], outcome: Outcome) -> Reply:
        def count() -> None:
            outcome.attempts += 1

        return await call_with_retries(lambda: self._client.complete(body), self._policy, count)


async def judge_all(
    askings: Iterator[tuple[Ticket, Exhibit]],
    judge: Judge,
    concurrency: int,
    on_outcome: Callable[[Ticket, Outcome], None],
) -> None:
    """Put every comparison before the judge, at most `concurrency` at a time.

    Workers pull from the one iterator, so comparisons are made when they are about to be asked and memory does
    not grow with their number.

    Args:
        askings: what to ask, each with a ticket that names it.
        judge: what answers.
        concurrency: comparisons in flight at most.
        on_outcome: called with each ticket and outcome, in the order in which they finish.

    Raises:
        GenrmError: what `askings` or `on_outcome` raised; the comparisons in flight are cancelled.
    """

    async def work() -> None:
        for ticket, exhibit in askings:
            on_outcome(ticket, await judge.compare(exhibit))

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(work())
    except* GenrmError as errors:
        # A full disk stops all workers at once: one of them tells it.
        raise errors.exceptions[0] from None


def _add_usage(outcome: Outcome, reply: Reply) -> None:
    outcome.prompt_tokens += reply.prompt_tokens or 0
    outcome.completion_tokens += reply.completion_tokens or 0
    outcome.cached_tokens += reply.cached_tokens or 0
    outcome.reply_text = reply.text
