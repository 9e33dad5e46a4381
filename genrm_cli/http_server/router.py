"""Routing, and the limits and error replies that all applications share."""

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct
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

    @property
    def is_local(self) -> bool:
        """Whether the server listens on loopback."""
        return _is_loopback(self.settings.listen)

    def stranger(self, request: Request) -> Response | None:
        """Return the reply to a request of a web page; None if it may pass.

        A page that a browser of this machine shows reaches loopback, by an address of its own, too,
        that is made to point there. It then names itself, in `Origin` or in `Host`.
        """
        headers = request.headers
        origin = headers.get("Origin")
        if origin is not None and _host_in(urlsplit(origin).netloc) not in self.settings.allow_host:
            return _refused(f"requests of web pages are refused, and this one is of {origin!r}")
        host = headers.get("Host", "")
        is_known = not host or _is_loopback(host) or host == self.settings.listen
        if self.is_local and not is_known and _host_in(host) not in self.settings.allow_host:
            return _refused(f"this server is not {host!r}")
        return None

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


class GuardedEndpoint(Struct, frozen=True):
    """An ASGI endpoint behind a gate, which turns errors into replies."""

    answer: Answer
    gate: AccessLimits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        gate = self.gate
        response = _crowded(scope) or gate.stranger(request) or gate.refusal(request)
        response = response or await self._answer(request)
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
        answering = self.answer(request, body)
        del body  # it may wait for long, and keeps what it needs
        try:
            return await answering
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


def _host_in(netloc: str) -> str:
    """Return the host in `host:port`; IPv6 addresses without brackets."""
    return urlsplit(f"//{netloc}").hostname or ""


@lru_cache(maxsize=64)
def _is_loopback(netloc: str) -> bool:
    host = _host_in(netloc).removesuffix(".")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _refused(why: str) -> Response:
    return error_response(403, "forbidden", f"{why}; name a host of yours with allow_host")


def _crowded(scope: Scope) -> Response | None:
    """Return the refusal of a request on one connection too many; None if it may pass."""
    if not scope.get("state", {}).get("is_crowded"):
        return None
    return _last_response(429, "busy", "too many connections for the limit of open files")


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
            return gate.stranger(request) or response_of(await page())

        return show

    routes = [
        Route(path, GuardedEndpoint(answer, gate), methods=[method])
        for method, path, answer in endpoints
    ]
    pages = [Route(path, showing(page), methods=["GET"]) for path, page in open_pages]
    known: dict[str, list[str]] = {}
    for route in (*routes, *pages):
        known.setdefault(route.path, []).extend(sorted(route.methods or ()))
    others = [
        Route(path, error_response(405, "wrong_method", f"this path takes {' and '.join(methods)}"))
        for path, methods in known.items()
    ]
    paths = re.sub(r":\w+}", "}", ", ".join(known))
    missing = error_response(404, "unknown_path", f"there is no such path; there are {paths}")
    # A redirect would name the Host that the client sent.
    return Router([*routes, *pages, *others], redirect_slashes=False, default=missing)


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
