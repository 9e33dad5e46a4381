"""A journal in front of a live judge."""

import asyncio

from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import JudgeRequest, Prompt
from genrm_cli.verdicts import Failure, FailureKind, Outcome


class CachedJudge:
    """A journal in front of a live judge: what it holds is not asked again, what is answered goes into it."""

    def __init__(
        self, judge: RemoteJudge, journal: Journal, *, only_failed: bool = False, only_known: bool = False, with_replies: bool = True
    ) -> None:
        """Put a journal in front of a judge.

        Args:
            judge: what is asked when the journal does not know.
            journal: what is known.
            only_failed: ask only what was asked before and failed.
            only_known: ask nothing.
            with_replies: recall the judge's replies, too; that takes longer.
        """
        self._only_known = only_known
        self._with_replies = with_replies
        self._judge = judge
        self._journal = journal
        self._only_failed = only_failed
        self._in_flight: dict[bytes, asyncio.Future[Outcome]] = {}

    @property
    def stopped_by(self) -> str | None:
        """Why no more questions are asked."""
        return self._judge.stopped_by

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Make the question."""
        return self._judge.prepare(shown, judge_idx)

    def recall(self, question: JudgeRequest) -> Outcome | None:
        """Return the verdict that the journal holds."""
        known = self._journal.recall(question.key, with_reply=self._with_replies)
        if known is None and self._only_known:
            return Outcome(Failure(FailureKind.NOT_ASKED, "not in the journal (--only-components)"))
        if known is None and self._only_failed and not self._journal.has_failed(question.key):
            return Outcome(Failure(FailureKind.NOT_ASKED, "never asked before (--only-failed)"))
        return known

    async def admit(self) -> Slot | None:
        """Wait for leave to make one more call."""
        await self._journal.room()
        return await self._judge.admit()

    async def ask(self, question: JudgeRequest, slot: Slot) -> Outcome:
        """Ask, and store the answer before anybody hears of it; equal questions in flight are asked once."""
        key = question.key
        if (earlier := self._in_flight.get(key)) is not None:
            self._judge.dismiss(slot)
            outcome = await asyncio.shield(earlier)
            return Outcome(outcome.result, reply_text=outcome.reply_text, from_journal=True)
        if (
            known := self._journal.recall(key, with_reply=self._with_replies)
        ) is not None:  # answered while this one waited to be admitted
            self._judge.dismiss(slot)
            return known
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
    return not isinstance(outcome.result, Failure) or outcome.result.kind != FailureKind.NOT_ASKED
