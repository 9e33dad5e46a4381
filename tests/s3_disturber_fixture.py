"""The fixture `disturbed_s3`: the S3 server of the session behind a proxy that disturbs what a test
says.
"""

import contextlib
import http.client
import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

STATUS_OF_CODE = {
    "SlowDown": 503,
    "ServiceUnavailable": 503,
    "InternalError": 500,
    "NotImplemented": 501,
    "ExpiredToken": 400,
    "RequestTimeout": 400,
    "AccessDenied": 403,
    "NoSuchKey": 404,
    "PreconditionFailed": 412,
    "ConditionalRequestConflict": 409,
}
ONE_HOP_HEADERS = ("connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection")
BACKEND_LIMIT_S = 60


@dataclass(slots=True)
class Rule:
    """Which requests are disturbed, and how; disturbances of one rule come together.

    Attributes:
        method: None for all.
        key_contains: a part of the path without its escapes, so of `/bucket/key`.
        query: parameters with the values they must have; None for a value: just be there.
        after: how many matching requests pass undisturbed first.
        times: how many it disturbs then; -1 for all.
        share: the share of those that it disturbs, drawn at random under `seed`.
        answer: an error of S3 instead of the backend's reply: `code`, and `status` where the usual
            one does not do; `pass_on` true lets the backend do its work before, and
            `instead_of` is the only status of the backend's reply that it replaces.
        drop: close the connection "before" the backend hears of the request, "after" it did its
            work, or "halfway" through the body of its reply.
        gate: wait first until it is set.
        strip: headers of the request, lower case, that the backend does not see.
        replace_after: new content of the object, put at the backend when it gave its reply and
            before the client sees that.
    """

    method: str | None = None
    key_contains: str = ""
    query: dict[str, str | None] = field(default_factory=dict)
    after: int = 0
    times: int = -1
    share: float = 1.0
    seed: int = 0
    answer: dict[str, Any] | None = None
    drop: str | None = None
    gate: threading.Event | None = None
    strip: tuple[str, ...] = ()
    replace_after: bytes | None = None
    matched: int = 0
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def is_due(self, request: "Request", query: dict[str, str]) -> bool:
        """Say whether it acts on such a request, which it counts."""
        if self.method not in (None, request.method) or self.key_contains not in request.path:
            return False
        if not all(
            name in query and value in (None, query[name]) for name, value in self.query.items()
        ):
            return False
        turn = self.matched - self.after
        self.matched += 1
        return (
            turn >= 0 and (self.times < 0 or turn < self.times) and self.dice.random() < self.share
        )


class Reply(NamedTuple):
    """What goes back to the client, or came from the backend."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Request(NamedTuple):
    """What was asked: the path is `/bucket/key`, the names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]


class DisturbedS3(ThreadingHTTPServer):
    """An S3 endpoint that works as the one behind it, until rules are given.

    Attributes:
        url: what a user would set as AWS_ENDPOINT_URL.
    """

    daemon_threads = True
    request_queue_size = (
        256  # with the usual 5 a burst of connections waits a second for its second try
    )

    def __init__(self, backend: str) -> None:
        super().__init__(("127.0.0.1", 0), partial(Handler, backend, self))
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._arrived: list[Request] = []

    def rule(self, **fields: Any) -> None:
        """Add a rule (fields of `Rule`)."""
        with self._lock:
            self._rules.append(Rule(**fields))

    def deny_listing(self) -> None:
        """Answer as S3 does without s3:ListBucket: what is missing is denied, too."""
        denied = {"code": "AccessDenied"}
        self.rule(query={"list-type": None}, answer=denied)
        self.rule(answer=denied | {"pass_on": True, "instead_of": 404})

    def clear(self) -> None:
        """Forget all rules and all requests."""
        with self._lock:
            self._rules = []
            self._arrived = []

    def requests(self, method: str | None = None, key_contains: str = "") -> list[Request]:
        """Return such requests, answered or not yet, in the order they arrived."""
        return [
            one
            for one in self._arrived
            if method in (None, one.method) and key_contains in one.path
        ]

    def choose(self, request: Request, query: dict[str, str]) -> Rule:
        """Return the first rule that acts on a request; all that match count it."""
        with self._lock:
            self._arrived.append(request)
            due = [rule for rule in self._rules if rule.is_due(request, query)]
        return due[0] if due else Rule()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over clients that went away, as killed ones do."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Serve one connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, backend: str, disturbed: DisturbedS3, *arguments: Any) -> None:
        self.backend = backend
        self.disturbed = disturbed
        super().__init__(*arguments)

    def serve(self) -> None:
        """Take one whole request and answer it, or not."""
        body = self._read_body()
        split = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = {
            name: values[0]
            for name, values in parse_qs(split.query, keep_blank_values=True).items()
        }
        request = Request(self.command, unquote(split.path), headers)
        rule = self.disturbed.choose(request, query)
        if rule.gate is not None:
            rule.gate.wait(BACKEND_LIMIT_S)
        given = reply = None
        if rule.drop != "before" and (rule.answer is None or rule.answer.get("pass_on")):
            given = reply = self._ask_backend(self.command, body, rule.strip)
        if rule.replace_after is not None:
            replaced = self._ask_backend("PUT", rule.replace_after, None)
            assert replaced.status == 200, replaced
        if rule.answer is not None and (
            given is None or rule.answer.get("instead_of") in (None, given.status)
        ):
            reply = render_error(rule.answer, self.path)
        if rule.drop in ("before", "after"):
            reply = None
        if reply is None:
            self.close_connection = True
        else:
            self._send(reply, halfway=rule.drop == "halfway")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_OPTIONS = serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def _ask_backend(self, method: str, body: bytes, strip: tuple[str, ...] | None) -> Reply:
        """Pass a request on; with `strip` None it carries none of its conditions, and no query."""
        # A connection of its own each time: on a kept one the backend may have hung up meanwhile,
        # and a repeated request is no longer the one request that the client made.
        split = urlsplit(self.backend)
        connection = http.client.HTTPConnection(
            split.hostname or "", split.port, timeout=BACKEND_LIMIT_S
        )
        with contextlib.closing(connection):
            path = self.path if strip is not None else self.path.partition("?")[0]
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if strip is None:
                for name in (
                    "Host",
                    "Authorization",
                    "X-Amz-Date",
                ):  # moto wants a signature, of whatever
                    connection.putheader(name, self.headers.get(name, ""))
            else:
                for name, value in self.headers.items():
                    if name.lower() not in (*ONE_HOP_HEADERS, *strip, "content-length"):
                        connection.putheader(name, value)
            if body or method in ("PUT", "POST"):
                connection.putheader("Content-Length", str(len(body)))
            connection.putheader("Connection", "close")
            connection.endheaders(body or None)
            response = connection.getresponse()
            headers = [
                pair for pair in response.getheaders() if pair[0].lower() not in ONE_HOP_HEADERS
            ]
            return Reply(response.status, headers, response.read())

    def _send(self, reply: Reply, *, halfway: bool = False) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        # The reply to HEAD tells the length of a body that does not come: the backend's word stays.
        if self.command != "HEAD" and reply.status not in (204, 304):
            if not any(name.lower() == "content-length" for name, _ in reply.headers):
                self.send_header("Content-Length", str(len(reply.body)))
            sent = len(reply.body) // 2 if halfway else len(reply.body)
            self._headers_buffer.append(b"\r\n" + reply.body[:sent])  # type: ignore[attr-defined]  # one packet
            self.flush_headers()
        else:
            self.end_headers()
        self.close_connection = self.close_connection or halfway

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while (
            self.rfile.readline().strip()
        ):  # trailers of HTTP; those of aws-chunked lie inside of the body
            pass
        return b"".join(chunks)


def render_error(answer: dict[str, Any], path: str) -> Reply:
    """Return an error as S3 words it."""
    code = str(answer.get("code", "InternalError"))
    parts = {"Code": code, "Message": f"Told to answer {code}"}
    parts |= {"Resource": path.partition("?")[0], "RequestId": "DISTURBED"}
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in parts.items())
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inner}</Error>'.encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    return Reply(int(answer.get("status") or STATUS_OF_CODE[code]), headers, body)


@pytest.fixture
def disturbed_s3(s3_endpoint: str) -> Iterator[DisturbedS3]:
    """Give a test the endpoint with no rules and no requests so far; its bucket comes from
    `s3_bucket`.

    Nothing points at it by itself: set AWS_ENDPOINT_URL."""
    with DisturbedS3(s3_endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
