"""Who may ask, how much, and what whoever operates the server sees."""

import asyncio
import contextlib
import resource
import signal
import socket
import time

import httpx
import pytest
from genrm_process import read_lines
from polling import poll_until
from served import TOKEN, texts

from genrm_cli.http_server.server import listen_on
from genrm_cli.metrics.event import ignore_event
from genrm_cli.products.serve import run
from genrm_cli.settings import settings_from
from genrm_cli.settings.file_settings import ServeSettings

KINDS = ("prompt", "completion")
GROUP = {"messages": "Why?", "responses": ["a", "b c"]}
MEMBER = {"size": 2, "messages": "Why?", "text": "one"}


def has_ipv6():
    """Whether this machine has the loopback address of IPv6."""
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


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
def test_a_full_queue_refuses_groups_but_no_member_of_an_open_cohort(limited, judge_server):
    """429 with Retry-After while three comparisons or more wait, of two groups here; the second
    member of an open cohort joins all the same.
    """
    refused_before = limited.metric("genrm_refused_requests_total")
    first = limited.begin_member("queued", 0, **MEMBER)
    limited.wait_for(waiting=1)
    judge_server.behave(latency_s=2.0)
    groups = [
        limited.begin("/v1/groups", {**GROUP, "messages": f"Busy {number}?"}) for number in range(2)
    ]
    limited.wait_for(waiting=3)
    refused = limited.post("/v1/groups", {**GROUP, "messages": "Too busy?"})
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    second = limited.begin_member("queued", 1, **MEMBER)
    assert [each.json()["group_status"] for each in (first, second)] == ["scored"] * 2
    assert [each.json()["status"] for each in groups] == ["scored"] * 2
    assert limited.metric("genrm_refused_requests_total") == refused_before + 1


@pytest.mark.parametrize(
    ("limit", "count", "text"), [("max_cohorts", 3, "a"), ("max_open_bytes", 2, "word " * 300)]
)
def test_a_full_server_refuses_new_cohorts_only(limited, limit, count, text):
    """429 for the first member of another one, and where bytes are short, for a group; members of
    those that are open still join, and then there is room again.
    """
    fields = {**MEMBER, "text": text}
    waiting = [limited.begin_member(f"{limit}-{number}", 0, **fields) for number in range(count)]
    limited.wait_for(waiting=count)
    group = {**GROUP, "id": limit}
    for path, body in (("/v1/cohorts/new/members/0", MEMBER), ("/v1/groups", group)):
        if path == "/v1/groups" and limit == "max_cohorts":
            continue
        refused = limited.post(path, body)
        assert refused.status_code == 429
        assert limit in refused.text
    fields["text"] += "b"
    waiting += [limited.begin_member(f"{limit}-{number}", 1, **fields) for number in range(count)]
    assert {each.reply().status_code for each in waiting} == {200}
    assert limited.group(**group)["status"] == "scored"


def test_the_metrics_count_what_happens(hurried):
    """Groups, comparisons, deadlines, repeated requests, latencies, the age of the oldest
    cohort.
    """
    names = (
        "genrm_deadlines_total",
        "genrm_repeated_requests_total",
        'genrm_groups_total{status="partial"}',
    )
    before = [hurried.metric(name) for name in names]
    given = (*enumerate(texts(2)), (0, texts(2)[0]))
    fields = {"size": 3, "messages": "Why?"}
    waiting = [hurried.begin_member("metered", n, text=text, **fields) for n, text in given]
    assert [each.reply().status_code for each in waiting] == [200] * 3
    assert [hurried.metric(name) for name in names] == [count + 1 for count in before]
    tokens = [hurried.metric(f'genrm_judge_tokens_total{{kind="{kind}"}}') for kind in KINDS]
    assert hurried.metric("genrm_judge_cost_total") == (tokens[0] + 7 * tokens[1]) / 1e6 > 0
    for name in (
        'genrm_comparisons_total{result="verdict"}',
        "genrm_judge_latency_seconds_count",
        "genrm_reward_spread_count",
    ):
        assert hurried.metric(name) > 0
    assert abs(hurried.metric("genrm_position_preference")) < 4
    assert hurried.metric("genrm_open_groups") == 0
    assert hurried.metric("genrm_oldest_group_age_seconds") == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--offline --listen 0.0.0.0:0", "reachable from other machines"),
        ("--offline --listen nowhere", "expected HOST:PORT"),
        ("--journal s3://bucket/x --base-url http://127.0.0.1:9/v1 --model m", "local disk"),
        ("--offline --unscored drop", "--on-failure"),
    ],
)
def test_settings_that_cannot_serve_are_refused(call, flags, said):
    """Exit code 2, with what to do; nothing listens."""
    ended = call("serve", *flags.split())
    assert ended.code == 2, ended.err
    assert said in ended.err


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_sigterm_on_the_first_message_ends_cleanly(host):
    """Whoever reads "listening on" may end the server at once; what it names is a URL."""
    if host == "[::1]" and not has_ipv6():
        pytest.skip("no IPv6 on loopback")
    # The command interrupts what it runs.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = settings_from(judge="lexical", listen=f"{host}:0", use_journal=False)
    urls = []

    def end(url):
        urls.append(url)
        signal.raise_signal(signal.SIGTERM)

    asyncio.run(run.serve(settings, {"": {}}, None, ignore_event, end))
    signal.signal(signal.SIGTERM, before)
    [url] = urls
    assert url.startswith(f"http://{host}:")


@pytest.mark.slow
def test_sigterm_answers_open_cohorts_and_takes_no_new_group(serve):
    """The second member of an open cohort still joins; a new group is told to come back; exit code
    0.
    """
    with serve("--drain", "200s") as served:
        first = served.begin_member("open", 0, **MEMBER)
        served.wait_for(waiting=1)
        served.signal()
        while served.get("/readyz").status_code == 200:
            pass
        refused = served.post("/v1/groups", GROUP)
        assert refused.status_code == 503
        assert "Retry-After" in refused.headers
        second = served.begin_member("open", 1, **MEMBER)
        assert [each.json()["group_status"] for each in (first, second)] == ["scored"] * 2
        assert served.wait() == 0


@pytest.mark.slow
def test_sigterm_ends_the_wait_after_the_drain(serve):
    """Whoever still waits then is told to ask again."""
    with serve("--drain", "0.5s") as served:
        waiting = served.begin_member("open", 0, **MEMBER)
        served.wait_for(waiting=1)
        assert served.terminate() == 0
        assert waiting.reply().status_code == 503
        assert "Retry-After" in waiting.reply().headers


@pytest.mark.slow
def test_half_a_request_is_cut_off(serve):
    """Neither a head nor a body may arrive for longer than `--read-timeout`."""
    head = b"POST /v1/groups HTTP/1.1\r\nHost: localhost\r\n"
    cases = ((b"", b""), (head[:-4], b""), (head + b"Content-Length: 99\r\n\r\n{", b" 408 "))
    flags = ("--no-probe", "--read-timeout", "0.3s", "--drain", "0.1s")
    with serve(*flags) as served:
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
    flags = ("--record", "served", "--record-every", "1s", "--drain", "0.1s")
    with (
        serve(*flags) as served,
        contextlib.ExitStack() as stack,
    ):
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
