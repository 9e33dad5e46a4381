"""What a server does with requests that no product of it answers."""

import contextlib
import resource
import socket
import time

import httpx
import pytest
from genrm_process import read_lines
from polling import poll_until
from served import GROUP, MEMBER, TOKEN

from genrm_cli.http_server.server import listen_on
from genrm_cli.settings.file_settings import ServeSettings


def test_without_the_token_nobody_is_answered(limited):
    """401 for groups and metrics; health and readiness need none. The token is never shown."""
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic dG9rZW4="}):
        for reply in (
            httpx.post(f"{limited.url}/v1/groups", headers=header),
            httpx.get(f"{limited.url}/metrics", headers=header),
        ):
            assert reply.status_code == 401
            assert reply.headers["WWW-Authenticate"] == "Bearer"
    assert httpx.get(f"{limited.url}/healthz").json()["status"] == "ok"
    assert not any(TOKEN in line for line in limited.messages)


def test_a_large_body_is_refused(limited):
    """413, whether its length is declared or not."""
    body = b'{"messages": "' + b"x" * 300_000 + b'"}'
    for content in (body, iter([body[:150_000], body[150_000:]])):
        assert limited.client.post("/v1/groups", content=content).status_code == 413


@pytest.mark.slow
def test_half_a_request_is_cut_off(serve):
    """Neither a head nor a body may arrive for longer than `--read-timeout`."""
    head = b"POST /v1/groups HTTP/1.1\r\nHost: localhost\r\n"
    cases = ((b"", b""), (head[:-4], b""), (head + b"Content-Length: 99\r\n\r\n{", b" 408 "))
    with serve("--no-probe --read-timeout 0.3s --drain 0.1s") as served:
        for sent, said in cases:
            with socket.create_connection(served.address, timeout=60) as connection:
                connection.sendall(sent)
                received = b"".join(iter(lambda: connection.recv(65_536), b""))
                assert said in received
                assert bool(said) is bool(received)
        late = served.begin_member("slow", 0, **MEMBER)
        served.wait_for(waiting=1)
        time.sleep(0.5)  # a request that has arrived may wait for longer
        assert served.post("/v1/cohorts/slow/members/1", MEMBER).is_success
        assert late.reply().is_success


@pytest.mark.slow
def test_more_clients_than_descriptors_are_refused_and_nothing_else_fails(serve, genrm):
    """429 for a request, silence for a flood; no traceback fills the log, and what waits is
    answered.
    """
    flags = "--record served --record-every 1s --drain 0.1s"
    with serve(flags) as served, contextlib.ExitStack() as stack:
        resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (64 + 60,) * 2)

        def begin(*places):
            fields = {"size": 26, "messages": "Why?"}
            return [served.begin_member("many", n, text=f"{n} w", **fields) for n in places]

        def connect(count):
            for _ in range(count):
                stack.enter_context(socket.create_connection(served.address, timeout=60))

        def is_refused():
            # On a connection of its own: one that was there before is not refused.
            return httpx.get(f"{served.url}/metrics").status_code == 429

        waiting = begin(*range(24))
        served.wait_for(waiting=24)
        served.group(**GROUP)
        connect(10)
        poll_until(is_refused)
        connect(200)
        time.sleep(1.5)  # the group is due for its file
        assert not any(each.is_over for each in waiting)
        stack.close()
        poll_until(lambda: not is_refused())
        waiting += begin(24, 25)
        assert {each.reply().status_code for each in waiting} == {200}
        assert served.terminate() == 0
    files = (genrm.folder / "served").glob("*.scored.jsonl")
    assert sum(len(read_lines(path)) for path in files) == 2 + 26


def test_a_wrong_path_or_method_says_what_there_is(served):
    """As JSON, like every other error; a slash too many is no redirect, which would go to the host
    that the client names.
    """
    for path in ("/v2/groups", "/metrics/", "/v1/groups/", "/healthz/"):
        missing = served.get(path)
        assert missing.status_code == 404
        assert "there are /v1/groups, /v1/cohorts/{group_id}/" in missing.json()["error"]["message"]
    wrong = served.get("/v1/groups")
    assert wrong.status_code == 405
    assert wrong.json()["error"]["message"] == "this path takes POST"


@pytest.mark.parametrize(
    "path", ["/v1/groups", "/v1/cohorts/g/members/0", "/verify", "/compare", "/openrlhf"]
)
def test_what_is_not_json_is_refused(served, path):
    """A torn body, and one that is no object."""
    for body in ('{"messages": ', "[NaN]"):
        reply = served.client.post(path, content=body)
        assert reply.status_code == 422
        assert "JSON" in reply.text


def test_replies_on_a_kept_connection_are_not_held_back():
    """The listening socket passes TCP_NODELAY to the connections that it accepts."""
    with (
        listen_on(ServeSettings(listen="127.0.0.1:0"), has_token=False) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
