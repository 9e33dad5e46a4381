"""The door of a server: what it stores before anybody has said who they are, and who may ask."""

import contextlib
import socket

import pytest
from served import GROUP, TOKEN


def talk(served, *parts):
    """Send bytes until the server closes the connection; what it said."""
    said = b""
    with socket.create_connection(served.address, timeout=60) as connection:
        with contextlib.suppress(ConnectionError):  # it need not read what it refuses
            for part in parts:
                connection.sendall(part)
        with contextlib.suppress(ConnectionError):
            while received := connection.recv(65_536):
                said += received
    return said


LINES = b"aaaaaaaa: bbbbbbbb\r\n"
TOKEN_LINE = f"Authorization: Bearer {TOKEN}\r\n".encode()
START = b"POST /v1/groups HTTP/1.1\r\nHost: localhost\r\n" + TOKEN_LINE
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (START, LINES),
        (START + b"a: ", b"b" * 20),
        (b"POST /", b"v" * 20),
        (CHUNKED + b"1\r\n{\r\n0\r\n", LINES),
        (CHUNKED + b"1;", b"x" * 20),
    ],
    ids=["headers", "one header", "the request line", "trailers", "an extension"],
)
def test_a_head_without_end_is_refused_at_64_kib(limited, start, more):
    """Each place of HTTP that a parser stores without a limit: 431, and nothing has grown."""
    assert b" 431 " in talk(limited, start, *[more * 500] * 100)
    assert b" 431 " in talk(limited, start + more * (1_000_000 // len(more)))
    assert limited.post("/v1/groups", GROUP).status_code == 200


def test_a_long_head_passes(limited):
    """60,000 bytes: tokens and cookies of a proxy; and a body is not a head."""
    length = b"Content-Length: 200000\r\nConnection: close\r\n"
    head = START + b"Cookie: " + b"c" * 60_000 + b"\r\n" + length + b"\r\n"
    assert b" 422 " in talk(limited, head, b" " * 200_000)
    longer = head.replace(b"Cookie: ", b"Cookie: " + b"c" * 10_000)
    assert b" 431 " in talk(limited, longer)


def test_a_trailer_is_no_header(limited):
    """What comes after the body was not checked with the head."""
    body = b"2\r\n{}\r\n0\r\nOrigin: http://evil.example\r\n\r\n"
    assert b" 422 " in talk(
        limited, CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), body
    )


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (403, {"Origin": "https://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"Origin": "http://localhost:3000"}),
        (403, {"Host": "evil.example"}),
        (403, {"Host": "127.0.0.1.evil.example:8330"}),
        (403, {"Host": "evil.example", "Content-Type": "text/plain"}),
        (200, {"Origin": "https://genrm.example"}),
        (200, {"Host": "genrm.example"}),
        (200, {"Host": "localhost:9000"}),
        (200, {"Host": "[::1]:8330"}),
        (200, {"Host": "127.0.0.1"}),
        (200, {}),
    ],
)
def test_web_pages_do_not_reach_loopback(limited, status, headers):
    """By their Origin, and by the Host of a name that was made to point here; on every page."""
    assert limited.post("/v1/groups", GROUP, **headers).status_code == status
    for page in ("/healthz", "/metrics"):
        assert limited.get(page, **headers).status_code == status


@pytest.mark.slow
def test_a_waiting_member_is_kept_once(serve):
    """Neither its body nor another copy of its text: what is open is bounded by what it says."""
    with serve("--drain 0.1s") as served:
        before = served.memory_bytes()
        for number in range(40):
            text = f"{number} " + "word " * 200_000
            served.begin_member(f"g{number}", 0, size=2, messages="Why?", text=text)
        served.wait_for(waiting=40)
        assert served.memory_bytes() - before < 1.6 * 40 * 1_000_000
