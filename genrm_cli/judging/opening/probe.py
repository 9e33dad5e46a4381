"""Probe a judge before the first paid call: a good and a bad answer, in both orders."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from genrm_cli.errors import JudgeError, Message, SettingRef, naming
from genrm_cli.judging.client import CallError
from genrm_cli.judging.pacing.endpoint import Endpoint, loop_time_s
from genrm_cli.judging.pacing.judge_events import ProbingEvent
from genrm_cli.judging.profiles.profile import sample_prompt
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.request_form import RefusedField
from genrm_cli.judging.requests import JudgeRequest, Reply
from genrm_cli.metrics.event import OnEvent, ignore_event
from genrm_cli.verdicts import Failure, FailureKind, Grades, Judgment, Verdict, preference

_TRIES = 2  # one connection that fails must not end a run before it begins
_PAUSE_S = 0.5

_CONVERSATION = (("user", "Which planet of the solar system is closest to the sun?"),)
_GOOD = "Mercury is the planet closest to the sun. It goes round it in 88 days."
_BAD = "I like turtles."

_PLAIN = SettingRef("profile", "nemotron-plain")
_ADDRESS = naming("Check $base_url (it usually ends in /v1)")
_SKIPS = naming("$probe skips this test.", probe=False)
_REMEDIES = {
    FailureKind.CONNECTION: Message.of(
        "Is the server running? ",
        _ADDRESS,
        naming(". If its certificate is private, set $ca_bundle."),
    ),
    FailureKind.TIMEOUT: naming(
        "It accepts connections but does not answer; look at its log, or pass $probe.", probe=False
    ),
    FailureKind.AUTH: naming(
        "Export its key as GENRM_API_KEY, or name another variable with $api_key_env."
    ),
    FailureKind.REFUSED: naming(
        "Check $model; if the server does not know a role of the request (SGLang), try $profile, "
        "or, if it does not "
        "take a field, change the field with $request_field.",
        profile="nemotron-plain",
    ),
    FailureKind.BAD_BODY: Message.of("Something else answers at this address. ", _ADDRESS, "."),
    FailureKind.TRUNCATED: naming("Give it room with $max_reply_tokens."),
    FailureKind.EMPTY: naming(
        "Give it room with $max_reply_tokens, or check its reasoning parser."
    ),
}
_OTHER_REMEDY = Message.of(_ADDRESS, naming(" and $model; "), _SKIPS)
_TOO_LONG_REMEDY = naming("Lower $max_reply_tokens, or serve the model with a longer context.")
_LOGPROBS_WORD = (
    "logprobs"  # vLLM's for a number above its limit, and ours for a reply without them
)
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
_INSANE_REMEDY = naming(
    "Its rewards would be meaningless: try another $profile or a stronger judge. $probe uses it "
    "anyway.",
    probe=False,
)


@dataclass(frozen=True, slots=True)
class ModelRole:
    """The title of a model in messages, and the names of its settings where they differ from a
    judge's.
    """

    title: str = "judge"
    settings: Mapping[str, str] = field(default_factory=dict)


JUDGE = ModelRole()


ProbeAnswer = tuple[Endpoint, Reply, Verdict]
"""A verdict on the good and the bad answer, in this order."""


async def probe_judge(
    judge: RemoteJudge,
    timeout_s: float,
    *,
    compares: bool = True,
    role: ModelRole = JUDGE,
    name: str | None = None,
    known: ProbeAnswer | None = None,
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
        name: its name in errors, for example that of a component; None to name only its model.
        known: this judge's answer to the first request, which is then skipped.
    """
    _announce(judge, timeout_s, on_event)
    endpoints = judge.pool.endpoints
    probes = (_Probe(judge, endpoint, timeout_s, role) for endpoint in endpoints)
    results = await asyncio.gather(*(probe.run(known, compares) for probe in probes))
    all_down = all(isinstance(result, _DownError) for result in results)
    warnings: list[Message] = []
    for endpoint, result in zip(endpoints, results, strict=True):
        if result is None:
            continue
        if all_down or not isinstance(result, _DownError | _JudgeBusyError):
            raise result if name is None else JudgeError(f"{name}: ", result.message)
        warnings.append(result.message)
        if isinstance(result, _DownError):
            endpoint.mark_unhealthy(loop_time_s())
    return warnings


async def answer_to_roles(
    judge: RemoteJudge, timeout_s: float, on_event: OnEvent
) -> ProbeAnswer | None:
    """Show a judge a good and a bad answer with the GenRM roles, on the first endpoint that
    answers.

    None if it does not prefer the good answer, the profile does not fit the judge, or no endpoint
    answers."""
    _announce(judge, timeout_s, on_event)
    request = judge.prepare(sample_prompt(judge.profile, _CONVERSATION, _GOOD, _BAD), 0)
    for endpoint in judge.pool.endpoints:
        try:
            reply = await judge.try_at(endpoint, request, timeout_s)
        except CallError as error:
            if error.failure.kind.is_transient:
                continue
            return None
        verdict = judge.read(reply, request)
        return (
            (endpoint, reply, verdict)
            if isinstance(verdict, Verdict) and preference(verdict) > 0
            else None
        )
    return None


def _announce(judge: RemoteJudge, timeout_s: float, on_event: OnEvent) -> None:
    names = [endpoint.name for endpoint in judge.pool.endpoints]
    on_event(ProbingEvent(names, judge.model, timeout_s))


class _DownError(JudgeError):
    """An endpoint cannot be reached or fails in a way that may pass."""


class _JudgeBusyError(JudgeError):
    """An endpoint refuses for lack of capacity. The run will wait for it."""


class _UnreadError(JudgeError):
    """A reply contains no verdict."""

    def __init__(self, message: Message, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class _Probe:
    """The probe of one endpoint."""

    judge: RemoteJudge
    endpoint: Endpoint
    timeout_s: float
    role: ModelRole

    async def run(self, known: ProbeAnswer | None, compares: bool) -> JudgeError | None:
        """Return why the endpoint cannot be used, or None."""
        try:
            if compares:
                await self._compare_both_orders(known)
            else:
                await self._ask(_GOOD, _BAD)
        except JudgeError as error:
            return error
        return None

    async def _compare_both_orders(self, known: ProbeAnswer | None) -> None:
        try:
            is_known = known is not None and known[0] is self.endpoint
            first = known[1:] if known is not None and is_known else await self._ask(_GOOD, _BAD)
            second = await self._ask(_BAD, _GOOD)
        except _UnreadError as error:
            # A model that sees only the question answers it.
            if await self._prompt_grows(error.reply) is False:
                raise self._dropping(
                    "it gives no verdict, and longer responses make its prompt no longer"
                ) from error
            raise
        if first is None or second is None:
            raise _JudgeBusyError(f"{self.endpoint.name} is busy (429): it could not be tested")
        if _follows(first[1], second[1]):
            return
        if await self._prompt_grows(first[0]):
            said = f"{_in_words(first[1])} shown first, {_in_words(second[1])} shown second"
            sign = f"it does not prefer a right answer to nonsense: {said}"
            raise JudgeError(self._unusable(sign, _INSANE_REMEDY))
        raise self._dropping("its verdict does not follow the responses")

    async def _ask(self, one: str, other: str) -> tuple[Reply, Judgment] | None:
        """Ask about two answers and parse the reply, with one retry of a transient failure; None if
        it is busy.

        With two turns, return the first reply: its prompt contains the responses, but no words of
        the model."""
        judge = self.judge
        endpoint = self.endpoint
        request = judge.prepare(sample_prompt(judge.profile, _CONVERSATION, one, other), 0)
        failure = Failure(FailureKind.NO_VERDICT, "not asked")
        unread: Reply | None = None
        refused: RefusedField | None = None
        for tries_left in reversed(range(_TRIES)):
            try:
                reply = last = await judge.try_at(endpoint, request, self.timeout_s)
                second = judge.second_turn(request, reply)
                if isinstance(second, JudgeRequest):
                    last = await endpoint.client.complete(second.body, self.timeout_s)
            except CallError as error:
                failure = error.failure
                unread = None
                refused = error.refused
                if failure.kind == FailureKind.RATE_LIMITED:
                    return None
                if not (tries_left and error.may_pass) or failure.kind in (
                    FailureKind.AUTH,
                    FailureKind.TIMEOUT,
                ):
                    break
                await asyncio.sleep(_PAUSE_S)
                continue
            result = second if isinstance(second, Failure) else judge.read(last, request)
            if not isinstance(result, Failure):
                return reply, result
            failure = result
            unread = reply
        unusable = self._unusable(
            f"{failure.kind}: {failure.detail}", self._remedy(failure, refused)
        )
        if unread is not None:
            raise _UnreadError(unusable, unread)
        # The user must correct a wrong key or URL, although a run would wait for it.
        passes = failure.kind.is_transient and failure.kind not in (
            FailureKind.AUTH,
            FailureKind.BAD_BODY,
        )
        raise _DownError(unusable) if passes else JudgeError(unusable)

    async def _prompt_grows(self, short: Reply) -> bool | None:
        """Whether longer responses make a longer prompt, by the server's own count; None if it
        reports no count.
        """
        try:
            asked = await self._ask(20 * (_GOOD + " "), _BAD)
            longer = asked and asked[0]
        except _UnreadError as error:
            longer = error.reply
        if longer is None or longer.prompt_tokens is None or short.prompt_tokens is None:
            return None
        return longer.prompt_tokens > short.prompt_tokens

    def _remedy(self, failure: Failure, refused: RefusedField | None) -> Message:
        if failure.is_too_long:
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
        if not failure.kind.is_parse_failure:
            return _REMEDIES.get(failure.kind, _OTHER_REMEDY)
        is_plain = self.judge.profile.name == _PLAIN.value
        return _REMEDIES.get(failure.kind, _UNREAD_PLAIN_REMEDY if is_plain else _UNREAD_REMEDY)

    def _dropping(self, sign: str) -> JudgeError:
        what = f"{sign}: its chat template seems to drop them"
        return JudgeError(self._unusable(what, Message.of("Try ", _PLAIN, ".")))

    def _unusable(self, what: str, remedy: Message) -> Message:
        tried = f"tried {self.endpoint.name} with the model {self.judge.model!r}"
        said = what if what.endswith("...") else what.rstrip(".")
        shown = remedy.with_names(self.role.settings)
        return Message.of(f"the {self.role.title} cannot be used: {tried}: {said}. ", shown)


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
    return first.values[0] > first.values[1] and second.values[0] < second.values[1]
