"""Routing, and the limits and error replies that all applications share."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from genrm_cli.errors import GenrmError, InputError, StorageError
from genrm_cli.http_server.http_replies import JsonReply, RefusedError
from genrm_cli.json_types import Record
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.settings.file_settings import ServeSettings
from genrm_cli.storage.encoding.records import BadLineError, parse_record, render_value

# A busy server has room again as soon as a group is answered.
RETRY_AFTER_S = 5
_LATER = (429, 503)
# Any part of a path: that of Starlette excludes line breaks, which ids may contain.
register_url_convertor("any", type("_AnyConvertor", (PathConvertor,), {"regex": "(?s:.*)"})())

Answer = Callable[[Request, bytes], Awaitable[Response]]
"""Takes a request and its body; raises what `GuardedEndpoint` turns into replies."""


class TooLargeError(Exception):
    """A body is larger than the server accepts."""


@dataclass(frozen=True, slots=True)
class AccessLimits:
    """The limits of one server, and the bearer token that requests must carry; None if anyone may
    ask.
    """

    settings: ServeSettings
    token: str | None = field(default=None, repr=False)

    def refusal(self, request: Request) -> Response | None:
        """Return the reply to a request without the token; None if it may pass."""
        if self.token is None:
            return None
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode(), self.token.encode()
        ):
            return None
        response = error_response(
            401, "unauthorized", "the request lacks the server's bearer token"
        )
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    async def read(self, request: Request) -> bytes:
        """Read a body; raise `TooLargeError` before the end of one that is too large,
        `TimeoutError` for a slow one.
        """
        declared = request.headers.get("Content-Length", "")
        if declared.isdecimal() and int(declared) > self.settings.max_body:
            raise TooLargeError
        body = bytearray()
        async with asyncio.timeout(self.settings.read_timeout):
            async for part in request.stream():
                body += part
                if len(body) > self.settings.max_body:
                    raise TooLargeError
        return bytes(body)


@dataclass(frozen=True, slots=True)
class GuardedEndpoint:
    """An ASGI endpoint behind a gate, which turns errors into replies."""

    answer: Answer
    gate: AccessLimits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        response = self.gate.refusal(request) or await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            body = await self.gate.read(request)
        except TooLargeError:
            limit = f"{self.gate.settings.max_body} bytes (max_body)"
            return _last_response(413, "too_large", f"the body is larger than {limit}")
        except TimeoutError:
            limit = f"{self.gate.settings.read_timeout:g} s (read_timeout)"
            return _last_response(408, "too_slow", f"the body did not arrive within {limit}")
        except ClientDisconnect:
            return Response(status_code=400)
        try:
            return await self.answer(request, body)
        except (UnreadableRecordError, BadLineError, InputError) as error:
            return error_response(422, "unreadable", str(error))
        except RefusedError as error:
            return error_response(error.status, error.kind, str(error))
        except StorageError:  # it names files of the server
            return error_response(
                503, "unavailable", "the server cannot store results now; its log says why"
            )
        except GenrmError as error:
            return error_response(503, "unavailable", str(error))


def _last_response(status: int, kind: str, message: str) -> Response:
    """Return an error that closes the connection, as the rest of the body is not read."""
    response = error_response(status, kind, message)
    response.headers["Connection"] = "close"
    return response


def build_router(
    endpoints: Iterable[tuple[str, str, Answer]],
    open_pages: Iterable[tuple[str, Callable[[], Awaitable[JsonReply]]]],
    gate: AccessLimits,
) -> Router:
    """Return an ASGI application: a bare router, as the layers of Starlette cost memory for each
    request that waits.

    `open_pages` are paths with the contents of pages that need no token, such as health.
    """

    def showing(
        page: Callable[[], Awaitable[JsonReply]],
    ) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            del request
            return response_of(await page())

        return show

    routes = [
        Route(path, GuardedEndpoint(answer, gate), methods=[method])
        for method, path, answer in endpoints
    ]
    pages = [Route(path, showing(page), methods=["GET"]) for path, page in open_pages]
    # A redirect would name the Host that the client sent.
    return Router([*routes, *pages], redirect_slashes=False)


def response_of(reply: JsonReply) -> Response:
    """Return a reply as HTTP."""
    return Response(render_value(reply.content), reply.status, media_type="application/json")


def error_response(status: int, kind: str, message: str) -> Response:
    """Return an error as HTTP; a temporary one says when to retry."""
    response = response_of(JsonReply({"error": {"type": kind, "message": message}}, status))
    if status in _LATER:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def parse_body(body: bytes) -> Record:
    """Return a body as a JSON object, with the half surrogates that a policy may write; NaN is
    null.
    """
    return parse_record(body, keeps_halves=True)
