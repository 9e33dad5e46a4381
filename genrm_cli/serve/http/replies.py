"""Replies and errors as HTTP."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from genrm_cli.serve.shapes.call import Reply


def response_of(reply: Reply) -> Response:
    """Return a reply as HTTP."""
    return Response(orjson.dumps(reply.content), reply.status, reply.headers, "application/json")


def error_response(status: int, kind: str, message: str, retry_after_s: int | None = None) -> Response:
    """Return an error as HTTP."""
    headers: Mapping[str, str] = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    content: dict[str, Any] = {"error": {"type": kind, "message": message}}
    return response_of(Reply(content, status, headers))
