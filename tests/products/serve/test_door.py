"""The door of a server: what it stores before anybody has said who they are, and who may ask."""

import socket

import pytest
from genrm_process import Genrm
from served import judge_flags, serving

GROUP = {"messages": "Why?", "responses": [{"text": "a"}, {"text": "b c"}]}


@pytest.fixture(scope="module")
def guarded(judge_process, tmp_path_factory):
    """Keep a server with a token, few open bytes, and a host of its own."""
    judge_process.restore()
    genrm = Genrm(tmp_path_factory.mktemp("door"))
    flags = ["--max-open-bytes", "2000", "--allow-host", "genrm.example", "--drain", "0.1s"]
    with serving(genrm, *judge_flags(judge_process.base_url), *flags) as served:
        yield served


def talk(served, *parts):
    """Send bytes until the server closes the connection; what it said."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except ConnectionError:  # it need not read what it refuses
            pass
        said = b""
        try:
            while received := connection.recv(65_536):
                said += received
        except ConnectionError:
            pass
    return said


LINES = b"aaaaaaaa: bbbbbbbb\r\n"
START = b"POST /v1/groups HTTP/1.1\r\nHost: localhost\r\n"
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
def test_a_head_without_end_is_refused_at_64_kib(guarded, start, more):
    """Each place of HTTP that a parser stores without a limit: 431, and nothing has grown."""
    assert b" 431 " in talk(guarded, start, *[more * 500] * 100)
    assert b" 431 " in talk(guarded, start + more * (1_000_000 // len(more)))
    assert guarded.post("/v1/groups", GROUP).status_code == 200


def test_a_long_head_passes(guarded):
    """60,000 bytes: tokens and cookies of a proxy; and a body is not a head."""
    length = b"Content-Length: 200000\r\nConnection: close\r\n"
    head = START + b"Cookie: " + b"c" * 60_000 + b"\r\n" + length + b"\r\n"
    assert b" 422 " in talk(guarded, head, b" " * 200_000)
    longer = head.replace(b"Cookie: ", b"Cookie: " + b"c" * 10_000)
    assert b" 431 " in talk(guarded, longer)


def test_a_trailer_is_no_header(guarded):
    """What comes after the body was not checked with the head."""
    body = b"2\r\n{}\r\n0\r\nOrigin: http://evil.example\r\n\r\n"
    assert b" 422 " in talk(
        guarded, CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), body
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
def test_web_pages_do_not_reach_loopback(guarded, status, headers):
    """By their Origin, and by the Host of a name that was made to point here; on every page."""
    assert guarded.post("/v1/groups", GROUP, **headers).status_code == status
    for page in ("/healthz", "/metrics"):
        assert guarded.get(page, **headers).status_code == status


def test_open_bytes_are_bounded_for_new_cohorts_only(guarded):
    """429 for another group; the members of open cohorts come, and then there is room again."""
    text = "word " * 300
    first = guarded.begin_member("large", 0, size=3, messages="Why?", text=text)
    guarded.wait_for(waiting=1)
    second = guarded.begin_member("large", 1, size=3, messages="Why?", text=text + "b")
    guarded.wait_for(waiting=2)
    body = {"size": 2, "messages": "Why?", "text": "a"}
    for path, other in (("/v1/cohorts/new/members/0", body), ("/v1/groups", {**GROUP, "id": "n"})):
        refused = guarded.post(path, other)
        assert refused.status_code == 429
        assert "max_open_bytes" in refused.text
    third = guarded.begin_member("large", 2, size=3, messages="Why?", text=text + "c")
    assert {each.reply().status_code for each in (first, second, third)} == {200}
    assert guarded.group(**GROUP, id="n")["status"] == "scored"


@pytest.mark.slow
def test_a_waiting_member_is_kept_once(judge_process, genrm):
    """Neither its body nor another copy of its text: what is open is bounded by what it says."""
    judge_process.restore()
    with serving(genrm, *judge_flags(judge_process.base_url), "--drain", "0.1s") as served:
        before = served.memory_bytes()
        for number in range(40):
            text = f"{number} " + "word " * 200_000
            served.begin_member(f"g{number}", 0, size=2, messages="Why?", text=text)
        served.wait_for(waiting=40)
        assert served.memory_bytes() - before < 1.6 * 40 * 1_000_000
