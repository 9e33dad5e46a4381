"""Who may ask, and how much they may send."""

import hmac
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from genrm_cli.serve.http.replies import error_response


class TooLargeError(Exception):
    """A body is larger than the server accepts."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The limits of one server.

    Attributes:
        max_body: bytes of a request's body.
        token: that requests must carry; None if anybody may ask.
    """

    max_body: int
    token: str | None = field(default=None, repr=False)

    def refusal(self, request: Request) -> Response | None:
        """Return what a request without the token gets; None if it may pass."""
        if self.token is None:
            return None
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode()):
            return None
        response = error_response(401, "unauthorized", "the request lacks the server's bearer token")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    async def read(self, request: Request) -> bytes:
        """Read a body.

        Raises:
            TooLargeError: it is too large; what follows is not read.
        """
        declared = request.headers.get("Content-Length", "")
        if declared.isdecimal() and int(declared) > self.max_body:
            raise TooLargeError
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self.max_body:
                raise TooLargeError
        return bytes(body)

    def too_large(self) -> Response:
        """Return what a request with too large a body gets."""
        response = error_response(413, "too_large", f"the body is larger than {self.max_body} bytes (max_body)")
        response.headers["Connection"] = "close"
        return response
