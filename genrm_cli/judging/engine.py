"""The interface of judges, and the judges of a run."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from genrm_cli.judging.lexical import judge_lexically
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.requests import JudgeRequest, PairwisePrompt, Prompt
from genrm_cli.verdicts import Failure, FailureKind, Outcome

_KNOWN_IN_A_ROW = 64  # outcomes without a wait before control returns to the event loop


class Judge(Protocol):
    """Answers requests."""

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Render a request; `judge_idx` is the number of its repeat."""
        ...

    def recall(self, request: JudgeRequest) -> Outcome | None:
        """Return the known outcome; None if the judge must be asked."""
        ...

    async def admit(self) -> Slot | None:
        """Wait for permission to make another call; None if the run was stopped."""
        ...

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Ask. A failed call does not raise: it is a `Failure`."""
        ...

    @property
    def stopped_by(self) -> str | None:
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

    async def admit(self) -> Slot | None:
        """Never needed: everything is known."""
        return None

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Never needed: everything is known."""
        del slot
        return self.recall(request)


class JudgeSet:
    """The judges of a plan, judges before graders; several groups may ask them at once.

    Attributes:
        turn: held by the group that is making its requests, so that groups are judged in order.
        on_outcome: called with each outcome.
    """

    def __init__(self, judges: Sequence[Judge], on_outcome: Callable[[Outcome], None] = lambda outcome: None) -> None:
        self._judges = judges
        self._known_in_a_row = 0
        self.turn = asyncio.Lock()
        self.on_outcome = on_outcome

    def __getitem__(self, number: int) -> Judge:
        return self._judges[number]

    async def yield_regularly(self) -> None:
        """Yield to the event loop after a number of outcomes without a wait."""
        self._known_in_a_row += 1
        if self._known_in_a_row % _KNOWN_IN_A_ROW == 0:
            await asyncio.sleep(0)
