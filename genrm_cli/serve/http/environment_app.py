"""Route the requests of agents to their sessions, which a cookie tells apart."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from genrm_cli.episodes.counts import RoleCounts
from genrm_cli.errors import GenrmError
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.serve.http.gate import Gate, TooLargeError
from genrm_cli.serve.http.operation import metrics_route
from genrm_cli.serve.http.replies import error_response, response_of
from genrm_cli.serve.prometheus import EnvironmentCollector
from genrm_cli.serve.service import RETRY_AFTER_S
from genrm_cli.serve.sessions.gymnasium import ENDPOINTS, Handler, task_rows
from genrm_cli.serve.sessions.hosted import HostedSessions, RefusedError
from genrm_cli.serve.shapes.call import Reply
from genrm_cli.serve.shapes.fields import parse_body
from genrm_cli.storage.encoding.records import BadLineError

COOKIE = "genrm_session"


def build_environment_app(sessions: HostedSessions, roles: Mapping[str, RoleCounts], gate: Gate) -> Router:
    """Return the ASGI application of an environment; `roles` counts the calls of its models."""

    async def tasks(request: Request) -> Response:
        if (refusal := gate.refusal(request)) is not None:
            return refusal
        lines = b"".join([orjson.dumps(row) + b"\n" for row in await task_rows(sessions)])
        return Response(lines, media_type="application/x-ndjson")

    async def health(request: Request) -> Response:
        del request
        return response_of(Reply({"status": "ok", "sessions": len(sessions)}))

    async def reverify_mode(request: Request) -> Response:
        del request
        return response_of(Reply("unsupported"))  # a reward belongs to its session

    posts = [Route(path, _Endpoint(handle, sessions, gate), methods=["POST"]) for path, handle in ENDPOINTS.items()]
    gets = {"/tasks": tasks, "/": health, "/healthz": health, "/readyz": health, "/reverify_mode": reverify_mode}
    metrics = metrics_route(EnvironmentCollector(sessions, roles), gate)
    return Router([*posts, *(Route(path, answer, methods=["GET"]) for path, answer in gets.items()), metrics])


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """One endpoint."""

    handle: Handler
    sessions: HostedSessions
    gate: Gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = self.gate.refusal(request) or await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        id_ = request.cookies.get(COOKIE) or secrets.token_urlsafe(24)
        try:
            body = await self.gate.read(request)
            row = parse_body(body) if body.strip() else {}
            response = response_of(await self.handle(self.sessions, id_, row))
        except TooLargeError:
            return self.gate.too_large()
        except ClientDisconnect:
            return Response(status_code=400)
        except (UnreadableRecordError, BadLineError) as error:
            return error_response(422, "unreadable", str(error))
        except RefusedError as error:
            retry_after_s = RETRY_AFTER_S if error.status in (429, 503) else None
            return error_response(error.status, error.kind, str(error), retry_after_s)
        except GenrmError as error:
            return error_response(503, "unavailable", str(error), RETRY_AFTER_S)
        response.set_cookie(COOKIE, id_, httponly=True, samesite="lax")
        return response
