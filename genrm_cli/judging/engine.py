"""Comparisons in, verdicts and failures out, as they finish."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from genrm_cli.errors import GenrmError
from genrm_cli.judging.lexical import judge_lexically
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.requests import JudgeRequest, Outcome, PairwisePrompt, Prompt
from genrm_cli.verdicts import Failure, FailureKind

Ticket = TypeVar("Ticket")

_KNOWN_IN_A_ROW = 64  # answers without waiting, before the event loop gets its turn


class Judge(Protocol):
    """What answers questions."""

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Make the question about what is shown; `judge_idx` numbers its repeats."""
        ...

    def recall(self, question: JudgeRequest) -> Outcome | None:
        """Return what is known without asking; None when the question must be asked."""
        ...

    async def admit(self) -> Slot | None:
        """Wait for leave to ask one more question; None when the run has been stopped."""
        ...

    async def ask(self, question: JudgeRequest, slot: Slot) -> Outcome:
        """Ask a question. Never raises for a failed call: that is a `Failure`."""
        ...

    @property
    def stopped_by(self) -> str | None:
        """Why no more questions are asked; None while the run goes on."""
        ...


class EmbeddedJudge:
    """The lexical judge: it knows every answer at once."""

    stopped_by = None

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Keep what is shown; repeats are answered alike."""
        del judge_idx
        return JudgeRequest(shown)

    def recall(self, question: JudgeRequest) -> Outcome:
        """Judge a pair; it cannot do anything else."""
        if not isinstance(question.shown, PairwisePrompt):
            return Outcome(Failure(FailureKind.REFUSED, "the embedded judge compares pairs only"))
        return Outcome(judge_lexically(question.shown))

    async def admit(self) -> Slot | None:
        """Never needed: everything is known."""
        return None

    async def ask(self, question: JudgeRequest, slot: Slot) -> Outcome:
        """Never needed: everything is known."""
        del slot
        return self.recall(question)


class Asking(NamedTuple, Generic[Ticket]):
    """One thing to ask: a ticket that names it, who is asked, what is shown, and the number of the repeat."""

    ticket: Ticket
    judge: Judge
    shown: Prompt
    judge_idx: int


async def judge_all(askings: AsyncIterator[Asking[Ticket]], on_outcome: Callable[[Ticket, Outcome], None]) -> None:
    """Put everything before its judge, as much at a time as the judges admit.

    Askings are taken from the iterator when they are about to be asked, so memory does not grow with their number.
    When a judge stops admitting (a deadline, a budget), the rest of its askings is answered from what is known, or
    fails as `not_asked`.

    Args:
        askings: what to ask, and whom.
        on_outcome: called with each ticket and outcome, in the order in which they finish.

    Raises:
        GenrmError: what the judge, `askings` or `on_outcome` raised; the comparisons in flight are cancelled.
    """

    async def ask(ticket: Ticket, judge: Judge, question: JudgeRequest, slot: Slot) -> None:
        on_outcome(ticket, await judge.ask(question, slot))

    try:
        async with asyncio.TaskGroup() as tasks:
            known_in_a_row = 0
            async for ticket, judge, shown, judge_idx in askings:
                question = judge.prepare(shown, judge_idx)
                outcome = judge.recall(question)
                if outcome is None:
                    slot = await judge.admit()
                    if slot is not None:
                        known_in_a_row = 0
                        tasks.create_task(ask(ticket, judge, question, slot))
                        continue
                    outcome = Outcome(Failure(FailureKind.NOT_ASKED, f"stopped by {judge.stopped_by}"))
                on_outcome(ticket, outcome)
                known_in_a_row += 1
                if known_in_a_row % _KNOWN_IN_A_ROW == 0:
                    await asyncio.sleep(0)
    except* GenrmError as errors:
        # A full disk stops all comparisons at once: one of them tells it.
        raise errors.exceptions[0] from None
