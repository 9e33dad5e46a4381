"""A real process between a tool and an S3 endpoint: passes everything through, and disturbs what a test says.

`python s3_disturber.py --backend http://127.0.0.1:5000 --port 0` prints its port as the first line and ends on
SIGTERM or when stdin closes. POST /-/rules adds a rule (fields of `Rule`), GET /-/requests tells what came,
DELETE /-/rules forgets both. A bucket cannot be called `-`, so no object hides behind these paths.
"""

import argparse
import base64
import contextlib
import http.client
import json
import random
import sys
import threading
import time
from dataclasses import dataclass, field, fields
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

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
DROPS = ("before", "after", "halfway")
CONTROL_PATH = "/-/"
ONE_HOP_HEADERS = ("connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection")
LOGGED_HEADERS = ("content-length", "content-encoding", "content-md5", "content-type", "range", "authorization")
LOGGED_PREFIXES = ("if-", "x-amz-")
BACKEND_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests are disturbed, and how; disturbances of one rule come together.

    Attributes:
        method: None for all.
        key_contains: a part of the path without its escapes, so of `/bucket/key`.
        query: parameters with the values they must have; None for a value: just be there.
        after: how many matching requests pass undisturbed first.
        times: how many it disturbs then; -1 for all.
        share: the share of those that it disturbs, drawn at random under `seed`.
        answer: an error of S3 instead of the backend's reply: `code`, and `status`, `message` where the usual
            ones do not do; `pass_on` true lets the backend do its work before.
        drop: close the connection "before" the backend hears of the request, "after" it did its work, or
            "halfway" through the body of its reply.
        delay_s: wait this long first.
        strip: headers of the request, lower case, that the backend does not see.
        replace_after: new content of the object, in base64, put at the backend when it gave its reply and
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
    delay_s: float = 0.0
    strip: tuple[str, ...] = ()
    replace_after: str | None = None

    def matches(self, method: str, path: str, query: dict[str, str]) -> bool:
        """Say whether it is about such a request, whatever its counter says."""
        return (
            self.method in (None, method)
            and self.key_contains in path
            and all(name in query and value in (None, query[name]) for name, value in self.query.items())
        )


NO_RULE = Rule()


class Reply(NamedTuple):
    """What goes back to the client, or came from the backend."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Disturbances:
    """The rules, how often each matched, and what passed: all under one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything; requests still under way write into the old log, which nobody reads any more."""
        with self._lock:
            self._rules: list[Rule] = []
            self._matched: list[int] = []
            self._dice: list[random.Random] = []
            self.log: list[dict[str, Any]] = []

    def add(self, rule: Rule) -> None:
        """Append a rule; of several that are due the first one acts, while all of them count."""
        with self._lock:
            self._rules.append(rule)
            self._matched.append(0)
            self._dice.append(random.Random(rule.seed))

    def choose(self, method: str, path: str, query: dict[str, str]) -> tuple[int | None, Rule]:
        """Count a request and return the rule that acts on it, with its place; None and `NO_RULE` for none."""
        chosen: int | None = None
        with self._lock:
            for place, rule in enumerate(self._rules):
                if not rule.matches(method, path, query):
                    continue
                turn = self._matched[place] - rule.after
                self._matched[place] += 1
                is_due = turn >= 0 and (rule.times < 0 or turn < rule.times)
                if is_due and self._dice[place].random() < rule.share and chosen is None:
                    chosen = place
            return chosen, NO_RULE if chosen is None else self._rules[chosen]


class Handler(BaseHTTPRequestHandler):
    """Serve one connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, backend: str, disturbances: Disturbances, *arguments: Any) -> None:
        self.backend = backend
        self.disturbances = disturbances
        super().__init__(*arguments)

    def serve(self) -> None:
        """Take one whole request and answer it, or not."""
        body = self._read_body()
        if self.path.startswith(CONTROL_PATH):
            self._send(self._control(body))
            return
        split = urlsplit(self.path)
        path, query = unquote(split.path), {name: values[0] for name, values in self._query(split.query).items()}
        log = self.disturbances.log
        place, rule = self.disturbances.choose(self.command, path, query)
        time.sleep(rule.delay_s)
        given, reply = self._disturbed(rule, body)
        dropped = rule.drop in ("before", "after")
        log.append(
            {
                "method": self.command,
                "path": path,
                "query": query,
                "headers": {k.lower(): v for k, v in self.headers.items() if _is_logged(k.lower())},
                "body_bytes": len(body),
                "backend_status": None if given is None else given.status,
                "status": None if dropped or reply is None else reply.status,
                "rule": place,
            }
        )
        if dropped or reply is None:
            self.close_connection = True
            return
        self._send(reply, halfway=rule.drop == "halfway")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_OPTIONS = serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Keep quiet: the log is at /-/requests."""

    def _disturbed(self, rule: Rule, body: bytes) -> tuple[Reply | None, Reply | None]:
        """Return what the backend replied, None when it was not asked, and what the client shall get."""
        answer = rule.answer
        if rule.drop == "before" or (answer is not None and not answer.get("pass_on")):
            given = None
        else:
            given = self._ask_backend(self.command, body, rule.strip)
        if rule.replace_after is not None:
            replaced = self._ask_backend("PUT", base64.b64decode(rule.replace_after), None)
            if replaced.status != 200:
                raise RuntimeError(f"the backend refused the new content: {replaced}")
        return given, given if answer is None else render_error(answer, self.path)

    def _ask_backend(self, method: str, body: bytes, strip: tuple[str, ...] | None) -> Reply:
        """Pass a request on; with `strip` None it carries none of its conditions, and no query."""
        # A connection of its own each time: on a kept one the backend may have hung up meanwhile, and a
        # repeated request is no longer the one request that the client made.
        split = urlsplit(self.backend)
        connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=BACKEND_LIMIT_S)
        with contextlib.closing(connection):
            path = self.path if strip is not None else self.path.partition("?")[0]
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if strip is None:
                for name in ("Host", "Authorization", "X-Amz-Date"):  # moto wants a signature, of whatever
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
            headers = [pair for pair in response.getheaders() if pair[0].lower() not in ONE_HOP_HEADERS]
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
        while self.rfile.readline().strip():  # trailers of HTTP; those of aws-chunked lie inside of the body
            pass
        return b"".join(chunks)

    @staticmethod
    def _query(query: str) -> dict[str, list[str]]:
        return parse_qs(query, keep_blank_values=True)

    def _control(self, body: bytes) -> Reply:
        asked = f"{self.command} {self.path.removeprefix(CONTROL_PATH)}"
        try:
            if asked == "POST rules":
                self.disturbances.add(parse_rule(json.loads(body)))
            elif asked == "DELETE rules":
                self.disturbances.clear()
            elif asked != "GET requests":
                raise ValueError(f"no such control: {asked}")
        except ValueError as error:
            return _json_reply(400, {"error": str(error)})
        return _json_reply(200, list(self.disturbances.log) if asked == "GET requests" else {})


class Server(ThreadingHTTPServer):
    """Many clients at once."""

    daemon_threads = True
    request_queue_size = 256  # with the usual 5 a burst of connections waits a second for its second try

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over clients that went away, as killed ones do."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def parse_rule(given: Any) -> Rule:
    """Read a rule.

    Raises:
        ValueError: it has unknown fields or values, or disturbs nothing.
    """
    if not isinstance(given, dict) or (unknown := set(given) - {one.name for one in fields(Rule)}):
        raise ValueError(f"a rule has no fields {sorted(unknown)}" if isinstance(given, dict) else "not a rule")
    rule = Rule(**given)
    if rule.drop not in (None, *DROPS):
        raise ValueError(f"drop is one of {DROPS}, not {rule.drop!r}")
    if rule.answer is not None and "status" not in rule.answer and rule.answer.get("code") not in STATUS_OF_CODE:
        raise ValueError(f"answer needs a status, or a code of {sorted(STATUS_OF_CODE)}: {rule.answer}")
    if not (rule.answer or rule.drop or rule.delay_s or rule.strip or rule.replace_after is not None):
        raise ValueError("a rule needs one of answer, drop, delay_s, strip, replace_after")
    return rule


def render_error(answer: dict[str, Any], path: str) -> Reply:
    """Return an error as S3 words it."""
    code = str(answer.get("code", "InternalError"))
    message = str(answer.get("message", f"Told to answer {code}"))
    parts = {"Code": code, "Message": message, "Resource": path.partition("?")[0], "RequestId": "DISTURBED"}
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in parts.items())
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inner}</Error>'.encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    return Reply(int(answer.get("status") or STATUS_OF_CODE[code]), headers, body)


def _is_logged(name: str) -> bool:
    return name in LOGGED_HEADERS or name.startswith(LOGGED_PREFIXES)


def _json_reply(status: int, value: object) -> Reply:
    return Reply(status, [("Content-Type", "application/json")], json.dumps(value).encode())


def main() -> None:
    """Serve until stdin closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", required=True, help="URL of the S3 endpoint, http only")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    handler = partial(Handler, arguments.backend, Disturbances())
    with Server(("127.0.0.1", arguments.port), handler) as server:
        print(server.server_port, flush=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        sys.stdin.buffer.read()
        server.shutdown()


if __name__ == "__main__":
    main()
