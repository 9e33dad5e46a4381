"""A generative reward model behind one or more OpenAI-compatible endpoints, and the journal in front of it."""

import asyncio
import hashlib
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from genrm_cli.judging.client import CallError
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.latency import Latencies
from genrm_cli.judging.pacing.allowance import Allowance
from genrm_cli.judging.pacing.pool import Ending, EndpointPool, Slot
from genrm_cli.judging.pacing.retry import RetryPolicy
from genrm_cli.judging.profiles.profile import Profile
from genrm_cli.judging.verdict import Exhibit, Failure, FailureKind, Outcome, Question, Reply, Verdict

_NOT_ASKED = Failure(FailureKind.NOT_ASKED, "not asked")
_STRAGGLER_AFTER = 100  # latencies that must be known before one of them is called long
_STRAGGLER_FACTOR = 2.0  # times the 99th percentile
_LEAST_STRAGGLER_S = 1.0
_LATE_S = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a judge is waited for, and how often it is asked.

    Attributes:
        call_timeout_s: for one call.
        comparison_timeout_s: for a comparison with all its calls and waits.
        policy: further tries of a call that may work later.
        reask: further askings when a reply holds no readable verdict.
        hedge: whether a straggler is asked a second time when slots are idle.
    """

    call_timeout_s: float
    comparison_timeout_s: float
    policy: RetryPolicy
    reask: int
    hedge: bool = False


class RemoteJudge:
    """A judge that is asked over HTTP.

    Attributes:
        latencies: of the calls that were answered.
    """

    def __init__(
        self,
        pool: EndpointPool,
        profile: Profile,
        patience: Patience,
        allowance: Allowance,
        *,
        model: str,
        sampling: Mapping[str, float],
        judge_id: str | None = None,
    ) -> None:
        """Combine endpoints with a profile.

        Args:
            pool: the endpoints.
            profile: how to ask and how to read.
            patience: timeouts and tries.
            allowance: what the run may spend.
            model: the model's name, as its server knows it.
            sampling: request fields that replace the profile's.
            judge_id: what the journal calls this judge; the model's name by default.
        """
        self.latencies = Latencies()
        self.label = f"{judge_id or model} · {profile.name}-{profile.version}"
        self._pool = pool
        self._profile = profile
        self._patience = patience
        self._allowance = allowance
        self._request_fields = {"model": model, **profile.sampling, **sampling}
        self._identity = orjson.dumps([profile.name, profile.version, judge_id or model])
        self._losers: set[asyncio.Task[Reply]] = set()
        self._last_call_ends_s: float | None = None

    @property
    def stopped_by(self) -> str | None:
        """Why no more questions are asked."""
        return self._pool.stopped_by

    def set_deadline(self, deadline_s: float, grace_s: float) -> None:
        """Stop asking in so many seconds; calls in flight then get the grace to finish."""
        self._last_call_ends_s = time.monotonic() + deadline_s + grace_s
        asyncio.get_running_loop().call_later(deadline_s, self._pool.stop, "deadline")

    def prepare(self, exhibit: Exhibit, judge_idx: int) -> Question:
        """Build the request, and the key: a sha256 over everything that changes the answer and nothing else."""
        body = orjson.dumps(self._request_fields | {"messages": self._profile.render_messages(exhibit)})
        key = hashlib.sha256(self._identity)
        key.update(b"%d\n" % judge_idx)
        key.update(body)
        return Question(exhibit, body, key.digest())

    def read(self, reply: Reply) -> Verdict | Failure:
        """Read a reply as the profile says."""
        return self._profile.parse_reply(reply)

    def recall(self, question: Question) -> Outcome | None:
        """Know nothing without asking."""
        del question
        return None

    async def admit(self) -> Slot | None:
        """Wait for leave to make one more call."""
        if (limit := self._allowance.used_up()) is not None:
            self._pool.stop(limit)
        slot = await self._pool.acquire()
        if slot is not None:
            self._allowance.count_call()
        return slot

    def dismiss(self, slot: Slot) -> None:
        """Give back a slot that turned out not to be needed."""
        self._allowance.calls -= 1
        self._pool.release_unused(slot)

    async def ask(self, question: Question, slot: Slot) -> Outcome:
        """Ask until a reply holds a verdict, the askings are used up, or a call fails for good."""
        outcome = Outcome(_NOT_ASKED)
        started_s = time.monotonic()
        gives_up_at_s = started_s + self._patience.comparison_timeout_s
        try:
            async with asyncio.timeout(self._patience.comparison_timeout_s + _LATE_S):
                await self._ask_until_read(question, slot, outcome, gives_up_at_s)
        except TimeoutError:
            # Only waits are cut off here: a call in flight ends by its own timeout, a little sooner.
            if outcome.result is _NOT_ASKED:
                outcome.result = Failure(FailureKind.TIMEOUT, "the comparison took too long (--comparison-timeout)")
        outcome.latency_s = time.monotonic() - started_s
        return outcome

    async def _ask_until_read(
        self, question: Question, slot: Slot | None, outcome: Outcome, gives_up_at_s: float
    ) -> None:
        for _ in range(1 + self._patience.reask):
            if slot is None and (slot := await self._next_slot()) is None:
                return
            try:
                reply = await self._call(question, slot, outcome, gives_up_at_s)
            except CallError as error:
                outcome.result = error.failure
                return
            slot = None
            _add_usage(outcome, reply)
            outcome.result = self.read(reply)
            if isinstance(outcome.result, Verdict):
                return

    async def _next_slot(self) -> Slot | None:
        """Wait for a slot for one more call of a comparison that has begun; None when the run has been stopped."""
        if (limit := self._allowance.used_up()) is not None:
            self._pool.stop(limit)
        slot = await self._pool.acquire(retry=True)
        if slot is not None:
            self._allowance.count_call()
        return slot

    async def _call(self, question: Question, slot: Slot | None, outcome: Outcome, gives_up_at_s: float) -> Reply:
        """Make a call, again while its failures may pass and tries are left; no slot is held while it waits.

        Raises:
            CallError: the last failure.
        """
        failed_tries = waits = 0
        error: CallError | None = None
        while slot is not None:
            try:
                return await self._exchange_hedged(question, slot, outcome, gives_up_at_s)
            except CallError as failure:
                error = failure
            # A trial of a dead endpoint, or one that is busy, is not this comparison's fault.
            failed_tries += not (slot.on_trial or error.failure.kind == FailureKind.RATE_LIMITED)
            waits += 1
            if not error.may_pass or failed_tries > self._patience.policy.retries:
                break
            outcome.result = error.failure  # what stands if the comparison's time ends in a wait
            # Unseeded on purpose: processes that failed together must not wait alike. No result depends on it.
            await asyncio.sleep(self._patience.policy.wait_s(waits, error.retry_after_s, random.random()))
            slot = await self._next_slot()
        if error is None:
            raise ValueError("a call needs a slot")
        raise error

    async def _exchange_hedged(self, question: Question, slot: Slot, outcome: Outcome, gives_up_at_s: float) -> Reply:
        """Exchange one request for one reply; ask a straggler a second time when a slot is idle."""
        timeout_s = self._timeout_s(gives_up_at_s)
        outcome.attempts += 1
        if not self._patience.hedge:
            return await self._exchange(question, slot, timeout_s)
        first = asyncio.create_task(self._exchange(question, slot, timeout_s))
        racing = {first}
        while not first.done():
            await asyncio.wait(racing, timeout=self._straggler_s())
            spare = None if first.done() else self._pool.acquire_idle()
            if spare is not None:
                self._allowance.count_call()
                outcome.attempts += 1
                outcome.hedged = True
                racing.add(asyncio.create_task(self._exchange(question, spare, timeout_s)))
                break
        return await self._first_reply(racing)

    async def _first_reply(self, racing: set[asyncio.Task[Reply]]) -> Reply:
        """Return the first reply; the error of the last call if none brings one."""
        while True:
            done, racing = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
            good = next((task for task in done if task.exception() is None), None)
            if good is not None or not racing:
                # The transport cannot call a request back: the loser keeps its slot until it ends.
                self._losers |= racing
                for task in racing:
                    task.add_done_callback(self._forget_loser)
                return (good or done.pop()).result()

    def _forget_loser(self, task: asyncio.Task[Reply]) -> None:
        self._losers.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it

    async def _exchange(self, question: Question, slot: Slot, timeout_s: float) -> Reply:
        ending, detail = Ending.REFUSED, ""
        started_s = time.monotonic()
        try:
            reply = await slot.endpoint.client.complete(question.body, timeout_s)
            ending = Ending.ANSWERED
            self.latencies.add(time.monotonic() - started_s)
            self._allowance.count_reply(reply)
        except CallError as error:
            ending, detail = error_ending(error), error.failure.detail
            raise
        else:
            return reply
        finally:
            self._pool.release(slot, ending, detail)

    def _timeout_s(self, gives_up_at_s: float) -> float:
        """Return what a call may take: its own limit, or what is left to the comparison or the run."""
        now_s = time.monotonic()
        left_s = [self._patience.call_timeout_s, gives_up_at_s - now_s]
        if self._last_call_ends_s is not None:
            left_s.append(self._last_call_ends_s - now_s)
        return max(0.001, min(left_s))

    def _straggler_s(self) -> float | None:
        p99_s = self.latencies.quantile_s(0.99) if self.latencies.count >= _STRAGGLER_AFTER else None
        return _LEAST_STRAGGLER_S if p99_s is None else max(_LEAST_STRAGGLER_S, _STRAGGLER_FACTOR * p99_s)


def error_ending(error: CallError) -> Ending:
    """Return what a failed call says about its endpoint."""
    if error.overloaded:
        return Ending.OVERLOADED
    if error.failure.kind == FailureKind.TIMEOUT:
        return Ending.TIMED_OUT
    if error.failure.kind == FailureKind.RATE_LIMITED:
        return Ending.BUSY
    # What cannot pass is about this request; what can is about the endpoint.
    return Ending.BROKEN if error.may_pass else Ending.REFUSED


class JournaledJudge:
    """A journal in front of a live judge: what it holds is not asked again, what is answered goes into it."""

    def __init__(self, judge: RemoteJudge, journal: Journal, *, only_failed: bool = False) -> None:
        """Put a journal in front of a judge.

        Args:
            judge: what is asked when the journal does not know.
            journal: what is known.
            only_failed: ask only what was asked before and failed.
        """
        self._judge = judge
        self._journal = journal
        self._only_failed = only_failed
        self._in_flight: dict[bytes, asyncio.Future[Outcome]] = {}

    @property
    def stopped_by(self) -> str | None:
        """Why no more questions are asked."""
        return self._judge.stopped_by

    def prepare(self, exhibit: Exhibit, judge_idx: int) -> Question:
        """Make the question."""
        return self._judge.prepare(exhibit, judge_idx)

    def recall(self, question: Question) -> Outcome | None:
        """Return the verdict that the journal holds."""
        known = self._journal.recall(question.key)
        if known is None and self._only_failed and not self._journal.has_failed(question.key):
            return Outcome(Failure(FailureKind.NOT_ASKED, "never asked before (--only-failed)"))
        return known

    async def admit(self) -> Slot | None:
        """Wait for leave to make one more call."""
        return await self._judge.admit()

    async def ask(self, question: Question, slot: Slot) -> Outcome:
        """Ask, and store the answer before anybody hears of it; equal questions in flight are asked once."""
        key = question.key
        if (earlier := self._in_flight.get(key)) is not None:
            self._judge.dismiss(slot)
            outcome = await asyncio.shield(earlier)
            return Outcome(outcome.result, reply_text=outcome.reply_text, from_journal=True)
        answered = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._judge.ask(question, slot)
            if _was_asked(outcome):
                outcome = await self._journal.record(key, self._judge.label, outcome)
            answered.set_result(outcome)
        finally:
            del self._in_flight[key]
            if not answered.done():
                answered.cancel()
        return outcome


def _was_asked(outcome: Outcome) -> bool:
    return isinstance(outcome.result, Verdict) or outcome.result.kind != FailureKind.NOT_ASKED


def _add_usage(outcome: Outcome, reply: Reply) -> None:
    outcome.prompt_tokens += reply.prompt_tokens or 0
    outcome.completion_tokens += reply.completion_tokens or 0
    outcome.cached_tokens += reply.cached_tokens or 0
    outcome.reply_text = reply.text
