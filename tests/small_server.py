"""Servers of HTTP in a thread, to the client that is tested: they give some replies in turn, or
make each from its request.
"""

import contextlib
import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Reply = tuple[int, Mapping[str, str], object]


def completion(content: str, finish_reason: str = "stop", **usage: int) -> Reply:
    """Return the reply of a judge's server, which tells these tokens, or none."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    body = {"choices": [choice], "usage": usage or None}
    return 200, {"Content-Type": "application/json"}, body


class Request(NamedTuple):
    """A request, whole; the names of its headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@contextmanager
def listening(
    answer: Callable[[Request], Reply | None], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Keep a server that makes each reply, or closes the connection without one; its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                body = b"".join(iter(self._chunk, b""))
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(Request(self.command, self.path, headers, body))
            if reply is None:
                self.close_connection = True
                return
            status, named, content = reply
            sent = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response_only(status)
            usual = {"Date": self.date_time_string(), "Content-Length": str(len(sent))}
            for name, value in {**usual, **named}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(sent)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do  # noqa: N815

        def _chunk(self) -> bytes:
            chunk = self.rfile.read(int(self.rfile.readline(), 16))
            self.rfile.readline()
            return chunk

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        def finish_request(self, request: Any, client_address: Any) -> None:
            """Shake hands in the thread of the connection; a client may break it off."""
            if tls is None:
                super().finish_request(request, client_address)
                return
            with (
                contextlib.suppress(ssl.SSLError, ConnectionError),
                tls.wrap_socket(request, server_side=True) as wrapped,
            ):
                super().finish_request(wrapped, client_address)

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Pass over a client that has seen enough of a reply, and hangs up."""
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering(*replies: Reply) -> Iterator[tuple[str, list[Any]]]:
    """Keep a server that gives these replies in turn; its URL, and the requests that it saw."""
    left = list(replies)
    with answering_each(lambda _: left.pop(0)) as server:
        yield server


@contextmanager
def answering_each(
    answer: Callable[[Any], Reply], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[Any]]]:
    """Keep a server that makes each reply from the JSON of the request; its URL, and the requests
    that it saw.
    """
    seen: list[Any] = []

    def answer_json(request: Request) -> Reply:
        seen.append((request.path, request.headers, json.loads(request.body)))
        return answer(seen[-1][2])

    with listening(answer_json, tls) as url:
        yield url, seen
