"""The interface of judges, and the judges of a run."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from genrm_cli.errors import GenrmError
from genrm_cli.judging.claims import LOOK_S
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.lexical import judge_lexically
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import JudgeRequest, PairwisePrompt, Prompt, RequestId
from genrm_cli.verdicts import Failure, FailureKind, Outcome, StoppedBy

_KNOWN_IN_A_ROW = 64  # outcomes without a wait before control returns to the event loop
_AT_ONCE = 16  # requests whose texts are held together
_RECENT = 4_096  # outcomes remembered without a journal: those of several groups, in a few MB


class Judge(Protocol):
    """Answers requests."""

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Render a request; `judge_idx` is the number of its repeat."""

    def recall(self, requests: Sequence[JudgeRequest]) -> list[Outcome | None]:
        """Return the known outcome of each; None where the judge must be asked."""

    async def admit(self, lane: int | None = None, since_s: float = math.inf) -> Slot | None:
        """Wait for permission to make another call in a lane of `JudgeSet`; None if the run was
        stopped.

        `since_s` is when the request began to wait, by the loop's clock; it limits the wait of a
        server's request."""

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Ask. A failed call does not raise: it is a `Failure`."""

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made; None while the run continues."""


class LexicalJudge:
    """The built-in baseline; all its outcomes are known without asking."""

    stopped_by = None

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Keep the prompt; all repeats get the same answer."""
        del judge_idx
        return JudgeRequest(shown)

    def recall(self, requests: Sequence[JudgeRequest]) -> list[Outcome | None]:
        """Judge pairs; refuse other prompts."""
        return [self._judge(request.shown) for request in requests]

    def _judge(self, shown: Prompt) -> Outcome:
        if not isinstance(shown, PairwisePrompt):
            return Outcome(Failure(FailureKind.REFUSED, "the built-in judge compares pairs only"))
        return Outcome(judge_lexically(shown))

    async def admit(self, lane: int | None = None, since_s: float = math.inf) -> Slot | None:
        """Never needed: everything is known."""
        del lane, since_s
        return None

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Never needed: everything is known."""
        del slot
        return self._judge(request.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPolicy:
    """Which requests a run recalls from a journal, and which it asks."""

    only_failed: bool = False  # ask only requests that failed before
    only_known: bool = False  # ask nothing
    with_failures: bool = False  # also recall failures
    with_replies: bool = False  # also recall the judge's replies, which takes longer


class OnceJudge:
    """A live judge that is asked equal requests once: while one is in flight, and while its outcome
    is a recent one.

    Two equal requests would get two samples of a judge's opinion, and equal responses different
    rewards."""

    def __init__(self, judge: RemoteJudge) -> None:
        self._judge = judge
        self._in_flight: dict[bytes, asyncio.Future[Outcome]] = {}
        self._recent: OrderedDict[bytes, Outcome] = OrderedDict()

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made; None while the run continues."""
        return self._judge.stopped_by

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Render a request."""
        return self._judge.prepare(shown, judge_idx)

    def recall(self, requests: Sequence[JudgeRequest]) -> list[Outcome | None]:
        """Return the outcomes of equal requests."""
        return [self._recall_recent(request.key) for request in requests]

    def _recall_recent(self, key: bytes) -> Outcome | None:
        known = self._recent.get(key)
        return None if known is None else replace(known, from_journal=True)

    async def admit(self, lane: int | None = None, since_s: float = math.inf) -> Slot | None:
        """Wait for permission to make another call."""
        return await self._judge.admit(lane, since_s)

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Ask, and remember the outcome before returning it. A request that proves outdated is
        prepared again.
        """
        key = request.key
        held = slot
        while (earlier := self._in_flight.get(key)) is not None:
            self._judge.dismiss(held)
            await asyncio.wait({earlier})
            if not earlier.cancelled():
                return await self._renewed(request, replace(earlier.result(), from_journal=True))
            if (again := await self.admit()) is None:  # its caller left: this request takes over
                return self._not_asked()
            held = again
        if (
            known := self._recall_recent(key)
        ) is not None:  # answered while this request waited for its slot
            self._judge.dismiss(held)
            return known
        answered = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._ask_once(request, held)
            answered.set_result(outcome)
        except GenrmError as error:
            answered.set_exception(error)
            answered.exception()  # nobody may be waiting
            raise
        finally:
            del self._in_flight[key]
            if not answered.done():
                answered.cancel()
        is_current = request.form_version == self._judge.form.version
        return outcome if is_current else await self._renewed(request, outcome)

    async def _renewed(self, request: JudgeRequest, outcome: Outcome) -> Outcome:
        """Ask in the form that the server takes now, if a request was not asked because its form is
        outdated.
        """
        is_asked = (
            not isinstance(outcome.result, Failure) or outcome.result.kind != FailureKind.NOT_ASKED
        )
        if is_asked or request.form_version == self._judge.form.version:
            return outcome
        renewed = self._judge.prepare(request.shown, request.repeat)
        (known,) = self.recall([renewed])
        if known is not None:
            return known
        slot = await self.admit()
        return self._not_asked() if slot is None else await self.ask(renewed, slot)

    def _not_asked(self) -> Outcome:
        return Outcome(Failure(FailureKind.NOT_ASKED, f"stopped by {self.stopped_by}"))

    async def _ask_once(self, request: JudgeRequest, slot: Slot) -> Outcome:
        outcome = await self._judge.ask(request, slot)
        self._remember(request.key, replace(outcome))  # its caller may drop the reply
        return outcome

    def _remember(self, key: bytes, outcome: Outcome) -> None:
        """Remember what `Journal.recall_decided` would return."""
        if not isinstance(outcome.result, Failure) or outcome.result.caused_by:
            if len(self._recent) >= _RECENT:
                self._recent.popitem(last=False)
            self._recent[key] = outcome


class CachedJudge(OnceJudge):
    """A journal in front of a live judge: known requests are not asked again, new outcomes are
    stored.
    """

    def __init__(self, judge: RemoteJudge, journal: Journal, policy: RecallPolicy) -> None:
        super().__init__(judge)
        self._journal = journal
        self._policy = policy

    def recall(self, requests: Sequence[JudgeRequest]) -> list[Outcome | None]:
        """Return the stored outcomes."""
        stored = self._stored([request.key for request in requests])
        return [stored.get(request.key) or self._unless_asked(request.key) for request in requests]

    def _unless_asked(self, key: bytes) -> Outcome | None:
        """Return the outcome of a request without a stored one if the policy lets nobody ask it;
        else None.
        """
        known = self._journal.recall_failure(key) if self._policy.with_failures else None
        if known is None and self._policy.only_known:
            setting = (
                StoppedBy.CONCLUDE if self._policy.with_failures else StoppedBy.ONLY_COMPONENTS
            )
            return Outcome(Failure(FailureKind.NOT_ASKED, f"not in the journal ({setting})"))
        if known is None and self._policy.only_failed and not self._journal.has_failed(key):
            return Outcome(Failure(FailureKind.NOT_ASKED, "never asked before (only_failed)"))
        return known

    def _stored(self, keys: Sequence[bytes]) -> dict[bytes, Outcome]:
        return self._journal.recall_decided(keys, with_reply=self._policy.with_replies)

    async def admit(self, lane: int | None = None, since_s: float = math.inf) -> Slot | None:
        """Wait for permission to make another call."""
        await self._journal.room()
        return await self._judge.admit(lane, since_s)

    async def _ask_once(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Ask, and store the outcome."""
        key = request.key
        try:
            claimed = await self._claim(key, slot)
            if isinstance(claimed, Outcome):
                return claimed
            outcome = await self._judge.ask(request, claimed)
            if isinstance(outcome.result, Failure) and outcome.result.kind == FailureKind.NOT_ASKED:
                return outcome
            outcome = await self._journal.record(key, self._judge.label, outcome)
            self._remember(key, outcome)
            return outcome
        finally:
            self._journal.claims.give_back(key)

    async def _claim(self, key: bytes, slot: Slot) -> Slot | Outcome:
        """Return a slot to ask with, or the verdict of another run on this journal that asked
        first.

        A run that claimed the request and ends without a verdict delays this one by the timeout of
        a call at most."""
        held: Slot | None = slot
        gives_up_at_s = time.monotonic() + self._judge.call_timeout_s
        try:
            while held is not None:
                is_ours = await self._journal.claims.take(key)
                # Stored by another run while this request waited for its slot.
                if (
                    self._journal.claims.is_shared
                    and (known := self._stored([key]).get(key)) is not None
                ):
                    return known
                if is_ours or time.monotonic() >= gives_up_at_s:
                    granted = held
                    held = None
                    return granted
                self._judge.dismiss(held)
                held = None
                while (
                    self._journal.claims.is_taken(key)
                    and not self.stopped_by
                    and time.monotonic() < gives_up_at_s
                ):
                    await asyncio.sleep(LOOK_S)
                if (known := self._stored([key]).get(key)) is not None:
                    return known
                held = await self.admit()
        finally:
            if held is not None:
                self._judge.dismiss(held)
        return self._not_asked()


class JudgeSet:
    """The judges of a plan, judges before graders; several groups may ask them at once.

    Each outcome goes to `on_outcome`. Groups that are making requests hold `turns`, one for each
    lane."""

    def __init__(
        self,
        judges: Sequence[Judge],
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        lanes: int = 1,
    ) -> None:
        self._judges = judges
        self._known_in_a_row = 0
        self._free_lanes = list(range(lanes))
        self.turns = asyncio.Semaphore(lanes)
        self.on_outcome = on_outcome

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[int]:
        """Hold a lane while a group makes its requests, so that groups are judged in order, as many
        as endpoints.
        """
        async with self.turns:
            lane = heappop(self._free_lanes)
            try:
                yield lane
            finally:
                heappush(self._free_lanes, lane)

    def __getitem__(self, number: int) -> Judge:
        return self._judges[number]

    def iter_recalled(
        self, requests: Iterable[tuple[RequestId, Prompt]]
    ) -> Iterator[tuple[RequestId, JudgeRequest, Outcome | None]]:
        """Prepare requests and yield them with their known outcomes, several looked up at a
        time.
        """
        left = iter(requests)
        while some := [
            (id_, self._judges[id_.judge].prepare(prompt, id_.repeat))
            for id_, prompt in islice(left, _AT_ONCE)
        ]:
            known = {
                number: iter(
                    self._judges[number].recall(
                        [request for id_, request in some if id_.judge == number]
                    )
                )
                for number in {id_.judge for id_, _ in some}
            }
            yield from ((id_, request, next(known[id_.judge])) for id_, request in some)

    async def yield_regularly(self) -> None:
        """Yield to the event loop after a number of outcomes without a wait."""
        self._known_in_a_row += 1
        if self._known_in_a_row % _KNOWN_IN_A_ROW == 0:
            await asyncio.sleep(0)
