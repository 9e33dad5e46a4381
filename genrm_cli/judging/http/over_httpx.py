"""HTTP over httpx, with one connection in each of its pools.

A pool of httpx looks at all its connections for each request: with 64 of them a call costs seven
times as much CPU time as with one, with thousands it stalls."""

import asyncio
import os
import socket
import ssl
from functools import cached_property
from typing import Any

import httpx

from genrm_cli.judging.http.interface import (
    HttpError,
    HttpOptions,
    HttpReply,
    HttpRequest,
    find_proxy,
    read_headers,
)

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=1, keepalive_expiry=90)
_KEEPALIVE_S = 30  # below the usual idle limits of NAT gateways, as for pyreqwest


class HttpxClient:
    """A client of one host."""

    library = "httpx"

    def __init__(self, options: HttpOptions) -> None:
        """Prepare the client; raise ValueError if a proxy of the environment cannot be used."""
        self._options = options
        self._free = asyncio.Semaphore(options.max_connections)
        # The last one used comes first, so that the others may expire.
        self._idle: list[httpx.AsyncClient] = []
        try:
            proxy = find_proxy(options.base_url)
            self._proxy = None if proxy is None else httpx.Proxy(proxy)
        except httpx.InvalidURL:
            # The error may quote a part of the password.
            shown = str(proxy).rpartition("@")[2]
            raise ValueError(f"the proxy {shown} of the environment is not a valid URL") from None

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send a request and return its reply."""
        async with self._free:
            client = None
            try:
                client = self._idle.pop() if self._idle else self._open()
                async with asyncio.timeout(request.timeout_s):
                    return await _exchange(client, request)
            except TimeoutError as error:
                raise HttpError("timed out", timed_out=True) from error
            except httpx.ConnectTimeout as error:
                limit_s = self._options.connect_timeout_s
                raise HttpError(f"no connection within {limit_s:.3g} s") from error
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
                raise HttpError(_reason(error)) from error
            finally:
                if client is not None and _holds_bytes(client):
                    await client.aclose()
                elif client is not None:
                    self._idle.append(client)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._idle:
            await client.aclose()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        if not self._options.base_url.startswith("https:"):
            # Nothing needs it, and reading the authorities takes a tenth of a second.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context = httpx.create_ssl_context()
        context.load_default_certs()
        if self._options.ca_bundle:
            context.load_verify_locations(self._options.ca_bundle)
        # Since Python 3.13 it refuses certificates that curl accepts.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    def _open(self) -> httpx.AsyncClient:
        options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        if hasattr(socket, "TCP_KEEPIDLE"):
            options.append((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S))
        transport = httpx.AsyncHTTPTransport(
            verify=self._tls, limits=_LIMITS, proxy=self._proxy, socket_options=options
        )
        return httpx.AsyncClient(
            transport=transport,
            headers=self._options.headers,
            timeout=httpx.Timeout(None, connect=self._options.connect_timeout_s),
            trust_env=False,
        )


async def _exchange(client: httpx.AsyncClient, request: HttpRequest) -> HttpReply:
    if request.upload is None:
        headers = {"Content-Type": "application/json"} if request.body else None
        sent = client.build_request(
            request.method, request.url, content=request.body, headers=headers
        )
    else:
        name, file = request.upload
        part = (name, file, "application/jsonl")
        sent = client.build_request(
            request.method, request.url, data={"purpose": "batch"}, files={"file": part}
        )
    response = await client.send(sent, stream=True)
    try:
        reply = HttpReply(response.status_code, read_headers(response.headers.get), request.write)
        async for piece in response.aiter_raw():
            if not reply.feed(piece):
                break
    finally:
        await response.aclose()
    reply.end()
    return reply


def _holds_bytes(client: Any) -> bool:
    """Whether a connection holds bytes after its reply, which would answer the next request.

    httpcore looks at the socket only, and has no public way to look into the buffers above it. One
    of another version, with other buffers, keeps no connection."""
    try:
        for connection in client._transport._pool.connections:
            while not hasattr(connection, "_h11_state"):
                connection = connection._connection
            held = connection._h11_state.trailing_data[0]
            stream = connection._network_stream._stream
            if hasattr(stream, "_read_bio"):  # TLS
                held = held or stream._read_bio.pending or stream._ssl_object.pending()
                stream = stream.transport_stream
            if held or stream._protocol.read_queue:
                return True
    except AttributeError:
        return True
    return False


def _reason(error: BaseException) -> str:
    """Return the innermost reason of an error, which names the cause (refused, DNS, certificate).

    httpx's own says "All connection attempts failed"."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        elif isinstance(error.__context__, OSError):
            error = error.__context__
        elif isinstance(error, ConnectionError) and error.errno:
            return os.strerror(error.errno)  # asyncio's text does not say "refused"
        else:
            return str(error) or type(error).__name__
