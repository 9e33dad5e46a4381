"""The little of HTTP/1.1 that the local judge of the tests needs."""

from collections.abc import Mapping
from http.client import responses
from types import MappingProxyType

import orjson

CHUNK_BYTES = 65_536
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def render_head(status: int, content_type: str, length: int | None, extra: dict[str, str]) -> bytes:
    """Return the status line and headers; without a length the body is chunked."""
    framing = (
        {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
    )
    headers = {"Content-Type": content_type} | framing | extra
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
    return b"HTTP/1.1 %d %s\r\n%s\r\n" % (status, responses.get(status, "Other").encode(), lines)


def render_reply(
    status: int, content_type: str, body: bytes, extra: dict[str, str], *, chunked: bool = False
) -> bytes:
    """Return a whole reply; chunked ones tell no length beforehand."""
    if not chunked:
        return render_head(status, content_type, len(body), extra) + body
    pieces = [body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return render_head(status, content_type, None, extra) + chunks + b"0\r\n\r\n"


def error_body(
    message: str,
    kind: str,
    code: int | str,
    param: str | None = None,
    more: Mapping[str, object] = MappingProxyType({}),
) -> bytes:
    """Return an error in the form that OpenAI-compatible servers use, with further members."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return orjson.dumps({"error": error | dict(more)})


def header_value(head: bytes, name: bytes) -> bytes | None:
    """Return a request header's value, by its lower-case name."""
    at = head.lower().find(b"\r\n" + name + b":")
    if at < 0:
        return None
    start = at + len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else None].strip()


def parse_chunked(data: bytes) -> tuple[bytes, int] | None:
    """Return a chunked body and the bytes it took; None while it is incomplete."""
    body = bytearray()
    at = 0
    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line_end].split(b";")[0], 16)
        start = line_end + 2
        at = line_end + 4 + size
        if len(data) < at:
            return None
        if size == 0:
            return bytes(body), at
        body += data[start : start + size]
    return None


def parse_request(data: bytes) -> tuple[bytes, bytes, int] | None:
    """Return head, body and the bytes they took; None while the request is incomplete."""
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    head = data[:head_end]
    body_start = head_end + 4
    length = header_value(head, b"content-length")
    if length is not None:
        end = body_start + int(length)
        return (head, data[body_start:end], end) if len(data) >= end else None
    if header_value(head, b"transfer-encoding") is not None:
        chunked = parse_chunked(data[body_start:])
        return None if chunked is None else (head, chunked[0], body_start + chunked[1])
    return head, b"", body_start
