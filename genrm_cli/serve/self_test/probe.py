"""The client of the self-test: every reply is checked, and every check is told."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from genrm_cli.errors import GenrmError, JudgeError, UsageError

Json = dict[str, Any]
OnCheck = Callable[[str], None]

REPLY_LIMIT_S = 900.0
_BUSY = (429, 503)


class Probe:
    """Sends requests to a server and checks what comes back.

    Attributes:
        run_id: makes the names of this run's groups new to the server.
    """

    def __init__(self, client: httpx.AsyncClient, run_id: str, on_check: OnCheck) -> None:
        self.run_id = run_id
        self._client = client
        self._on_check = on_check

    async def get(self, path: str) -> Any:
        """Get JSON."""
        return await self._send("GET", path, None)

    async def post(self, path: str, body: Json) -> Any:
        """Send JSON, and return the JSON of the reply.

        Raises:
            UsageError: nobody answers, or the token is refused.
            JudgeError: the server has no reward.
            GenrmError: it answers with another error.
        """
        return await self._send("POST", path, body)

    async def post_all(self, requests: Sequence[tuple[str, Json]]) -> list[Any]:
        """Send requests at once, and return their replies in order."""
        return list(await asyncio.gather(*(self.post(path, body) for path, body in requests)))

    async def _send(self, method: str, path: str, body: Json | None) -> Any:
        try:
            reply = await self._client.request(method, path, content=None if body is None else json.dumps(body))
        except httpx.TransportError as error:
            raise self._unanswered(f"{method} {path}", error) from error
        said = f"{method} {path}: {reply.status_code} {reply.text[:300]}"
        if reply.status_code in (401, 403):
            raise UsageError(f"{said}. Set GENRM_SERVE_TOKEN to the token of the server.")
        if reply.status_code in _BUSY:
            raise JudgeError(said)
        if not reply.is_success:
            raise GenrmError(said)
        try:
            return reply.json()
        except ValueError as error:
            raise GenrmError(f"{said}: not JSON") from error

    async def check_token(self) -> None:
        """Check that the server refuses a request with another token.

        Raises:
            UsageError: nobody answers.
            GenrmError: it takes the request.
        """
        try:
            reply = await self._client.post("/v1/groups", headers={"Authorization": "Bearer another"})
        except httpx.TransportError as error:
            raise self._unanswered("POST /v1/groups", error) from error
        self.check("a refusal of another token", reply.status_code == 401, reply.status_code)

    def _unanswered(self, request: str, error: Exception) -> UsageError:
        return UsageError(f"{request} at {self._client.base_url}: no answer ({type(error).__name__}). Does it run?")

    def check(self, claim: str, holds: bool, found: object) -> None:
        """Tell a claim that holds.

        Raises:
            GenrmError: it does not.
        """
        if not holds:
            raise GenrmError(f"expected {claim}; got {json.dumps(found)[:300]}")
        self._on_check(claim)

    def check_numbers(self, name: str, numbers: object, count: int, reasons: Sequence[object] = ()) -> None:
        """Check that there is a number for each response; `reasons` say why one is missing.

        Raises:
            JudgeError: one is null.
            GenrmError: they are not a list of so many numbers.
        """
        given = numbers if isinstance(numbers, list) else []
        if None in given:
            reason = next((reason for reason in reasons if reason), "the server does not say why")
            raise JudgeError(f"{name}: {given.count(None)} of {len(given)} responses have none: {reason}")
        known = [number for number in given if isinstance(number, int | float) and not isinstance(number, bool)]
        shown = ", ".join(f"{number:.2f}" for number in known)
        self.check(f"{name} of {count} responses: {shown}", len(known) == len(given) == count, numbers)
