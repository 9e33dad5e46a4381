"""Try a judge with one small call before anything is paid for."""

import asyncio

from genrm_cli.errors import JudgeError
from genrm_cli.judging.client import CallError, JudgeClient
from genrm_cli.judging.verdict import FailureKind

_TRIES = 2
_TIMEOUT_S = 30.0

_REMEDIES = {
    FailureKind.CONNECTION: "Is the judge running? Check --base-url (it usually ends in /v1) and --ca-bundle.",
    FailureKind.TIMEOUT: "It accepts connections but does not answer; look at its log, or pass --no-probe.",
    FailureKind.AUTH: "Export its key as GENRM_API_KEY, or name another variable with --api-key-env.",
    FailureKind.REFUSED: "Check --model; --no-probe skips this test.",
    FailureKind.BAD_BODY: "Something else answers there; check --base-url (it usually ends in /v1).",
}
_OTHER_REMEDY = "Check --base-url (it usually ends in /v1) and --model; --no-probe skips this test."


async def probe_judge(client: JudgeClient, base_url: str, model: str) -> None:
    """Ask for one token of an answer.

    Raises:
        JudgeError: the endpoint does not answer a chat completion; says what was tried and what to change.
    """
    body = {"model": model, "messages": [{"role": "user", "content": "Say ok."}], "max_tokens": 1}
    for tries_left in reversed(range(_TRIES)):
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await client.complete(body)
        except TimeoutError as error:
            kind, detail = FailureKind.TIMEOUT, f"no reply within {_TIMEOUT_S:g} s"
            raise _unusable(base_url, model, kind, detail) from error
        except CallError as error:
            kind, detail = error.failure.kind, error.failure.detail
            if kind == FailureKind.RATE_LIMITED:
                return  # it is there, and busy: the run will wait for it
            if tries_left and error.may_pass:
                await asyncio.sleep(0.5)
                continue
            raise _unusable(base_url, model, kind, detail) from error
        return


def _unusable(base_url: str, model: str, kind: FailureKind, detail: str) -> JudgeError:
    remedy = _REMEDIES.get(kind, _OTHER_REMEDY)
    return JudgeError(f"the judge cannot be used: tried model {model!r} at {base_url}: {kind}: {detail}. {remedy}")
