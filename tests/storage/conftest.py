"""A scripted S3 endpoint, for answers that a well-behaved server never gives."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def scripted_s3(
    aws: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[Request], Answer]], list[Request]]]:
    """Start an endpoint that answers as a function says; gives the list of requests it gets."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[Request], Answer]) -> list[Request]:
        requests: list[Request] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, body)
                requests.append(request)
                status, headers, content = answer(request)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        return requests

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
