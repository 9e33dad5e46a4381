"""Probe a judge before the first paid call: a good and a bad answer, in both orders."""

import asyncio
from typing import NamedTuple

from msgspec import Struct

from genrm_cli.errors import JudgeError, Message, SettingRef, naming
from genrm_cli.judging.client import CallError
from genrm_cli.judging.opening.judge_spec import JUDGE, ModelRole
from genrm_cli.judging.pacing.endpoint import Endpoint, loop_time_s
from genrm_cli.judging.pacing.judge_events import ProbingEvent
from genrm_cli.judging.pacing.remedies import (
    CHECK_ADDRESS,
    LIST_REMEDY,
    LOADING,
    SPENT,
    WRONG_PLACE,
    remedy_for_key,
)
from genrm_cli.judging.profiles.profile import sample_prompt
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.request_form import LIMITS, RefusedField
from genrm_cli.judging.requests import JudgeRequest
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.verdicts import Failure, FailureKind, Grades, Judgment, Verdict, preference

_TRIES = 2  # one connection that fails must not end a run before it begins
_PAUSE_S = 0.5
_NOT_RETRIED = (
    FailureKind.AUTH,
    FailureKind.SPENT,
    FailureKind.TIMEOUT,
    FailureKind.RATE_LIMITED,
)
# The user must correct a wrong key or URL, although a run would wait for it.
_NOT_DOWN = (FailureKind.AUTH, FailureKind.SPENT, FailureKind.BAD_BODY)

_CONVERSATION = (("user", "Which planet of the solar system is closest to the sun?"),)
_GOOD = "Mercury is the planet closest to the sun. It goes round it in 88 days."
_BAD = "I like turtles."
# Further responses of a list.
_WORSE = ("My bicycle is red.", "It rained all day.", "Two and two are four.", "Bread, please.")

_PLAIN = SettingRef("profile", "nemotron-plain")
_SKIPS = naming("$probe skips this test.", probe=False)
_ROOM = naming("Give it room with $max_reply_tokens, or check its reasoning parser.")
_REMEDIES = {
    FailureKind.CONNECTION: Message.of(
        "Is the server running? ",
        CHECK_ADDRESS,
        ". If its certificate is private, set SSL_CERT_FILE.",
    ),
    FailureKind.TIMEOUT: naming(
        "It accepts connections but does not answer; look at its log, or pass $probe.", probe=False
    ),
    FailureKind.REFUSED: naming(
        "Check $model; if the server does not know a role of the request (SGLang), try $profile, "
        "or, if it does not take a field, change the field with $request_field.",
        profile="nemotron-plain",
    ),
    FailureKind.BAD_BODY: Message.of(
        "Something else answers at this address. ", CHECK_ADDRESS, "."
    ),
    FailureKind.SPENT: SPENT,
    FailureKind.TRUNCATED: _ROOM,
    FailureKind.EMPTY: _ROOM,
}
_OTHER_REMEDY = Message.of(WRONG_PLACE, " ", _SKIPS)
_TOO_LONG_REMEDY = naming("Lower $max_reply_tokens, or serve the model with a longer context.")
# vLLM's word for a number above its limit, and ours for a reply without them.
_LOGPROBS_WORD = "logprobs"
_LOGPROBS_REMEDY = Message.of(
    "This profile needs the log probabilities of the 20 likeliest tokens (vLLM's option "
    "max-logprobs)."
)
_UNREAD_REMEDY = Message.of(
    "The profile may not fit this judge; try ", _PLAIN, " (`genrm profiles` lists others). ", _SKIPS
)
_UNREAD_PLAIN_REMEDY = Message.of(
    naming("The profile may not fit this judge; try another $profile"),
    " (`genrm profiles` lists them), or a stronger judge. ",
    _SKIPS,
)
# A component has its own form of replies, which no setting changes.
_UNREAD_GRADER_REMEDY = Message.of("Give this component a stronger model. ", _SKIPS)
_WRONG_REMEDY = naming(
    "Its rewards would be meaningless: try another $profile or a stronger judge. $probe uses it "
    "anyway.",
    probe=False,
)


class NoVerdictError(JudgeError):
    """A judge replies, but without a verdict.

    Attributes:
        reason: the kind of the failure, and its details.
    """

    def __init__(self, message: Message, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class WrongVerdictError(JudgeError):
    """A judge gives verdicts, but does not prefer a right answer to nonsense."""


class _Fault(Struct, frozen=True):
    """Why an endpoint cannot be used.

    Attributes:
        is_down: whether it cannot be reached, or fails in a way that may pass.
        is_busy: whether it refuses for lack of capacity. The run will wait for it.
        unread: why its reply holds no verdict; None if that is not the fault.
        is_wrong: whether its verdicts do not prefer a right answer to nonsense.
    """

    message: Message
    is_down: bool = False
    is_busy: bool = False
    unread: str | None = None
    is_wrong: bool = False


class _ProbeAnswer(NamedTuple):
    """A judge's answer to the probe.

    Attributes:
        prompt_tokens: of the first reply, whose prompt contains the responses and, with two turns,
            no words of the model; None if they are unknown.
        refused: the field of the request that the server refuses.
        overloaded: whether the server reports that it is not ready.
    """

    result: Judgment | Failure
    prompt_tokens: int | None = None
    refused: RefusedField | None = None
    overloaded: bool = False


async def probe_judge(
    judge: RemoteJudge,
    timeout_s: float,
    *,
    compares: bool = True,
    responses: int = 2,
    role: ModelRole = JUDGE,
    name: str | None = None,
    on_event: OnEvent = ignore_event,
) -> list[Message]:
    """Ask the judge about a good and a bad answer, and with the two swapped; warn of endpoints that
    are down or busy.

    The verdict must follow the swap. If it does not, the token count of a longer prompt shows
    whether the responses reach the model at all. An endpoint that is down is marked unhealthy while
    others work.

    Args:
        timeout_s: timeout of one call; the `probing` event reports it, because a slow judge may
            need all of it.
        compares: whether the better answer must get the better verdict; False for a grader of
            something else.
        responses: of the list that a judge of lists is shown; others are shown two or one.
        name: its name in errors, for example that of a component; None to name only its model.

    Raises:
        NoVerdictError: a judge replies, but without a verdict.
        WrongVerdictError: a judge does not prefer a right answer to nonsense.
        JudgeError: an endpoint cannot be used, or all are down.
    """
    endpoints = judge.pool.endpoints
    on_event(ProbingEvent([each.name for each in endpoints], judge.model, timeout_s))
    probes = (_Probe(judge, endpoint, timeout_s, role, responses) for endpoint in endpoints)
    faults = await asyncio.gather(*(probe.run(compares=compares) for probe in probes))
    all_down = all(fault is not None and fault.is_down for fault in faults)
    warnings: list[Message] = []
    for endpoint, fault in zip(endpoints, faults, strict=True):
        if fault is None:
            continue
        if all_down or not (fault.is_down or fault.is_busy):
            message = Message.of(*([] if name is None else [f"{name}: "]), fault.message)
            if fault.unread is not None:
                raise NoVerdictError(message, fault.unread)
            raise WrongVerdictError(message) if fault.is_wrong else JudgeError(message)
        warnings.append(fault.message)
        if fault.is_down:
            endpoint.mark_unhealthy(loop_time_s())
    return warnings


class _Probe(Struct, frozen=True):
    """The probe of one endpoint."""

    judge: RemoteJudge
    endpoint: Endpoint
    timeout_s: float
    role: ModelRole
    responses: int = 2

    @property
    def _is_plain(self) -> bool:
        return self.judge.profile.name == _PLAIN.value

    async def run(self, *, compares: bool) -> _Fault | None:
        """Return why the endpoint cannot be used, or None."""
        bad = [_BAD, *(_WORSE[place % len(_WORSE)] for place in range(self.responses - 2))]
        first = await self._ask(_GOOD, *bad)
        if isinstance(first.result, Failure):
            return await self._fault_of(first, first.result, compares=compares)
        if not compares:
            return None
        second = await self._ask(*bad, _GOOD)
        if isinstance(second.result, Failure):
            return await self._fault_of(second, second.result, compares=compares)
        if _follows(first.result, second.result):
            return None
        if await self._ignores_responses(first):
            return self._dropping("its verdict does not follow the responses")
        last = "second" if self.responses == 2 else "last"
        said = f"{_in_words(first.result)} shown first, {_in_words(second.result)} shown {last}"
        sign = f"it does not prefer a right answer to nonsense: {said}"
        return _Fault(self._unusable(sign, _WRONG_REMEDY), is_wrong=True)

    async def _fault_of(self, answer: _ProbeAnswer, failure: Failure, *, compares: bool) -> _Fault:
        kind = failure.kind
        if kind is FailureKind.RATE_LIMITED:
            busy = f"{self.endpoint.name} is busy (429): it could not be tested"
            return _Fault(Message.of(busy), is_busy=True)
        # A model that sees only the question answers it.
        if compares and await self._ignores_responses(answer):
            return self._dropping(
                "it gives no verdict, and longer responses make its prompt no longer"
            )
        is_down = kind.is_transient and kind not in _NOT_DOWN
        remedy = LOADING if answer.overloaded else self._remedy(failure, answer.refused, compares)
        # A refusal that names a field of the request is not about the model.
        is_about_model = answer.refused is None and not answer.overloaded
        if kind in (FailureKind.REFUSED, FailureKind.HTTP) and is_about_model:
            remedy = Message.of(await self._other_models(), remedy)
        shown = f"shown {self.responses} responses: " if self.responses > 2 else ""
        said = f"{kind}: {failure.detail}"
        is_unread = kind.is_parse_failure or kind is FailureKind.TRUNCATED
        unread = said if is_unread else None
        return _Fault(self._unusable(shown + said, remedy), is_down=is_down, unread=unread)

    async def _ask(self, *responses: str) -> _ProbeAnswer:
        """Ask about some answers and parse the reply, with one retry of what may pass."""
        judge = self.judge
        request = judge.prepare(sample_prompt(judge.profile, _CONVERSATION, *responses), 0)
        answer = _ProbeAnswer(Failure(FailureKind.NO_VERDICT, "not asked"))
        for _ in range(_TRIES):
            try:
                reply = last = await judge.try_at(self.endpoint, request, self.timeout_s)
                second = judge.second_turn(request, reply)
                if isinstance(second, JudgeRequest):
                    last = await self.endpoint.client.complete(second.body, self.timeout_s)
            except CallError as error:
                answer = _ProbeAnswer(
                    error.failure, refused=error.refused, overloaded=error.overloaded
                )
                if not error.may_pass or error.failure.kind in _NOT_RETRIED:
                    break
                await asyncio.sleep(_PAUSE_S)
                continue
            result = second if isinstance(second, Failure) else judge.read(last, request)
            answer = _ProbeAnswer(result, reply.prompt_tokens)
            if not isinstance(result, Failure):
                break
        return answer

    async def _ignores_responses(self, short: _ProbeAnswer) -> bool:
        """Whether longer responses make no longer prompt, by the server's own count."""
        # The plain profile has them in the user's message, which no template drops.
        if short.prompt_tokens is None or self._is_plain:
            return False
        longer = await self._ask(20 * (_GOOD + " "), _BAD)
        return longer.prompt_tokens is not None and longer.prompt_tokens <= short.prompt_tokens

    async def _other_models(self) -> str:
        """Return a sentence with the models of the endpoint; empty if the judge is among them."""
        try:
            offered = await self.endpoint.client.list_models(self.timeout_s)
        except CallError:
            return ""
        return "" if self.judge.model in offered else f"It serves {', '.join(offered) or 'none'}. "

    def _remedy(self, failure: Failure, refused: RefusedField | None, compares: bool) -> Message:
        if failure.too_long is not None or _names_reply_limit(failure):
            return _TOO_LONG_REMEDY
        if (
            failure.kind in (FailureKind.REFUSED, FailureKind.NO_VERDICT)
            and _LOGPROBS_WORD in failure.detail
        ):
            return _LOGPROBS_REMEDY
        if (
            refused is not None
            and refused.name in self.judge.changeable_fields
            and self.role is JUDGE
        ):
            without = SettingRef("request_field", f"{refused.name}=")
            return Message.of("Leave the field out with ", without, ", or give it another value.")
        client = self.endpoint.client
        if failure.kind is FailureKind.AUTH:
            return remedy_for_key(was_sent=client.sends_key)
        if client.proxy is not None and failure.kind is FailureKind.CONNECTION:
            return Message.of(
                f"Calls go through the proxy {client.proxy} of the environment: is it right? If "
                f"they need none, add {client.host} to NO_PROXY."
            )
        if failure.kind.is_parse_failure and self.responses > 2:
            return Message.of(LIST_REMEDY, " ", _SKIPS)
        other = _OTHER_REMEDY
        if failure.kind.is_parse_failure:
            other = _UNREAD_PLAIN_REMEDY if self._is_plain else _UNREAD_REMEDY
            other = other if compares else _UNREAD_GRADER_REMEDY
        return _REMEDIES.get(failure.kind, other)

    def _dropping(self, sign: str) -> _Fault:
        what = f"{sign}: its chat template seems to drop them"
        return _Fault(self._unusable(what, Message.of("Try ", _PLAIN, ".")))

    def _unusable(self, what: str, remedy: Message) -> Message:
        tried = f"tried {self.endpoint.name} with the model {self.judge.model!r}"
        said = what if what.endswith("...") else what.rstrip(".")
        shown = remedy.with_names(self.role.settings)
        return Message.of(f"the {self.role.title} cannot be used: {tried}: {said}. ", shown)


def _names_reply_limit(failure: Failure) -> bool:
    """Whether a refusal is about the value of the reply's limit, and not the field."""
    if failure.kind is not FailureKind.REFUSED or "supported" in failure.detail:
        return False
    return any(name in failure.detail for name in LIMITS)


def _in_words(judgment: Judgment) -> str:
    if isinstance(judgment, Verdict):
        return f"scores {judgment.score_1:g} and {judgment.score_2:g}, ranking {judgment.ranking:g}"
    return (
        "grades " + ", ".join(f"{value:g}" for value in judgment.values)
        if isinstance(judgment, Grades)
        else "text"
    )


def _follows(first: Judgment, second: Judgment) -> bool:
    """Whether both judgments prefer the good answer, which is shown first only in the first of
    them.
    """
    if isinstance(first, Verdict) and isinstance(second, Verdict):
        return preference(first) > 0 > preference(second)
    if not isinstance(first, Grades) or not isinstance(second, Grades):
        return False
    if len(first.values) == 1:
        return first.values[0] > second.values[0]
    return first.values[0] > max(first.values[1:]) and second.values[-1] > max(second.values[:-1])
