"""A generative reward model behind one or more OpenAI-compatible endpoints.

`ask` turns a request into an outcome, within `comparison_timeout`. What to ask in place of a failed
request is decided for the whole group (`groups/asking/replacements.py`).

- After a reply that was cut off, it asks once more with twice the room (`max_extra` counts the
  calls). A request that the server refuses as too long is shortened (`LearnedContext`); a refusal
  costs nothing.
- Each asking makes one call, or two for profiles with two turns (`_judge_once`).
- Each call is retried while its failure may pass (`retries`). Waits hold no slot (`_call`).

Each call needs a slot of the pool. The budget is charged when the slot is granted: a new comparison
for all its turns, so that none is cut off between two of them. A call that the server refuses
because of a field costs nothing: the field is changed for all requests (`RequestForm`), and the
request is prepared again.

A slot on trial sends a harmless request instead, because a prompt that always breaks the judge must
not decide whether an endpoint is healthy."""

import asyncio
import hashlib
import math
import random
import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import Message
from genrm_cli.judging.client import NO_KEY, CallError, KeyMask
from genrm_cli.judging.context.learned_context import MAX_CUTS, LearnedContext
from genrm_cli.judging.pacing.endpoint import Ending, Endpoint, loop_time_s
from genrm_cli.judging.pacing.judge_events import OtherModelEvent
from genrm_cli.judging.pacing.policy import Budget, CallPolicy
from genrm_cli.judging.pacing.pool import EndpointPool, Slot
from genrm_cli.judging.pacing.remedies import LIST_REMEDY
from genrm_cli.judging.profiles.answer import parse_first_turn
from genrm_cli.judging.profiles.profile import (
    AnyProfile,
    ChatMessage,
    GradingProfile,
    Profile,
    count_turns,
    parts_of,
    render_messages,
    sample_prompt,
)
from genrm_cli.judging.request_form import SCHEMA, RefusedField, RequestForm, bound_texts, limit_of
from genrm_cli.judging.requests import (
    JudgeRequest,
    ListwisePrompt,
    Prompt,
    Reply,
    count_reply,
)
from genrm_cli.metrics.running_stats import Latencies
from genrm_cli.texts.late_pattern import late_pattern
from genrm_cli.verdicts import (
    Failure,
    FailureKind,
    Judgment,
    Outcome,
    ProbeResult,
    StoppedBy,
    TooLong,
)

_NOT_ASKED = Failure(FailureKind.NOT_ASKED, "not asked")
_TRIAL = [("user", "What is the capital of France?")], "Paris.", "I like turtles."
_TRIAL_TOKENS = 16  # a few words, which even a slow server writes before the run is given up
_TOKENS = " tokens"
_FAILED_LISTS = 8  # of a judge that fails with every second one, one run in 256 begins with so many
_UNPROBED = "not probed"


# Mistral, Anthropic and others name it in place of `length`.
_CONTEXT_WORDS = late_pattern("context|model_length|window", re.IGNORECASE)


class _Sent(Struct, frozen=True):
    """A request as it is sent.

    Attributes:
        chars: cut out of each response and the conversation.
        cuts: how often it was shortened after a refusal.
        suspected: the context that it confirms if it is answered.
        is_after_cut: whether a reply was cut off before.
        most: another limit of its reply; None for that of its fields.
    """

    request: JudgeRequest
    chars: tuple[int, ...] = ()
    cuts: int = 0
    suspected: int | None = None
    is_after_cut: bool = False
    most: int | None = None


def _is_cut_off(failure: Failure, reply: Reply) -> bool:
    """Whether a limit of tokens cut a reply off, perhaps before its first word."""
    if failure.kind is FailureKind.TRUNCATED:
        return True
    return failure.kind is FailureKind.EMPTY and bool(
        _CONTEXT_WORDS.search(reply.finish_reason or "")
    )


class OutdatedRequestError(Exception):
    """The server takes another form of request."""


class RemoteJudge:
    """A judge behind HTTP endpoints.

    Attributes:
        name: its name in the journal.
        form: how the model's server takes requests; another version outdates those that were
            prepared before.
        context_tokens: the context length to which prompts are shortened.
        learned: what its requests have shown of the context.
        gives_verdicts: whether it has ever given one, in this run or an earlier one.
        probe: the result of its probe, or of the probe before the verdicts in the journal; None if
            it was not asked.
    """

    def __init__(
        self,
        pool: EndpointPool,
        profile: AnyProfile,
        policy: CallPolicy,
        budget: Budget,
        *,
        model: str,
        given: Mapping[str, object],
        fixed: Collection[str] = (),
        form: RequestForm | None = None,
        is_probed: bool = True,
        judge_id: str | None = None,
        latencies: Latencies | None = None,
        key: KeyMask = NO_KEY,
        learned: LearnedContext | None = None,
        shortens: bool = True,
    ) -> None:
        """Combine endpoints with a profile.

        `given` fields replace those of the profile, and None leaves one out; `fixed` ones are sent
        as they are, even if the server refuses them. `shortens`: whether requests that are too long
        for the server are shortened."""
        self._latencies = latencies or Latencies()
        self.model = model
        self._judge_id = judge_id or model
        self.context_tokens: int | None = None
        self.learned = learned or LearnedContext(model)
        self._shortens = shortens
        self._is_probed = is_probed
        self.probe: ProbeResult | None = None
        self.key = key
        self.pool = pool
        self._policy = policy
        self._budget = budget
        self._fixed = fixed
        self.form = form or RequestForm(model)
        self._models = {model}
        self.gives_verdicts = False
        self._failed_lists: dict[FailureKind, set[bytes]] = {}
        self.use_profile(profile, given)

    def use_profile(self, profile: AnyProfile, given: Mapping[str, object]) -> None:
        """Ask with a profile from now on; see the initialiser for `given`."""
        self.profile = profile
        self.name = self.name_with(profile)
        planned = {"model": self.model, **profile.request_fields, **given}
        self._planned = {name: value for name, value in planned.items() if value is not None}
        self._identity = orjson.dumps([profile.name, profile.version, self._judge_id])
        self._turns = count_turns(profile)
        self._renew()

    def name_with(self, profile: AnyProfile) -> str:
        """Return the name of this judge if it is asked with a profile."""
        return f"{self._judge_id} · {profile.name}-{profile.version}"

    def _renew(self) -> None:
        self._form_version = self.form.version
        self._request_fields = self.form.adapt(self._planned)
        # A harmless request with a short reply.
        limit = limit_of(self._request_fields)
        most = self._request_fields.get(limit)
        tokens = min(most, _TRIAL_TOKENS) if isinstance(most, int) else _TRIAL_TOKENS
        prompt = sample_prompt(self.profile, *_TRIAL)
        self._trial = JudgeRequest(
            prompt, self._body_of(render_messages(self.profile, prompt), prompt, **{limit: tokens})
        )

    @property
    def changeable_fields(self) -> Collection[str]:
        """Names of the fields in its requests that the user may change."""
        return self._request_fields.keys() - {"model"}

    @property
    def label(self) -> str:
        """Its name, with the context length to which prompts are shortened, the form of its
        requests, and whether it was not probed: from it, other runs learn them.
        """
        context = "" if self.context_tokens is None else f"{self.context_tokens}{_TOKENS}"
        unprobed = "" if self._is_probed else _UNPROBED
        return " · ".join(filter(None, (self.name, context, str(self.form), unprobed)))

    def take_over(self, label: str) -> int | None:
        """Take over from a label of this judge the form of requests and whether it was probed;
        return the context.
        """
        parts = label.removeprefix(self.name).split(" · ")
        self.form.recall(next((part for part in parts if part.startswith("{")), "{}"))
        self.probe = self.probe or ("skipped" if _UNPROBED in parts else "passed")
        tokens = next((part.removesuffix(_TOKENS) for part in parts if part.endswith(_TOKENS)), "")
        return int(tokens) if tokens.isdecimal() else None

    def adapt(self, refused: RefusedField | None, request: JudgeRequest) -> bool:
        """Learn from the refusal of a request; return whether it has to be prepared again."""
        if refused is None:
            return False
        return request.form_version != self.form.version or self.form.learn(
            refused, self._planned, self._fixed
        )

    @property
    def stopped_by(self) -> StoppedBy | None:
        """Why no more requests are made; None while the run continues."""
        return self.pool.stopped_by

    def set_deadline(self, deadline_s: float, grace_s: float) -> None:
        """Stop asking after `deadline_s` seconds; calls in flight then get `grace_s` to finish."""
        self.pool.last_call_ends_s = loop_time_s() + deadline_s + grace_s
        if deadline_s <= 0:
            self.pool.stop(StoppedBy.DEADLINE)
        else:
            asyncio.get_running_loop().call_later(deadline_s, self.pool.stop, StoppedBy.DEADLINE)

    def may_ask(self) -> bool:
        """Whether calls may be made: the run has not been stopped, and some budget is left."""
        self._stop_when_used_up(self._turns)
        return self.pool.stopped_by is None

    def prepare(self, prompt: Prompt, judge_idx: int) -> JudgeRequest:
        """Build the request and its key: a sha256 of exactly what changes the answer."""
        if self._form_version != self.form.version:
            self._renew()
        body = self._body_of(render_messages(self.profile, prompt), prompt)
        key = hashlib.sha256(self._identity + b"%d\n" % judge_idx + body).digest()
        return JudgeRequest(prompt, body, key, judge_idx, self._form_version)

    async def try_at(self, endpoint: Endpoint, request: JudgeRequest, timeout_s: float) -> Reply:
        """Make a call outside of the run, and again while the server takes another form of
        request.
        """
        while True:
            try:
                reply = await endpoint.client.complete(request.body, timeout_s)
                self.learned.note_reply(request.body, reply)
                return reply
            except CallError as error:
                if not self.adapt(error.refused, request):
                    raise
                request = self.prepare(request.prompt, request.repeat)

    def _body_of(self, messages: list[ChatMessage], prompt: Prompt, **more: object) -> bytes:
        rendered: list[Any] = messages
        if prompt.images:
            rendered = [
                message | {"content": parts_of(message["content"], prompt.images)}
                for message in messages
            ]
        if (schema := self._response_format(prompt)) is not None:
            more[SCHEMA] = schema
        # `default`: nested fields of a profile are read-only mappings, which orjson cannot
        # serialise.
        return orjson.dumps(self._request_fields | {"messages": rendered} | more, default=dict)

    def _response_format(self, prompt: Prompt) -> object:
        """Return the response format of a prompt, where the profile makes one for each; else
        None.
        """
        if not isinstance(self.profile, GradingProfile) or not isinstance(prompt, ListwisePrompt):
            return None
        make = self.profile.response_format_of
        if make is None or SCHEMA in self._fixed or SCHEMA not in self._request_fields:
            return None
        limit = self._request_fields.get(limit_of(self._request_fields))
        return bound_texts(make(prompt), limit) if isinstance(limit, int) else make(prompt)

    def read(self, reply: Reply, request: JudgeRequest) -> Judgment | Failure:
        """Parse a reply with the profile, and report one of another model, once for each name."""
        if reply.model is not None and reply.model not in self._models:
            self._models.add(reply.model)
            if not _is_same_model(self.model, reply.model):
                self.pool.on_event(OtherModelEvent(self.model, reply.model))
        return self.profile.parse_reply(reply, request.prompt)

    def second_turn(self, request: JudgeRequest, reply: Reply) -> JudgeRequest | Failure | None:
        """Return the request that follows the first reply, or why there is none; None for profiles
        with one turn.
        """
        if not isinstance(self.profile, Profile) or self.profile.render_second_turn is None:
            return None
        said = parse_first_turn(reply, request.prompt)
        if isinstance(said, Failure):
            return said
        messages = [
            *render_messages(self.profile, request.prompt),
            *self.profile.render_second_turn(said),
        ]
        return replace(request, body=self._body_of(messages, request.prompt))

    async def admit(self, lane: int | None = None, since_s: float = math.inf) -> Slot | None:
        """Wait for a slot for a new comparison, and charge all its turns to the budget."""
        return await self._charged_slot(self._turns, lane=lane, since_s=since_s)

    def dismiss(self, slot: Slot) -> None:
        """Return an unused slot from `admit`."""
        self._budget.calls -= self._turns
        self.pool.release_unused(slot)

    async def ask(self, request: JudgeRequest, slot: Slot) -> tuple[bytes, Outcome]:
        """Ask, again if the server takes another form of request.

        Return the outcome, and the key of the request in the form in which it was made.
        """
        outcome = Outcome(_NOT_ASKED)
        started_s = loop_time_s()
        gives_up_at_s = started_s + self._policy.comparison_timeout_s
        granted: Slot | None = slot
        sent = self._fitted(request)
        try:
            while granted is not None:
                try:
                    outcome.result, reply = await self._judge_once(
                        sent, granted, outcome, gives_up_at_s
                    )
                except OutdatedRequestError:
                    renewed = self.prepare(request.prompt, request.repeat)
                    request = replace(renewed, extra=request.extra)
                    sent = replace(sent, request=self.prepare(sent.request.prompt, request.repeat))
                    granted = await self._slot_in_time(gives_up_at_s)
                    continue
                except CallError as error:
                    if sent.is_after_cut and not error.may_pass:
                        break  # the server grants no more room
                    shorter = self._shorter(request, sent, error.failure)
                    if shorter is None:
                        raise
                    sent = shorter
                    self._budget.calls -= 1  # it cost nothing
                    outcome.attempts -= 1
                    granted = await self._slot_in_time(gives_up_at_s)
                    continue
                failure = outcome.result if isinstance(outcome.result, Failure) else None
                if failure is None or not sent.is_after_cut:
                    self.learned.confirm(sent.suspected)
                if failure is None or not _is_cut_off(failure, reply):
                    break
                # Shortened requests may be cut off several times, until they fit.
                is_last = sent.is_after_cut and not sent.cuts
                roomier = None if is_last else self._roomier(request, sent, reply)
                if roomier is None or not self._may_ask_again(request):
                    break
                sent = roomier
                granted = await self._slot_in_time(gives_up_at_s)
                outcome.reasks += self._turns if granted is not None else 0
        except CallError as error:
            outcome.result = error.failure
        except TimeoutError:
            pass
        finally:
            self._budget.calls -= self._turns - outcome.turns
        outcome.result = self._concluded(outcome.result, gives_up_at_s)
        outcome.latency_s = loop_time_s() - started_s
        if isinstance(outcome.result, Failure):
            self._give_up_on_lists(request, outcome.result)
        else:
            outcome.shortened = sent.chars
            self.gives_verdicts = True
        return request.key, outcome

    def _concluded(self, result: Judgment | Failure, gives_up_at_s: float) -> Judgment | Failure:
        """Return what an asking has come to: the grades of a reply that leaves some out, or why it
        was not asked to the end.
        """
        if isinstance(result, Failure) and result.partial is not None:
            return result.partial
        if result is not _NOT_ASKED:
            return result
        if loop_time_s() >= gives_up_at_s:
            return Failure(
                FailureKind.TIMEOUT, "the comparison took longer than comparison_timeout"
            )
        stopped = f"not asked to the end: stopped by {self.pool.stopped_by}"
        return Failure(FailureKind.NOT_ASKED, stopped)

    def _give_up_on_lists(self, request: JudgeRequest, failure: Failure) -> None:
        """End the run if all lists fail alike from the beginning: each has many responses, and
        further ones would only cost.
        """
        is_list = isinstance(request.prompt, ListwisePrompt) and len(request.prompt.responses) > 2
        if self.gives_verdicts or not is_list or not failure.kind.is_parse_failure:
            return
        failed = self._failed_lists.setdefault(failure.kind, set())
        failed.add(request.key)
        if len(self._failed_lists) == 1 and len(failed) >= _FAILED_LISTS:
            said = f"{self.name} scored none of {len(failed)} lists: {failure.kind}: "
            self.pool.give_up(Message.of(f"{said}{failure.detail}. ", LIST_REMEDY))

    def _may_ask_again(self, request: JudgeRequest) -> bool:
        return request.extra is None or request.extra.take(self._turns)

    def _fitted(self, request: JudgeRequest) -> _Sent:
        """Return a request as it is sent: shortened, if the context was learned and is too small
        for it.
        """
        cut = None
        if self._shortens and self.learned.tokens is not None:
            cut = self.learned.shorten(request, self._reply_tokens)
        if cut is None:
            return _Sent(request)
        return _Sent(self.prepare(cut.prompt, request.repeat), cut.chars)

    def _shorter(self, request: JudgeRequest, sent: _Sent, failure: Failure) -> _Sent | None:
        """Return a request that may fit where another was refused as too long; None if length is
        not the cause, or too little would be left.
        """
        refusal = self.learned.suspect(failure, sent.request.body)
        if refusal is None or not self._shortens or sent.cuts >= MAX_CUTS:
            return None
        # From the whole texts, so that each has one cut.
        cut = self.learned.shorten(request, self._reply_tokens, refusal, sent.request.prompt)
        if cut is None:
            return None
        shorter = self.prepare(cut.prompt, request.repeat)
        return replace(
            sent,
            request=shorter,
            chars=cut.chars,
            cuts=sent.cuts + 1,
            suspected=cut.suspected,
        )

    def _roomier(self, request: JudgeRequest, sent: _Sent, reply: Reply) -> _Sent | None:
        """Return what is asked once more after a reply that was cut off: a shorter request if the
        context cut it, else one with twice the room for the reply.
        """
        most = self._request_fields.get(limit_of(self._request_fields))
        limit = most if isinstance(most, int) else None
        is_counted = reply.is_prompt_counted
        used = (reply.prompt_tokens or 0) + (reply.completion_tokens or 0)
        written = reply.completion_tokens or 0
        is_full = bool(_CONTEXT_WORDS.search(reply.finish_reason or ""))
        if is_counted and limit is not None and written < limit - limit // 16:
            is_full = self.learned.note_cut(reply) or is_full
        if is_full:
            refusal = TooLong(used if is_counted else None, reply.prompt_tokens)
            failure = Failure(FailureKind.TRUNCATED, "", too_long=refusal)
            # A prompt of less than half of the context is not the cause.
            is_long = (reply.prompt_tokens or 0) > used // 2
            shorter = self._shorter(request, sent, failure) if is_long else None
            if shorter is not None:
                return replace(shorter, is_after_cut=True)
        if limit is None:
            return replace(sent, is_after_cut=True, most=2 * written if is_counted else None)
        room = self.learned.tokens or self.context_tokens
        granted = 2 * limit
        if room is not None and is_counted:
            granted = min(granted, room - (reply.prompt_tokens or 0))
        return replace(sent, is_after_cut=True, most=granted) if granted > limit else None

    @property
    def _reply_tokens(self) -> int | None:
        most = self._request_fields.get(limit_of(self._request_fields))
        return self._turns * most if isinstance(most, int) else None

    async def _judge_once(
        self, sent: _Sent, slot: Slot, outcome: Outcome, gives_up_at_s: float
    ) -> tuple[Judgment | Failure, Reply]:
        """Make the calls of one judgment, and parse the last reply."""
        request = sent.request
        first = self._with_room(request, sent.most)
        reply = await self._call(first, slot, outcome, gives_up_at_s)
        second = self.second_turn(request, reply)
        if isinstance(second, Failure):
            return second, reply
        if second is not None:
            granted = await self._slot_for_second_turn(slot.endpoint, outcome, gives_up_at_s)
            second = self._with_room(second, sent.most)
            reply = await self._call(second, granted, outcome, gives_up_at_s)
        return self.read(reply, request), reply

    def _with_room(self, request: JudgeRequest, most: int | None) -> JudgeRequest:
        """Return a request with another limit of its reply."""
        if most is None:
            return request
        fields = orjson.loads(request.body) | {limit_of(self._request_fields): most}
        return replace(request, body=orjson.dumps(fields))

    async def _slot_for_second_turn(
        self, first: Endpoint, outcome: Outcome, gives_up_at_s: float
    ) -> Slot | None:
        """Wait for a slot. The first second turn of a comparison was charged when it began, so even
        a used-up budget allows it.
        """
        if outcome.turns == self._turns:
            return await self._slot_in_time(gives_up_at_s)
        if loop_time_s() >= gives_up_at_s:
            return None
        async with asyncio.timeout_at(gives_up_at_s):
            slot = await self.pool.acquire_second_turn(first)
        if slot is not None:
            outcome.turns = self._turns
        return slot

    async def _slot_in_time(self, gives_up_at_s: float) -> Slot | None:
        """Wait for a slot for another call of a comparison; None also if the comparison has timed
        out.
        """
        if loop_time_s() >= gives_up_at_s:
            return None
        began_s = gives_up_at_s - self._policy.comparison_timeout_s
        async with asyncio.timeout_at(gives_up_at_s):
            return await self._charged_slot(1, retry=True, since_s=began_s)

    async def _charged_slot(self, calls: int, **wanted: Any) -> Slot | None:
        """Wait for a slot, if the budget allows `calls` more; None if the run was
        stopped.
        """
        self._stop_when_used_up(calls)
        slot = await self.pool.acquire(**wanted)
        if slot is None:
            return None
        # Others may have used the rest of the budget during the wait.
        if self._stop_when_used_up(calls):
            self.pool.release_unused(slot)
            return None
        self._budget.calls += calls
        return slot

    def _stop_when_used_up(self, calls: int = 1) -> bool:
        limit = self._budget.used_up(calls)
        if limit is not None:
            self.pool.stop(limit)
        return limit is not None

    async def _call(
        self, request: JudgeRequest, slot: Slot | None, outcome: Outcome, gives_up_at_s: float
    ) -> Reply:
        """Make a call, and retry transient failures while retries are left; raise the last one.
        Waits hold no slot.
        """
        before = outcome.result
        failed_tries = backoffs = 0
        error = CallError(before if isinstance(before, Failure) else _NOT_ASKED, may_pass=True)
        while slot is not None:
            if request.form_version != self.form.version:
                self._budget.calls -= 1
                self.pool.release_unused(slot)
                raise OutdatedRequestError
            try:
                reply = await self._exchange(
                    self._trial if slot.on_trial else request, slot, outcome, gives_up_at_s
                )
            except CallError as failure:
                if self.adapt(failure.refused, request):
                    self._budget.calls -= 1  # it cost nothing
                    outcome.attempts -= 1
                    raise OutdatedRequestError from failure
                error = failure
            else:
                if not slot.on_trial:
                    outcome.result = before  # the reply cancels the failures before it
                    count_reply(outcome, reply)
                    return reply
                slot = await self._slot_in_time(gives_up_at_s)
                continue
            is_busy = error.failure.kind == FailureKind.RATE_LIMITED
            failed_tries += not (slot.on_trial or is_busy)
            # The schedule of trials sets their pace.
            backoffs += not (slot.on_trial or (is_busy and slot.endpoint.limit.adapts))
            if not error.may_pass or failed_tries > self._policy.retries:
                break
            outcome.result = error.failure  # used if the comparison times out during a wait
            # Deliberately unseeded: processes that failed together must not retry together. No
            # result depends on it.
            wait_s = self._policy.wait_s(backoffs, error.retry_after_s, random.random())
            wait_s = min(wait_s, gives_up_at_s - loop_time_s())
            holds_back = error_ending(error) in (Ending.BUSY, Ending.OVERLOADED, Ending.TIMED_OUT)
            await self.pool.pause(wait_s, holds_back=holds_back)
            slot = await self._slot_in_time(gives_up_at_s)
        raise error

    async def _exchange(
        self, request: JudgeRequest, slot: Slot, outcome: Outcome, gives_up_at_s: float
    ) -> Reply:
        started_s = loop_time_s()
        # The timeout of a call, or the time left for the comparison or the run.
        ends_s = min(
            started_s + self._policy.call_timeout_s, gives_up_at_s, self.pool.last_call_ends_s
        )
        outcome.attempts += 1
        try:
            reply = await slot.endpoint.client.complete(
                request.body, max(0.001, ends_s - started_s)
            )
        except CallError as error:
            self.pool.release(slot, error_ending(error), error.failure.detail, error.retry_after_s)
            # The transport swallows a cancellation if the call fails meanwhile; the run would wait
            # for another retry.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError from error
            raise
        except BaseException:
            self.pool.release_unused(slot)  # cancelled: not the endpoint's fault
            raise
        reply = reply.estimated(request.body)
        if not slot.on_trial:
            self.learned.note_reply(request.body, reply)
        self._latencies.add(loop_time_s() - started_s)
        self._budget.count_reply(reply)
        self.pool.release(slot, Ending.ANSWERED)
        return reply


def _is_same_model(asked: str, named: str) -> bool:
    """Whether two names are those of one model: servers add a date, and leave out a path."""
    one, other = (name.rstrip("/").rpartition("/")[2].lower() for name in (asked, named))
    return one.startswith(other) or other.startswith(one)


def error_ending(error: CallError) -> Ending:
    """Return what a failed call reveals about its endpoint."""
    if error.overloaded:
        return Ending.OVERLOADED
    if error.failure.kind == FailureKind.TIMEOUT:
        return Ending.TIMED_OUT
    if error.failure.kind == FailureKind.RATE_LIMITED:
        return Ending.BUSY
    if error.failure.kind == FailureKind.AUTH:
        return Ending.DENIED
    if error.failure.kind == FailureKind.SPENT:
        return Ending.SPENT
    if error.status is not None and (error.status == HTTPStatus.NOT_FOUND or error.status < 400):
        return Ending.MISSING
    # A permanent failure concerns this request; a transient one concerns the endpoint.
    return Ending.BROKEN if error.may_pass else Ending.REFUSED
