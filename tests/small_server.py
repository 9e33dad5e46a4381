"""A server that gives some replies in turn, or makes each from its request, to the client that is
tested.
"""

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], object]


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
    """Keep a server that makes each reply from the body of the request; its URL, and the requests
    that it saw.
    """
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, dict(self.headers), json.loads(body)))
            status, headers, content = answer(seen[-1][2])
            sent = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {
                **headers,
                "Content-Length": str(len(sent)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

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

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            scheme = "http" if tls is None else "https"
            yield f"{scheme}://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()
