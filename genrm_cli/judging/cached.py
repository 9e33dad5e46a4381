"""A journal in front of a live judge."""

import asyncio
import time
from dataclasses import dataclass, replace

from genrm_cli.judging.claims import LOOK_S
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import JudgeRequest, Prompt
from genrm_cli.verdicts import Failure, FailureKind, Outcome, StoppedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPolicy:
    """What a run takes from a journal, and what it asks.

    Attributes:
        only_failed: ask only requests that failed before.
        only_known: ask nothing.
        with_failures: also recall failures.
        with_replies: also recall the judge's replies, which takes longer.
    """

    only_failed: bool = False
    only_known: bool = False
    with_failures: bool = False
    with_replies: bool = False


class CachedJudge:
    """A journal in front of a live judge: known requests are not asked again, new outcomes are stored."""

    def __init__(self, judge: RemoteJudge, journal: Journal, policy: RecallPolicy) -> None:
        self._judge = judge
        self._journal = journal
        self._policy = policy
        self._in_flight: dict[bytes, asyncio.Future[Outcome]] = {}

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made; None while the run continues."""
        return self._judge.stopped_by

    def prepare(self, shown: Prompt, judge_idx: int) -> JudgeRequest:
        """Render a request."""
        return self._judge.prepare(shown, judge_idx)

    def recall(self, request: JudgeRequest) -> Outcome | None:
        """Return the stored outcome."""
        known = self._journal.recall(request.key, with_reply=self._policy.with_replies)
        if known is None and self._policy.with_failures:
            known = self._journal.recall_failure(request.key)
        if known is None and self._policy.only_known:
            setting = StoppedBy.CONCLUDE if self._policy.with_failures else StoppedBy.ONLY_COMPONENTS
            return Outcome(Failure(FailureKind.NOT_ASKED, f"not in the journal ({setting})"))
        if known is None and self._policy.only_failed and not self._journal.has_failed(request.key):
            return Outcome(Failure(FailureKind.NOT_ASKED, "never asked before (only_failed)"))
        return known

    async def admit(self, lane: int | None = None) -> Slot | None:
        """Wait for permission to make another call."""
        await self._journal.room()
        return await self._judge.admit(lane)

    async def ask(self, request: JudgeRequest, slot: Slot) -> Outcome:
        """Ask, and store the outcome before returning it; equal requests in flight are asked once."""
        key = request.key
        if (earlier := self._in_flight.get(key)) is not None:
            self._judge.dismiss(slot)
            return replace(await asyncio.shield(earlier), from_journal=True)
        answered = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            claimed = await self._claim(key, slot)
            if isinstance(claimed, Outcome):
                outcome = claimed
            else:
                outcome = await self._judge.ask(request, claimed)
                if _was_asked(outcome):
                    outcome = await self._journal.record(key, self._judge.label, outcome)
            answered.set_result(outcome)
            return outcome
        finally:
            self._journal.claims.give_back(key)
            del self._in_flight[key]
            if not answered.done():
                answered.cancel()

    async def _claim(self, key: bytes, slot: Slot) -> Slot | Outcome:
        """Return a slot to ask with, or the verdict of another run on this journal that asked first.

        A run that claimed the request and ends without a verdict delays this one by the timeout of a call at most.
        """
        held: Slot | None = slot
        gives_up_at_s = time.monotonic() + self._judge.call_timeout_s
        try:
            while held is not None:
                is_ours = await self._journal.claims.take(key)
                # Stored while this request waited for its slot.
                if (known := self._journal.recall(key, with_reply=self._policy.with_replies)) is not None:
                    return known
                if is_ours or time.monotonic() >= gives_up_at_s:
                    granted, held = held, None
                    return granted
                self._judge.dismiss(held)
                held = None
                await self._until_free(key, gives_up_at_s)
                if (known := self._journal.recall(key, with_reply=self._policy.with_replies)) is not None:
                    return known
                held = await self.admit()
        finally:
            if held is not None:
                self._judge.dismiss(held)
        return Outcome(Failure(FailureKind.NOT_ASKED, f"stopped by {self.stopped_by}"))

    async def _until_free(self, key: bytes, gives_up_at_s: float) -> None:
        """Wait while another run is asking, at most for the timeout of one call."""
        while self._journal.claims.is_taken(key) and self.stopped_by is None and time.monotonic() < gives_up_at_s:
            await asyncio.sleep(LOOK_S)


def _was_asked(outcome: Outcome) -> bool:
    return not isinstance(outcome.result, Failure) or outcome.result.kind != FailureKind.NOT_ASKED
