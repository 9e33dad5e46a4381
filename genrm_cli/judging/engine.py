"""The interface of judges, and the judges of a run.

A comparison passes these steps, each of which may end it:

    prepare   render the request; its key is a hash of all that changes the answer
    recall    look its key up among the outcomes of this and earlier runs
    admit     wait for a slot, so that a group renders no more requests than can be made
    ask       wait for an equal request in flight, call, and store the outcome

A group holds a lane of `JudgeSet` while it makes its requests, so groups are judged in order, as
many at a time as there are endpoints."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import GenrmError
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
    """What answers requests: prepare one, recall its outcome, and if that is unknown, ask once
    admitted.

        request = judge.prepare(prompt, 0)
        (outcome,) = judge.recall([request])
        if outcome is None and (slot := await judge.admit()) is not None:
            outcome = await judge.ask(request, slot)
    """

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made; None while the run continues."""

    def prepare(self, prompt: Prompt, judge_idx: int) -> JudgeRequest:
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


class LexicalJudge:
    """The built-in baseline; all its outcomes are known without asking, the same for repeats."""

    stopped_by = None

    def prepare(self, prompt: Prompt, judge_idx: int) -> JudgeRequest:
        """Make a request that holds the prompt alone."""
        del judge_idx
        return JudgeRequest(prompt)

    def recall(self, requests: Sequence[JudgeRequest]) -> list[Outcome | None]:
        """Judge pairs; refuse other prompts."""
        return [_judged_lexically(request.prompt) for request in requests]

    async def admit(self, lane: int | None = None, since_s: float = math.inf) -> Slot | None:
        """Permit no call."""
        del lane, since_s
        return None

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Judge without a call."""
        del slot
        return _judged_lexically(request.prompt)


def _judged_lexically(prompt: Prompt) -> Outcome:
    if not isinstance(prompt, PairwisePrompt):
        return Outcome(Failure(FailureKind.REFUSED, "the built-in judge compares pairs only"))
    return Outcome(judge_lexically(prompt))


class RecallPolicy(Struct, frozen=True, kw_only=True):
    """Which requests a run recalls from a journal, and which it asks."""

    only_failed: bool = False  # ask only requests that failed before
    only_known: bool = False  # ask nothing
    with_failures: bool = False  # also recall failures
    with_replies: bool = False  # also recall the judge's replies, which takes longer


_USUAL = RecallPolicy()


class CachedJudge:
    """A live judge that is asked each request once, and whose outcomes are kept in a journal.

    Two equal requests would get two samples of a judge's opinion, and equal responses different
    rewards. So a request waits for an equal one that is in flight. Without a journal, only the
    latest outcomes are known."""

    def __init__(
        self,
        judge: RemoteJudge,
        journal: Journal | None = None,
        policy: RecallPolicy = _USUAL,
    ) -> None:
        self._judge = judge
        self._journal = journal
        self._policy = _USUAL if journal is None else policy
        self._in_flight: dict[bytes, asyncio.Future[Outcome]] = {}
        self._recent: OrderedDict[bytes, Outcome] = OrderedDict()

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made; None while the run continues."""
        return self._judge.stopped_by

    def prepare(self, prompt: Prompt, judge_idx: int) -> JudgeRequest:
        """Render a request."""
        return self._judge.prepare(prompt, judge_idx)

    def recall(self, requests: Sequence[JudgeRequest]) -> list[Outcome | None]:
        """Return the stored outcomes, and failures where the policy forbids to ask."""
        stored = self._stored([request.key for request in requests])
        return [self._recalled(key, stored.get(key)) for key in (each.key for each in requests)]

    def _stored(self, keys: Sequence[bytes]) -> Mapping[bytes, Outcome | None]:
        if self._journal is None:
            return {key: self._recall_recent(key) for key in keys}
        return self._journal.recall(keys, with_reply=self._policy.with_replies)

    def _recall_recent(self, key: bytes) -> Outcome | None:
        outcome = self._recent.get(key)
        return None if outcome is None else replace(outcome, from_journal=True)

    def _recalled(self, key: bytes, stored: Outcome | None) -> Outcome | None:
        """Return what counts as the outcome of a request, by what is stored; None if it is to be
        asked.
        """
        policy = self._policy
        self._judge.gives_verdicts |= stored is not None and stored.is_decided
        if stored is not None and (stored.is_decided or policy.with_failures):
            return stored
        if policy.only_known:
            return _not_asked(f"not in the journal ({StoppedBy.CONCLUDE})")
        if policy.only_failed and stored is None:
            return _not_asked("never asked before (only_failed)")
        return None

    async def admit(self, lane: int | None = None, since_s: float = math.inf) -> Slot | None:
        """Wait for permission to make another call."""
        if self._journal is not None:
            await self._journal.room()
        return await self._judge.admit(lane, since_s)

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Ask, unless an equal request is in flight or was answered during the wait for the
        slot.
        """
        key = request.key
        while (earlier := self._in_flight.get(key)) is not None:
            self._judge.dismiss(slot)
            await asyncio.wait({earlier})
            if not earlier.cancelled():
                return replace(earlier.result(), from_journal=True)
            admitted = await self.admit()  # its caller left: this request takes over
            if admitted is None:
                return _not_asked(f"stopped by {self.stopped_by}")
            slot = admitted
        recent = self._recall_recent(key)
        if recent is not None:
            self._judge.dismiss(slot)
            return recent
        answered = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._ask_and_keep(request, slot)
            answered.set_result(outcome)
            return outcome
        except GenrmError as error:
            answered.set_exception(error)
            answered.exception()  # nobody may be waiting
            raise
        finally:
            del self._in_flight[key]
            if not answered.done():
                answered.cancel()

    async def _ask_and_keep(self, request: JudgeRequest, slot: Slot) -> Outcome:
        key, outcome = await self._judge.ask(request, slot)
        if self._journal is None:
            self._remember(key, replace(outcome))  # its caller may drop the reply
            return outcome
        if isinstance(outcome.result, Failure) and outcome.result.kind == FailureKind.NOT_ASKED:
            return outcome
        outcome = await self._journal.record(key, self._judge.label, outcome)
        self._remember(key, outcome)
        return outcome

    def _remember(self, key: bytes, outcome: Outcome) -> None:
        if outcome.is_decided:
            if len(self._recent) >= _RECENT:
                self._recent.popitem(last=False)
            self._recent[key] = outcome


def _not_asked(detail: str) -> Outcome:
    return Outcome(Failure(FailureKind.NOT_ASKED, detail))


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
            by_judge: dict[int, list[JudgeRequest]] = {}
            for id_, request in some:
                by_judge.setdefault(id_.judge, []).append(request)
            outcomes = {
                number: iter(self._judges[number].recall(prepared))
                for number, prepared in by_judge.items()
            }
            for id_, request in some:
                yield id_, request, next(outcomes[id_.judge])

    async def yield_regularly(self) -> None:
        """Yield to the event loop after a number of outcomes without a wait."""
        self._known_in_a_row += 1
        if self._known_in_a_row % _KNOWN_IN_A_ROW == 0:
            await asyncio.sleep(0)
