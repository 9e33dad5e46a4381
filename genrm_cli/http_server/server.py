"""Run the server until it is told to stop."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from genrm_cli.errors import SettingRef, UsageError
from genrm_cli.judging.pacing.descriptors import max_connections
from genrm_cli.settings.file_settings import ServeSettings
from genrm_cli.settings.sources.keys import TOKEN_VARIABLE

# All members of a step may connect at once; the kernel cuts this down to `net.core.somaxconn`.
_BACKLOG = 4_096
_MAX_HEAD_BYTES = 64 << 10  # eight times what servers usually take
_REFUSAL = b'{"error":{"type":"too_large","message":"the head of the request is above 64 KiB"}}'
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_REFUSAL), _REFUSAL)
)
_ENDING = (signal.SIGTERM, signal.SIGINT)


class _Protocol(HttpToolsProtocol):
    """HTTP/1.1, with a timeout and a limit of bytes for the head of a request, and a limit of
    connections, which uvicorn lacks.

    Neither the parser nor uvicorn limits what they store of a request line, a header, the extension
    of a chunk or a trailer. Two counts do: of the fields that are complete, and of what has arrived
    since the last part of a body, which may be a field without end.
    """

    head_timeout_s = 60.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # The judges need connections, too. Those that came before are not refused with this one.
        self._is_surplus = len(self.connections) > max_connections() // 2
        self._head = self.loop.call_later(self.head_timeout_s, transport.close)
        self._field_bytes = 0
        self._bytes_since_body = 0
        self._has_head = False
        self._is_refused = False

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._bytes_since_body += len(data)
        super().data_received(data)
        if self._bytes_since_body > _MAX_HEAD_BYTES:
            self._refuse()

    def _refuse(self) -> None:
        if not (self._is_refused or self.transport.is_closing()):
            self._is_refused = True
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._field_bytes = 0
        self._has_head = False
        self._head.cancel()
        self._head = self.loop.call_later(self.head_timeout_s, self.transport.close)

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name + value + b": \r\n")
        if not self._has_head:  # a trailer is no header of the request
            super().on_header(name, value)

    def _count(self, field: bytes) -> None:
        self._field_bytes += len(field)
        if self._field_bytes > _MAX_HEAD_BYTES:
            self._refuse()

    def on_body(self, body: bytes) -> None:
        self._bytes_since_body = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes_since_body = 0
        if not self._is_refused:
            super().on_message_complete()

    def on_headers_complete(self) -> None:
        self._head.cancel()
        self._bytes_since_body = 0
        self._has_head = True
        if self._is_refused:
            return
        self.scope["state"]["is_crowded"] = self._is_surplus
        super().on_headers_complete()
        cycle = self.cycle
        # Asking Starlette costs a task and a cancellation for each request.
        self.scope["state"]["is_gone"] = lambda: cycle.disconnected or cycle.response_complete
        self.scope["state"]["close"] = self._close

    async def _close(self) -> None:
        """Close the connection in the middle of a reply."""
        self.transport.abort()
        while self.parser is not None:  # until it is lost
            await asyncio.sleep(0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.cancel()
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """A server that leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers."""
        yield


def listen_on(settings: ServeSettings, *, has_token: bool) -> socket.socket:
    """Open the listening socket."""
    host, _, port = settings.listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(
            SettingRef("listen", settings.listen),
            ": expected HOST:PORT, for example 127.0.0.1:8330.",
        )
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        if not (ip_address(address[0]).is_loopback or has_token or settings.allow_public):
            raise UsageError(
                SettingRef("listen", settings.listen),
                " is reachable from other machines, and anybody could ask the judge. Set a token "
                f"in {TOKEN_VARIABLE}, or pass ",
                SettingRef("allow_public"),
                " if the network is yours alone.",
            )
        listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(
            SettingRef("listen", settings.listen),
            f": {error.strerror or error}. Choose another port; 0 picks a free one.",
        ) from error
    # Accepted connections inherit it. asyncio sets it only on sockets made with the protocol TCP,
    # which create_server does not name; without it each reply on a kept connection takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Print an error, unless descriptors ran out: asyncio reports that thousands of times a second,
    and tries again.
    """
    message = str(context.get("message"))
    if not ("socket.accept() out of system resource" in message or "._start_serving" in message):
        loop.default_exception_handler(context)


async def run_server(
    app: ASGIApp,
    listening: socket.socket,
    read_timeout_s: float,
    on_ready: Callable[[str], None],
    drain: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; then drain, and close the connections. A second signal ends
    the process.

    `on_ready` takes the URL, once clients can connect and a signal drains.
    """
    config = uvicorn.Config(
        app,
        http=type("Protocol", (_Protocol,), {"head_timeout_s": read_timeout_s}),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    for each in _ENDING:
        loop.add_signal_handler(each, stopping.set)
    host, port = listening.getsockname()[:2]
    on_ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    serving = asyncio.ensure_future(server.serve([listening]))
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
    for each in _ENDING:
        loop.remove_signal_handler(each)
    if drain is not None and not serving.done():
        await drain()
    server.should_exit = True
    await serving
    stop.cancel()
