"""The interface of an HTTP client: send a request, and get status, headers and body within limits.

A client feeds a reply the packed bytes of its body. The reply unpacks them and stops at its limit,
so that a small body cannot grow without end in memory."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import BinaryIO, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

# Far above any reply with log probabilities, and small enough for one in each of many calls.
MAX_REPLY_BYTES = 32_000_000
PIECE_BYTES = 1_000_000  # of a batch's file: few steps, little memory
READ_HEADERS = ("content-encoding", "date", "location", "retry-after")
NOT_ASCII = "(not ASCII)"
_PACKINGS = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32  # zlib then recognises the header
_WINDOW_BYTES = 1 << 16  # unpacked at a time: each member of a packed body copies the rest of it
# A body may have several members, as a file of a batch that was packed in blocks. Thousands of
# nearly empty ones only cost time.
_FREE_MEMBERS = 100
_LEAST_MEMBER_BYTES = 1_000  # of the others, on average

Write = Callable[[bytes], object]


class HttpError(Exception):
    """No reply came; the text names the cause."""

    def __init__(self, cause: str, *, timed_out: bool = False) -> None:
        super().__init__(cause)
        self.timed_out = timed_out


class HttpOptions(Struct, frozen=True):
    """Options of a client.

    Attributes:
        base_url: what all requests begin with.
        headers: of every request.
        max_connections: requests beyond them wait, and the wait does not count as theirs.
        ca_bundle: PEM file of authorities to trust in addition to the system's. It is that of the
            variable SSL_CERT_FILE, as for curl and OpenSSL.
    """

    base_url: str
    headers: Mapping[str, str]
    connect_timeout_s: float
    max_connections: int
    ca_bundle: str | None = None


class HttpRequest(Struct, frozen=True):
    """A request.

    Attributes:
        timeout_s: limit of the whole request, its body included.
        body: JSON; ignored with `upload`.
        upload: name and content of a file to send in a form, for a batch.
        write: takes the body of a reply with status 200 piece by piece, however long it is.
    """

    method: str
    url: str
    timeout_s: float
    body: bytes = b""
    upload: tuple[str, BinaryIO] | None = None
    write: Write | None = None


class HttpReply:
    """A reply, whose body is fed to it.

    Attributes:
        headers: those of `READ_HEADERS` that it has, by lower-case name; `NOT_ASCII` replaces the
            value of one that is not.
        fault: why the body cannot be used: too long, or packed in a way that was not asked for.
    """

    def __init__(self, status: int, headers: Mapping[str, str], write: Write | None) -> None:
        """Begin a reply; `write` takes its body if the status is 200."""
        self.status = status
        self.headers = headers
        self.fault: str | None = None
        self._write = write if status == HTTPStatus.OK else None
        self._body = bytearray()
        self._members = 1
        self._unpacked_bytes = 0
        packing = headers.get("content-encoding", "identity").lower()
        self._unpacker = zlib.decompressobj(_GZIP_OR_ZLIB) if packing in _PACKINGS else None
        if self._unpacker is None and packing != "identity":
            self.fault = f"the reply is encoded as {packing!r}, which was not asked for"

    @property
    def body(self) -> bytes:
        """The body so far; empty if it was written elsewhere."""
        return bytes(self._body)

    def feed(self, piece: bytes) -> bool:
        """Take the next piece of the body as it was sent; return whether more is wanted."""
        if self.fault is not None:
            return False
        try:
            for unpacked in self._iter_unpacked(piece):
                if self._write is not None:
                    self._write(unpacked)
                    continue
                self._body += unpacked
                if len(self._body) > MAX_REPLY_BYTES:
                    self.fault = f"the reply is longer than {MAX_REPLY_BYTES:,} bytes"
                    break
        except zlib.error as error:
            self.fault = f"the reply cannot be unpacked ({error})"
        if self.fault is not None:
            # The error of the call may outlive it in a traceback, and would keep the body.
            self._body.clear()
        return self.fault is None

    def end(self) -> None:
        """Note that no more pieces come."""
        if self.fault is None and self._unpacker is not None and not self._unpacker.eof:
            self.fault = "the reply cannot be unpacked (it ends early)"

    def _iter_unpacked(self, piece: bytes) -> Iterator[bytes]:
        if self._unpacker is None:
            yield piece
            return
        for start in range(0, len(piece), _WINDOW_BYTES):
            packed = piece[start : start + _WINDOW_BYTES]
            is_full = False
            while packed or is_full:
                if self._unpacker.eof:
                    self._begin_member()
                unpacked = self._unpacker.decompress(packed, PIECE_BYTES)
                self._unpacked_bytes += len(unpacked)
                is_full = len(unpacked) == PIECE_BYTES and not self._unpacker.eof
                packed = self._unpacker.unused_data or self._unpacker.unconsumed_tail
                yield unpacked

    def _begin_member(self) -> None:
        self._members += 1
        counted = self._members - _FREE_MEMBERS
        if counted * _LEAST_MEMBER_BYTES > self._unpacked_bytes:
            raise zlib.error(f"it has {self._members} members with next to nothing in them")
        self._unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)


def read_headers(header: Callable[[str], str | None]) -> dict[str, str]:
    """Return the headers of a reply that are read; servers may send any byte in them."""
    found = {}
    for name in READ_HEADERS:
        try:
            value = header(name)
        except ValueError:  # pyreqwest reads ASCII only
            value = NOT_ASCII
        if value:
            found[name] = value if value.isascii() else NOT_ASCII
    return found


def find_proxy(url: str) -> str | None:
    """Return the URL of the proxy that the environment names for a URL; None for hosts of
    `NO_PROXY` and for this machine, whose prompts should not leave it.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    try:
        address = ip_address(host)
        is_here = address.is_loopback or address.is_unspecified
    except ValueError:
        is_here = host == "localhost" or host.endswith(".localhost")
    if is_here:
        return None
    # It takes longer to import than a judge on this machine takes to open.
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class HttpClient(Protocol):
    """A client of one host. It follows no redirects, and uses the proxy of `find_proxy`."""

    library: str

    def __init__(self, options: HttpOptions) -> None:
        """Prepare the client; open no connection yet. Raise ValueError if an option cannot be
        used.
        """

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send a request and return its reply.

        Raises:
            HttpError: no reply came.
        """

    async def close(self) -> None:
        """Close the connections."""
