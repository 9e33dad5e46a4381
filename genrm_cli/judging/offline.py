"""A judge that reads replies from files.

It replaces a live judge: `recall` reads the replies to a request as a live judge would receive
them, first to last, until one holds a verdict, and enters the outcome into the journal. A request
without a verdict goes to the `ReplyStore`, which writes the outstanding requests to a file. A
second turn depends on the text of the first reply, so the journal keeps that reply under a key of
its own until the second one has come.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.json_types import Record
from genrm_cli.judging.client import CallError, reported_error
from genrm_cli.judging.completion import ReportedError, parse_completion
from genrm_cli.judging.engine import CachedJudge, RecallPolicy
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.pacing.pool import Slot
from genrm_cli.judging.profiles.profile import count_turns
from genrm_cli.judging.remote import OutdatedRequestError, RemoteJudge
from genrm_cli.judging.requests import JudgeRequest, Reply, count_reply
from genrm_cli.verdicts import ChatTurn, Failure, FailureKind, Outcome, StoppedBy

CHAT_URL = "/v1/chat/completions"
_NO_REPLY = Failure(FailureKind.NOT_ASKED, "no reply")
# OpenAI's codes for requests that were never made: batch_expired, batch_cancelled.
_NOT_RUN = "batch_"


class PendingRequest(Struct, frozen=True):
    """A request without a verdict.

    Attributes:
        id: its `custom_id`: the key of the request, or that of its second turn.
        failure: of its last reply; None without one.
    """

    id: bytes
    model: str
    body: bytes
    failure: Failure | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the server refused it, and would again."""
        return self.failure is not None and self.failure.kind is FailureKind.REFUSED


class ReplyStore(Protocol):
    """The replies to requests made elsewhere, and the requests that are still to be made."""

    def replies_to(self, id_: bytes) -> Iterable[Reply | CallError]:
        """Return the replies to a request, usually one; they count as used."""

    def add(self, request: PendingRequest) -> bool:
        """Add a request that is to be made; False if this run writes no requests, or not this
        one.
        """


class OfflineJudge(CachedJudge):
    """A judge that is never called: its replies come from a store and enter the journal as those of
    calls do.
    """

    _journal: Journal

    def __init__(
        self,
        judge: RemoteJudge,
        journal: Journal,
        policy: RecallPolicy,
        store: ReplyStore,
        read: set[bytes],
    ) -> None:
        """Read from the store; `read` receives the keys of the verdicts in it."""
        super().__init__(judge, journal, policy)
        self._read_keys = read
        self._store = store
        self._has_two_turns = count_turns(judge.profile) > 1

    @property
    def stopped_by(self) -> StoppedBy:
        """The setting that disables calls."""
        return StoppedBy.REPLIES_FROM

    async def admit(self, lane: int | None = None, since_s: float = 0.0) -> Slot | None:
        """Permit no call."""
        del lane, since_s
        return None

    def recall(self, requests: Sequence[JudgeRequest]) -> list[Outcome | None]:
        """Return the outcomes in the journal or those that replies give; None where the request is
        still to be made.
        """
        stored = self._stored([request.key for request in requests])
        return [self._recall(request, stored.get(request.key)) for request in requests]

    def _recall(self, request: JudgeRequest, stored: Outcome | None) -> Outcome | None:
        known = self._recall_recent(request.key) or stored
        if known is not None and known.is_decided:
            self._store.replies_to(
                request.key
            )  # they are not foreign, although they are not needed
            return known
        if request.form_version != self._judge.form.version:
            renewed = self._judge.prepare(request.prompt, request.repeat)
            self._journal.note_judge(self._judge.label)
            return self.recall([renewed])[0]
        outcome = Outcome(_NO_REPLY)
        try:
            pending = self._read(request, outcome)
        except OutdatedRequestError:
            return self._recall(request, None)
        result = None if outcome.result is _NO_REPLY else outcome.result
        if result is not None:
            entered = replace(
                outcome
            )  # the caller drops the reply of its own, perhaps before the commit
            self._journal.enter(request.key, self._judge.label, entered)
            self._remember(request.key, entered)
            outcome.journal_key = entered.journal_key
            if not isinstance(result, Failure):
                self._read_keys.add(request.key)
        failure = result if isinstance(result, Failure) else None
        # What a reply lacks is asked in another way, not again.
        may_pass = failure is not None and failure.kind.is_transient
        if result is None or may_pass:
            is_added = self._store.add(replace(pending, failure=failure))
            if is_added or result is None:
                return None
        if failure is not None and failure.partial is not None:
            outcome.result = failure.partial
        return outcome

    def _read(self, request: JudgeRequest, outcome: Outcome) -> PendingRequest:
        """Read replies until one gives a verdict, as a live judge is asked again; return the turn
        that lacks one.
        """
        pending = PendingRequest(request.key, self._judge.model, request.body)
        if self._has_two_turns:
            second = self._next_turn(request, outcome)
            if second is None:
                return pending
            outcome.turns = 2
            pending = PendingRequest(_second_id(second), self._judge.model, second.body)
        for reply in self._replies_to(pending.id, request):
            _count(outcome, reply, pending.body)
            outcome.result = (
                reply if isinstance(reply, Failure) else self._judge.read(reply, request)
            )
            if outcome.is_decided:
                break
        return pending

    def _replies_to(self, id_: bytes, request: JudgeRequest) -> Iterator[Reply | Failure]:
        """Yield the replies to a request; a field that has to change raises
        `OutdatedRequestError`.
        """
        for reply in self._store.replies_to(id_):
            if not isinstance(reply, CallError):
                yield reply.masked(self._judge.key.mask)
            elif self._judge.adapt(reply.refused, request):
                raise OutdatedRequestError
            else:
                failure = reply.failure
                yield replace(failure, detail=self._judge.key.mask_error(failure.detail))

    def _next_turn(self, request: JudgeRequest, outcome: Outcome) -> JudgeRequest | None:
        """Return the second turn, whose first reply may be in the journal; None without a first
        reply to go on from.
        """
        key = hashlib.sha256(request.key + b"first turn").digest()
        stored = self._journal.recall([key], with_reply=True).get(key)
        replies: Iterable[Reply | Failure] = self._replies_to(request.key, request)
        if stored is not None and stored.reply_text is not None:
            outcome.attempts = stored.attempts
            outcome.prompt_tokens = stored.prompt_tokens
            outcome.completion_tokens = stored.completion_tokens
            outcome.estimated_replies = stored.estimated_replies
            replies = (Reply(stored.reply_text),)
        for reply in replies:
            if stored is None:
                _count(outcome, reply, request.body)
            second = (
                reply if isinstance(reply, Failure) else self._judge.second_turn(request, reply)
            )
            if isinstance(second, JudgeRequest):
                if stored is None:
                    self._journal.enter(key, self._judge.label, replace(outcome, result=ChatTurn()))
                self._store.replies_to(_second_id(second))
                return second
            outcome.result = second or outcome.result
        return None


def _second_id(second: JudgeRequest) -> bytes:
    """Return the id of a second turn: that of another first reply is another request."""
    return hashlib.sha256(second.key + second.body).digest()


def _count(outcome: Outcome, reply: Reply | Failure, body: bytes) -> None:
    outcome.attempts += 1
    if isinstance(reply, Reply):
        count_reply(outcome, reply.estimated(body))


def parse_reply_line(line: Record) -> Reply | CallError | None:
    """Parse a line of replies as OpenAI or vLLM writes it; None for a request that was never made.

    vLLM puts the reason of a failure next to the response, as text or as an object; OpenAI puts it
    in its body."""
    response = line.get("response")
    error = line.get("error")
    if not isinstance(response, dict):
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, str) and code.startswith(_NOT_RUN):
            return None
        if error is None:
            return _bad("the line has neither a response nor an error")
        response = {}
    status = response.get("status_code")
    body = response.get("body")
    if error or status != HTTPStatus.OK:
        return reported_error(status if isinstance(status, int) else None, body or error)
    try:
        return parse_completion(body)
    except ReportedError as error_:
        return reported_error(error_.status, error_.said, introduced=error_.introduced)
    except ValueError as error_:
        return _bad(f"not a chat completion ({error_})")


def _bad(detail: str) -> CallError:
    return CallError(Failure(FailureKind.BAD_BODY, detail), may_pass=True)
