"""HTTP over pyreqwest: a call costs the same at any number of connections."""

import os
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import DetailedPyreqwestError, PyreqwestError, RequestTimeoutError
from pyreqwest.multipart import FormBuilder, PartBuilder
from pyreqwest.request import StreamRequest

from genrm_cli.judging.http.interface import (
    MAX_REPLY_BYTES,
    PIECE_BYTES,
    HttpError,
    HttpOptions,
    HttpReply,
    HttpRequest,
    find_proxy,
    read_headers,
)


class PyreqwestClient:
    """A client of one host. A cancelled request continues until its timeout."""

    library = "pyreqwest"

    def __init__(self, options: HttpOptions) -> None:
        """Prepare the client; raise ValueError if certificates cannot be used."""
        builder = (
            ClientBuilder()
            .default_headers(dict(options.headers))
            .max_connections(options.max_connections)
            .connect_timeout(timedelta(seconds=options.connect_timeout_s))
            # Waiting for a free connection does not count as the judge's time.
            .pool_timeout(timedelta(days=30))
            .tcp_keepalive(timedelta(seconds=30))
            .follow_redirects(False)
            # Replies are unpacked within their limit.
            .gzip(False)
            .brotli(False)
            .zstd(False)
            .deflate(False)
        )
        if find_proxy(options.base_url) is None:
            builder = builder.no_proxy()
        try:
            if options.ca_bundle:
                builder = builder.add_root_certificate_pem(Path(options.ca_bundle).read_bytes())
            self._client = builder.build()
        except PyreqwestError as error:
            raise ValueError(_reason(error)) from error

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send a request and return its reply."""
        started_s = time.monotonic()
        try:
            return await _receive(self._build(request), request)
        except RequestTimeoutError as error:
            # The library does not distinguish the two, but a call that ended before its own timeout
            # hit that of the connection.
            is_early = time.monotonic() - started_s < request.timeout_s
            raise HttpError(_reason(error), timed_out=not is_early) from error
        except (PyreqwestError, ValueError) as error:  # ValueError: the URL
            raise HttpError(_reason(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _build(self, request: HttpRequest) -> StreamRequest:
        timeout = timedelta(seconds=request.timeout_s)
        builder = self._client.request(request.method, request.url).timeout(timeout)
        if request.upload is not None:
            builder = builder.multipart(_form(*request.upload))
        elif request.body:
            # As a default header it would replace the one of a form, which names the boundary.
            builder = builder.header("Content-Type", "application/json").body_bytes(request.body)
        return builder.build_streamed()


async def _receive(sent: StreamRequest, request: HttpRequest) -> HttpReply:
    async with sent as response:
        reply = HttpReply(response.status, read_headers(response.get_header), request.write)
        # Fewer bytes than asked for are the last ones, so that a usual reply is read in one step.
        asked = MAX_REPLY_BYTES + 1 if request.write is None else PIECE_BYTES
        while piece := await response.body_reader.read(asked):
            if not reply.feed(piece.to_bytes()) or len(piece) < asked:
                break
    reply.end()
    return reply


def _form(name: str, file: BinaryIO) -> FormBuilder:
    length = file.seek(0, os.SEEK_END)
    part = PartBuilder.from_stream_with_length(_iter_pieces(file), length)
    part = part.file_name(name).mime("application/jsonl")
    return FormBuilder().text("purpose", "batch").part("file", part)


async def _iter_pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


def _reason(error: Exception) -> str:
    """Return the innermost reason of an error, which names the cause (refused, DNS,
    certificate).
    """
    causes = error.details["causes"] or [] if isinstance(error, DetailedPyreqwestError) else []
    return ": ".join(cause["message"] for cause in causes[-2:]) or str(error)
