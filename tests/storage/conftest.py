"""A scripted S3 endpoint, for answers that a well-behaved server never gives."""

import sys
import threading
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

from genrm_cli.storage.store import Store


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


Answer = tuple[int, dict[str, str], bytes]


class ScriptedS3:
    """A server whose `answer` a test sets, and whose `requests` it reads."""

    def __init__(self) -> None:
        self.answer: Callable[[Request], Answer] = lambda request: (500, {}, b"")
        self.requests: list[Request] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                names = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, names, body)
                script.requests.append(request)
                status, headers, content = script.answer(request)
                self.send_response(status)
                for name, value in {
                    "Content-Length": str(len(content)),
                    "Last-Modified": formatdate(usegmt=True),
                    **headers,
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = reply  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                # A client that has seen enough of a large object hangs up.
                if not isinstance(sys.exception(), ConnectionError):
                    super().handle_error(request, client_address)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.store = Store(max_attempts=2)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def always(self, status: int, content: bytes, **headers: str) -> None:
        """Answer every request alike from now on."""
        self.answer = lambda request: (status, headers, content)


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[ScriptedS3]:
    """Serve for the whole session, as a client is made for each endpoint and that takes time."""
    script = ScriptedS3()
    yield script
    script.server.shutdown()
    script.server.server_close()


@pytest.fixture
def scripted_s3(
    scripted_server: ScriptedS3, no_real_aws: None, monkeypatch: pytest.MonkeyPatch
) -> ScriptedS3:
    """Give the endpoint with no requests so far; the test sets its `answer`."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", scripted_server.url)
    scripted_server.requests = []
    return scripted_server
