"""The interface of judges, and the judges of a run."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import Protocol

from genrm_cli.judging.lexical import judge_lexically
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.requests import JudgeRequest, PairwisePrompt, Prompt
from genrm_cli.verdicts import Failure, FailureKind, Outcome, StoppedBy

_KNOWN_IN_A_ROW = 64  # outcomes without a wait before control returns to the event loop


class Judge(Protocol):
    """Answers requests."""

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Render a request; `judge_idx` is the number of its repeat."""
        ...

    def recall(self, request: JudgeRequest) -> Outcome | None:
        """Return the known outcome; None if the judge must be asked."""
        ...

    async def admit(self, lane: int | None = None) -> Slot | None:
        """Wait for permission to make another call; None if the run was stopped.

        `lane` is that of the group, see `JudgeSet.turn`.
        """
        ...

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Ask. A failed call does not raise: it is a `Failure`."""
        ...

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made; None while the run continues."""
        ...


class LexicalJudge:
    """The built-in baseline; all its outcomes are known without asking."""

    stopped_by = None

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Keep the prompt; all repeats get the same answer."""
        del judge_idx
        return JudgeRequest(shown)

    def recall(self, request: JudgeRequest) -> Outcome:
        """Judge a pair; refuse other prompts."""
        if not isinstance(request.shown, PairwisePrompt):
            return Outcome(Failure(FailureKind.REFUSED, "the built-in judge compares pairs only"))
        return Outcome(judge_lexically(request.shown))

    async def admit(self, lane: int | None = None) -> Slot | None:
        """Never needed: everything is known."""
        del lane
        return None

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Never needed: everything is known."""
        del slot
        return self.recall(request)


class JudgeSet:
    """The judges of a plan, judges before graders; several groups may ask them at once.

    Attributes:
        on_outcome: called with each outcome.
        turns: held by the groups that are making their requests: one for each lane.
    """

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
        """Hold a lane while a group makes its requests, so that groups are judged in order, as many as endpoints."""
        async with self.turns:
            lane = heappop(self._free_lanes)
            try:
                yield lane
            finally:
                heappush(self._free_lanes, lane)

    def __getitem__(self, number: int) -> Judge:
        return self._judges[number]

    async def yield_regularly(self) -> None:
        """Yield to the event loop after a number of outcomes without a wait."""
        self._known_in_a_row += 1
        if self._known_in_a_row % _KNOWN_IN_A_ROW == 0:
            await asyncio.sleep(0)
