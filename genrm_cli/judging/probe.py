"""Probe a judge before the first paid call: a good and a bad answer, in both orders."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from genrm_cli.errors import JudgeError
from genrm_cli.judging.client import CallError
from genrm_cli.judging.pacing import clock
from genrm_cli.judging.pacing.endpoint import Endpoint
from genrm_cli.judging.pacing.pool import OnEvent
from genrm_cli.judging.profiles.profile import ChatProfile, GradingProfile, render_messages
from genrm_cli.judging.remote import RemoteJudge
from genrm_cli.judging.requests import ChatPrompt, JudgeRequest, ListwisePrompt, PairwisePrompt, Prompt, Reply
from genrm_cli.verdicts import Failure, FailureKind, Grades, Judgment, Verdict, preference

_TRIES = 2
_PLAIN = "--profile nemotron-plain"
_USUAL_ROLES = {"system", "user", "assistant"}

_CONVERSATION = (("user", "Which planet of the solar system is closest to the sun?"),)
_GOOD = "Mercury is the planet closest to the sun. It goes round it in 88 days."
_BAD = "I like turtles."

_REMEDIES = {
    FailureKind.CONNECTION: "Is the {part} running? Check {base_url} (it usually ends in /v1).",
    FailureKind.TIMEOUT: "It accepts connections but does not answer; look at its log, or pass --no-probe.",
    FailureKind.AUTH: "Export its key as GENRM_API_KEY, or name another variable with {api_key_env}.",
    FailureKind.REFUSED: f"Check {{model}}; if it does not know the judge's roles (SGLang), try {_PLAIN}.",
    FailureKind.BAD_BODY: "Something else answers at this address; check {base_url} (it usually ends in /v1).",
    FailureKind.TRUNCATED: "Give it room with {max_tokens}.",
    FailureKind.EMPTY: "Give it room with {max_tokens}, or check its reasoning parser.",
}
_OTHER_REMEDY = "Check {base_url} (it usually ends in /v1) and {model}; --no-probe skips this test."
_TOO_LONG_REMEDY = "Lower {max_tokens}, or serve the {part} with a longer context."
_LOGPROBS_WORD = "logprobs"  # vLLM's for a number above its limit, and ours for a reply without them
_LOGPROBS_REMEDY = "This profile needs the log probabilities of the 20 likeliest tokens (vLLM: --max-logprobs 20)."
_UNREAD_REMEDY = f"The profile may not fit this judge; try {_PLAIN}. --no-probe skips this test."
_INSANE_REMEDY = (
    "Its rewards would be meaningless: try another --profile or a stronger judge. --no-probe uses it anyway."
)
_WITHOUT_ROLES = {
    _REMEDIES[FailureKind.REFUSED]: "Check {model}, and whether the server supports all fields of the request.",
    _UNREAD_REMEDY: "The profile may not fit this judge; `genrm profiles` lists others. --no-probe skips this test.",
}


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A verdict on the good and the bad answer, in this order."""

    endpoint: Endpoint
    reply: Reply
    verdict: Verdict


async def probe_judge(
    judge: RemoteJudge,
    endpoints: Sequence[Endpoint],
    timeout_s: float,
    *,
    compares: bool = True,
    name: str | None = None,
    known: KnownAnswer | None = None,
    on_event: OnEvent = lambda event, fields: None,
) -> str | None:
    """Ask the judge about a good and a bad answer, and again with the two swapped, on every endpoint.

    Checks that each endpoint answers, that the reply contains a verdict, and that the verdict follows the swap. If it
    does not, the token count of a longer prompt shows whether the responses reach the model at all.

    An endpoint that is down is marked unhealthy while others work; the run tries it again later. An endpoint that
    answers wrongly ends the run, because it would keep doing so.

    Args:
        judge: the judge, with its profile.
        endpoints: its endpoints.
        timeout_s: timeout of one call; the `probing` event reports it, because a slow judge may need all of it.
        compares: whether the better answer must get the better verdict; False for a grader of something else.
        name: its name in errors, for example that of a component; None to name only its model.
        known: an answer of this judge to the first request, which is not made again.
        on_event: called when the probe begins.

    Returns:
        A warning about endpoints that are down; None if all is well.

    Raises:
        JudgeError: an endpoint answers wrongly, or all are down. The message says what was tried and what to change.
    """
    names = [endpoint.name for endpoint in endpoints]
    on_event("probing", {"endpoints": names, "model": judge.model, "call_timeout_s": timeout_s})
    async with asyncio.TaskGroup() as tasks:
        probes = [
            tasks.create_task(_probe_endpoint(judge, endpoint, timeout_s, compares, known)) for endpoint in endpoints
        ]
    results = [probe.result() for probe in probes]
    all_down = all(isinstance(result, _DownError) for result in results)
    for endpoint, result in zip(endpoints, results, strict=True):
        if isinstance(result, JudgeError) and (all_down or not isinstance(result, _DownError)):
            raise result if name is None else JudgeError(f"{name}: {result}")
        if isinstance(result, _DownError):
            endpoint.mark_unhealthy(clock.now_s())
    return "; ".join(str(result) for result in results if result is not None) or None


async def answer_to_roles(
    judge: RemoteJudge, endpoints: Sequence[Endpoint], timeout_s: float, on_event: OnEvent
) -> KnownAnswer | None:
    """Show a judge a good and a bad answer with the GenRM roles, on the first endpoint that answers.

    Returns:
        The answer if it is a verdict for the good one; None if the profile does not fit the judge, or no endpoint
        answers.
    """
    names = [endpoint.name for endpoint in endpoints]
    on_event("probing", {"endpoints": names, "model": judge.model, "call_timeout_s": timeout_s})
    question = judge.prepare(_shown(judge, _GOOD, _BAD), 0)
    for endpoint in endpoints:
        try:
            reply = await endpoint.client.complete(question.body, timeout_s)
        except CallError as error:
            if error.failure.kind.is_transient:
                continue
            return None
        verdict = judge.read(reply, question)
        fits = isinstance(verdict, Verdict) and preference(verdict) > 0
        return KnownAnswer(endpoint, reply, verdict) if fits and isinstance(verdict, Verdict) else None
    return None


class _DownError(JudgeError):
    """An endpoint cannot be reached or fails in a way that may pass."""


class _UnreadError(JudgeError):
    """A reply contains no verdict."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


async def _probe_endpoint(
    judge: RemoteJudge, endpoint: Endpoint, timeout_s: float, compares: bool, known: KnownAnswer | None
) -> JudgeError | None:
    try:
        if not compares:
            await _ask(judge, endpoint, _shown(judge, _GOOD, _BAD), timeout_s)
            return None
        await _compare_both_orders(judge, endpoint, timeout_s, known)
    except JudgeError as error:
        return error
    return None


async def _compare_both_orders(
    judge: RemoteJudge, endpoint: Endpoint, timeout_s: float, known: KnownAnswer | None
) -> None:
    try:
        if known is not None and known.endpoint is endpoint:
            first: tuple[Reply, Judgment] | None = known.reply, known.verdict
        else:
            first = await _ask(judge, endpoint, _shown(judge, _GOOD, _BAD), timeout_s)
        second = await _ask(judge, endpoint, _shown(judge, _BAD, _GOOD), timeout_s)
    except _UnreadError as error:
        # A model that sees only the question answers it.
        if await _prompt_grows(judge, endpoint, error.reply, timeout_s) is False:
            raise _dropping(
                judge, endpoint, "it gives no verdict, and longer responses make its prompt no longer"
            ) from error
        raise
    if first is None or second is None:
        return  # busy: the run will wait for it
    if _follows(first[1], second[1]):
        return
    if await _prompt_grows(judge, endpoint, first[0], timeout_s):
        said = f"{_in_words(first[1])} shown first, {_in_words(second[1])} shown second"
        raise _unusable(judge, endpoint, f"it does not prefer a right answer to nonsense: {said}", _INSANE_REMEDY)
    raise _dropping(judge, endpoint, "its verdict does not follow the responses")


def _in_words(judgment: Judgment) -> str:
    """Return the numbers of a verdict or of grades, in the order shown."""
    if isinstance(judgment, Verdict):
        return f"scores {judgment.score_1:g} and {judgment.score_2:g}, ranking {judgment.ranking:g}"
    return "grades " + ", ".join(f"{value:g}" for value in judgment.values) if isinstance(judgment, Grades) else "text"


def _dropping(judge: RemoteJudge, endpoint: Endpoint, sign: str) -> JudgeError:
    return _unusable(judge, endpoint, f"{sign}: its chat template seems to drop them", f"Try {_PLAIN}.")


def _shown(judge: RemoteJudge, one: str, other: str) -> Prompt:
    """Return the prompt for two answers; one of them, or the question alone, for a profile that takes no pair."""
    if isinstance(judge.profile, ChatProfile):
        return ChatPrompt(_CONVERSATION)
    if isinstance(judge.profile, GradingProfile):
        return ListwisePrompt(_CONVERSATION, (one, other) if judge.profile.whole_group else (one,))
    return PairwisePrompt(_CONVERSATION, one, other)


def _follows(first: Judgment, second: Judgment) -> bool:
    """Whether both judgments prefer the good answer, which is shown first only in the first of them."""
    if isinstance(first, Verdict) and isinstance(second, Verdict):
        return preference(first) > 0 > preference(second)
    if isinstance(first, Grades) and isinstance(second, Grades):
        if len(first.values) == 1:
            return first.values[0] > second.values[0]
        return first.values[0] > first.values[1] and second.values[0] < second.values[1]
    return False


async def _ask(
    judge: RemoteJudge, endpoint: Endpoint, shown: Prompt, timeout_s: float
) -> tuple[Reply, Judgment] | None:
    """Ask once and parse the reply, with one retry of a transient failure; None if the endpoint is busy.

    With two turns, return the first reply: its prompt contains the responses, but no words of the model.
    """
    question = judge.prepare(shown, 0)
    failure = Failure(FailureKind.NO_VERDICT, "not asked")
    unread: Reply | None = None
    for tries_left in reversed(range(_TRIES)):
        try:
            reply = last = await endpoint.client.complete(question.body, timeout_s)
            second = judge.second_turn(question, reply)
            if isinstance(second, JudgeRequest):
                last = await endpoint.client.complete(second.body, timeout_s)
        except CallError as error:
            failure, unread = error.failure, None
            if failure.kind == FailureKind.RATE_LIMITED:
                return None
            if not (tries_left and error.may_pass) or failure.kind in (FailureKind.AUTH, FailureKind.TIMEOUT):
                break
            await asyncio.sleep(0.5)
            continue
        result = second if isinstance(second, Failure) else judge.read(last, question)
        if not isinstance(result, Failure):
            return reply, result
        failure, unread = result, reply
    remedy = _remedy(judge, endpoint, failure, question)
    unusable = _unusable(judge, endpoint, f"{failure.kind}: {failure.detail}", remedy)
    if unread is not None:
        raise _UnreadError(str(unusable), unread)
    # A wrong key or URL is for the user to correct, although a run would wait for it.
    passes = failure.kind.is_transient and failure.kind not in (FailureKind.AUTH, FailureKind.BAD_BODY)
    raise _DownError(str(unusable)) if passes else unusable


def _remedy(judge: RemoteJudge, endpoint: Endpoint, failure: Failure, question: JudgeRequest) -> str:
    if failure.kind == FailureKind.CONNECTION and endpoint.name.startswith("https:"):
        return _REMEDIES[failure.kind].rstrip(".") + " and --ca-bundle."
    if failure.is_too_long:
        return _TOO_LONG_REMEDY
    if failure.kind in (FailureKind.REFUSED, FailureKind.NO_VERDICT) and _LOGPROBS_WORD in failure.detail:
        return _LOGPROBS_REMEDY
    remedy = _REMEDIES.get(failure.kind, _UNREAD_REMEDY if failure.kind.is_parse_failure else _OTHER_REMEDY)
    roles = {message["role"] for message in render_messages(judge.profile, question.shown)}
    # If the profile is already plain, another plain one does not help.
    return remedy if roles - _USUAL_ROLES else _WITHOUT_ROLES.get(remedy, remedy)


async def _prompt_grows(judge: RemoteJudge, endpoint: Endpoint, short: Reply, timeout_s: float) -> bool | None:
    """Whether longer responses make a longer prompt, by the server's own count; None if it reports no count."""
    try:
        asked = await _ask(judge, endpoint, _shown(judge, 20 * (_GOOD + " "), _BAD), timeout_s)
        longer = asked and asked[0]
    except _UnreadError as error:
        longer = error.reply
    if longer is None or longer.prompt_tokens is None or short.prompt_tokens is None:
        return None
    return longer.prompt_tokens > short.prompt_tokens


def _unusable(judge: RemoteJudge, endpoint: Endpoint, what: str, remedy: str) -> JudgeError:
    tried = f"tried {endpoint.name} with the model {judge.model!r}"
    said = what if what.endswith("...") else what.rstrip(".")
    # Only the remedy is a template: the rest may hold words of a server.
    return JudgeError(f"the {judge.naming.part} cannot be used: {tried}: {said}. {judge.naming.fill(remedy)}")
