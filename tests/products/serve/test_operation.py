"""Who may ask, how much, and what whoever operates the server sees."""

import asyncio
import contextlib
import re
import resource
import signal
import socket
import time

import httpx
import pytest
from served import judge_flags, serving, texts

from genrm_cli.http_server.server import listen_on
from genrm_cli.metrics.event import ignore_event
from genrm_cli.products.serve.run import serve
from genrm_cli.settings import settings_from
from genrm_cli.settings.file_settings import ServeSettings

KINDS = ("prompt", "completion")


def metric(served, name):
    """Return the value of a metric."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", served.get("/metrics").text, re.MULTILINE)
    assert found, name
    return float(found[1])


def has_ipv6():
    """Whether this machine has the loopback address of IPv6."""
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def test_without_the_token_nobody_is_answered(limited):
    """401 for groups and metrics; health and readiness need none. The token is never shown."""
    cases_0 = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic dG9rZW4="}]
    for header in cases_0:
        for path in ["/v1/groups", "/metrics"]:
            reply = httpx.request(
                "GET" if path == "/metrics" else "POST",
                limited.url + path,
                headers=header,
                trust_env=False,
                verify=False,
                timeout=300,
            )
            assert reply.status_code == 401
            assert reply.headers["WWW-Authenticate"] == "Bearer"
            assert (
                httpx.get(
                    limited.url + "/healthz", trust_env=False, verify=False, timeout=300
                ).json()["status"]
                == "ok"
            )
            assert not any("token-of-the-tests" in line for line in limited.messages)


def test_a_large_body_is_refused(limited):
    """413, whether its length is declared or not."""
    body = b'{"messages": "' + b"x" * 30_000 + b'"}'
    assert limited.client.post("/v1/groups", content=body).status_code == 413
    assert (
        limited.client.post("/v1/groups", content=iter([body[:15_000], body[15_000:]])).status_code
        == 413
    )


@pytest.mark.slow
def test_a_full_queue_refuses_groups_but_no_member_of_an_open_cohort(limited, judge_server):
    """429 with Retry-After while three comparisons or more wait, of two groups here; the second
    member of an open cohort joins all the same.
    """
    first = limited.begin_member("queued", 0, size=2, messages="Why?", text="one")
    limited.wait_for(waiting=1)
    judge_server.behave(latency_s=2.0)
    groups = [
        limited.begin(
            "/v1/groups",
            {"messages": f"Busy {number}?", "responses": [{"text": text} for text in texts(2)]},
        )
        for number in range(2)
    ]
    limited.wait_for(waiting=3)
    refused = limited.post(
        "/v1/groups",
        {
            "messages": "Too busy?",
            "responses": [{"text": "a"}, {"text": "b c"}],
        },
    )
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    second = limited.begin_member("queued", 1, size=2, messages="Why?", text="two and more")
    assert [each.json()["group_status"] for each in (first, second)] == ["scored"] * 2
    assert [each.json()["status"] for each in groups] == ["scored"] * 2
    assert metric(limited, "genrm_refused_requests_total") >= 1


def test_too_many_open_cohorts_refuse_another_one(limited):
    """429 for the first member of one more; members of those that are open still join."""
    fields = {
        "size": 2,
        "messages": "Why?",
        "text": "one",
    }
    waiting = [limited.begin_member(f"many-{number}", 0, **fields) for number in range(3)]
    limited.wait_for(waiting=3)
    assert limited.post("/v1/cohorts/many-3/members/0", fields).status_code == 429
    waiting += [
        limited.begin_member(f"many-{number}", 1, **fields | {"text": "two or so"})
        for number in range(3)
    ]
    assert [each.reply().status_code for each in waiting] == [200] * 6


def test_the_metrics_count_what_happens(hurried):
    """Groups, comparisons, deadlines, repeated requests, latencies, the age of the oldest
    cohort.
    """
    before = {
        name: metric(hurried, name)
        for name in (
            "genrm_deadlines_total",
            "genrm_repeated_requests_total",
            'genrm_groups_total{status="partial"}',
        )
    }
    fields = {
        "size": 3,
        "messages": "Why?",
    }
    waiting = [
        hurried.begin_member("metered", place, text=text, **fields)
        for place, text in enumerate(texts(2))
    ]
    waiting.append(hurried.begin_member("metered", 0, text=texts(2)[0], **fields))
    assert [each.reply().status_code for each in waiting] == [200] * 3
    assert {name: metric(hurried, name) - value for name, value in before.items()} == dict.fromkeys(
        before, 1.0
    )
    assert metric(hurried, 'genrm_comparisons_total{result="verdict"}') > 0
    tokens = [metric(hurried, f'genrm_judge_tokens_total{{kind="{kind}"}}') for kind in KINDS]
    assert metric(hurried, "genrm_judge_cost_total") == (tokens[0] + 7 * tokens[1]) / 1e6 > 0
    assert metric(hurried, "genrm_judge_latency_seconds_count") > 0
    assert -4 < metric(hurried, "genrm_position_preference") < 4
    assert metric(hurried, "genrm_open_groups") == 0
    assert metric(hurried, "genrm_oldest_group_age_seconds") == 0
    assert metric(hurried, "genrm_reward_spread_count") > 0


def test_settings_that_cannot_serve_are_refused(call):
    """Exit code 2, with what to do; nothing listens."""
    cases = [
        (["--listen", "0.0.0.0:0"], "reachable from other machines"),
        (["--listen", "nowhere"], "expected HOST:PORT"),
        (
            [
                "--journal",
                "s3://bucket/rl/x",
                "--base-url",
                "http://127.0.0.1:9/v1",
                "--model",
                "m",
            ],
            "local disk",
        ),
        (["--unscored", "drop"], "--on-failure"),
    ]
    for flags, said in cases:
        ended = (
            call("serve", "--offline", *flags) if "--model" not in flags else call("serve", *flags)
        )
        assert ended.code == 2, ended.err
        assert said in ended.err


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_sigterm_on_the_first_message_ends_cleanly(host):
    """Whoever reads "listening on" may end the server at once; what it names is a URL."""
    if host == "[::1]" and not has_ipv6():
        pytest.skip("no IPv6 on loopback")
    before = signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # the command interrupts what it runs
    settings = settings_from(judge="lexical", listen=f"{host}:0", use_journal=False)
    urls = []

    def end(url):
        urls.append(url)
        signal.raise_signal(signal.SIGTERM)

    asyncio.run(serve(settings, {"": {}}, None, ignore_event, end))
    signal.signal(signal.SIGTERM, before)
    [url] = urls
    assert url.startswith(f"http://{host}:")


@pytest.mark.slow
def test_sigterm_answers_open_cohorts_and_takes_no_new_group(genrm, judge_server):
    """The second member of an open cohort still joins; a new group is told to come back; exit code
    0.
    """
    with serving(genrm, *judge_flags(judge_server.base_url), "--drain", "200s") as served:
        first = served.begin_member("open", 0, size=2, messages="Why?", text="one")
        served.wait_for(waiting=1)
        served.signal()
        while served.get("/readyz").status_code == 200:
            pass
        refused = served.post(
            "/v1/groups",
            {
                "messages": "New?",
                "responses": [{"text": "a"}, {"text": "b c"}],
            },
        )
        assert refused.status_code == 503
        assert "Retry-After" in refused.headers
        second = served.begin_member("open", 1, size=2, messages="Why?", text="two words")
        assert [each.json()["group_status"] for each in (first, second)] == ["scored"] * 2
        assert served.wait() == 0


@pytest.mark.slow
def test_sigterm_ends_the_wait_after_the_drain(genrm, judge_server):
    """Whoever still waits then is told to ask again."""
    with serving(genrm, *judge_flags(judge_server.base_url), "--drain", "0.5s") as served:
        waiting = served.begin_member("open", 0, size=2, messages="Why?", text="one")
        served.wait_for(waiting=1)
        assert served.terminate() == 0
        assert waiting.reply().status_code == 503
        assert "Retry-After" in waiting.reply().headers


@pytest.mark.slow
def test_half_a_request_is_cut_off(genrm, judge_server):
    """Neither a head nor a body may arrive for longer than `--read-timeout`."""
    flags = [
        *judge_flags(judge_server.base_url),
        "--no-probe",
        "--read-timeout",
        "0.3s",
        "--drain",
        "0.1s",
    ]
    with serving(genrm, *flags) as served:
        host, port = served.url.removeprefix("http://").split(":")
        for sent, status in (
            (b"", b""),
            (b"POST /v1/groups HTTP/1.1\r\nHost: a", b""),
            (
                b"POST /v1/groups HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{",
                b"HTTP/1.1 408",
            ),
        ):
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(sent)
                assert (
                    b"".join(iter(lambda: connection.recv(65_536), b""))[: len(status) or None]
                    == status
                )
        late = served.begin_member("slow", 0, size=2, messages="Why?", text="one")
        served.wait_for(waiting=1)
        time.sleep(0.5)  # a request that has arrived may wait for longer
        assert served.post(
            "/v1/cohorts/slow/members/1",
            {
                "size": 2,
                "messages": "Why?",
                "text": "b c",
            },
        ).is_success
        assert late.reply().is_success


@pytest.mark.slow
def test_more_clients_than_descriptors_are_refused_and_nothing_else_fails(genrm, judge_server):
    """429 for a request, silence for a flood; no traceback fills the log, and what waits is
    answered.
    """
    flags = [
        *judge_flags(judge_server.base_url),
        "--record",
        "served",
        "--record-every",
        "1s",
        "--drain",
        "0.1s",
    ]
    with serving(genrm, *flags) as served, contextlib.ExitStack() as stack:
        resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (64 + 60,) * 2)
        waiting = [
            served.begin_member("many", n, size=26, messages="Why?", text=f"{n} w")
            for n in range(24)
        ]
        served.wait_for(waiting=24)
        served.group(messages="Why?", responses=[{"text": text} for text in texts(3)])
        host, port = served.url.removeprefix("http://").split(":")
        address = host, int(port)
        idle = [
            stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(10)
        ]
        # Each on a connection of its own: one that was there before is not refused.
        while httpx.get(f"{served.url}/metrics").status_code == 200:  # not all are accepted yet
            time.sleep(0.01)
        idle += [
            stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(200)
        ]
        time.sleep(1.5)  # the group is due for its file
        assert not any(each.is_over for each in waiting)
        stack.close()
        while httpx.get(f"{served.url}/metrics").status_code == 429:
            time.sleep(0.01)
        waiting += [
            served.begin_member("many", n, size=26, messages="Why?", text=f"{n} w")
            for n in (24, 25)
        ]
        assert {each.reply().status_code for each in waiting} == {200}
        assert served.terminate() == 0
    assert (
        sum(
            path.read_bytes().count(b"\n")
            for path in (genrm.folder / "served").glob("*.scored.jsonl")
        )
        == 3 + 26
    )


def test_a_slash_too_many_is_no_redirect(served):
    """A redirect would go to the host that the client names."""
    for path in ["/metrics/", "/v1/groups/", "/healthz/"]:
        assert served.get(path).status_code == 404


def test_a_wrong_path_or_method_says_what_there_is(served):
    """As JSON, like every other error."""
    missing = served.get("/v2/groups")
    assert missing.status_code == 404
    assert "there are /v1/groups, /v1/cohorts/{group_id}/" in missing.json()["error"]["message"]
    wrong = served.get("/v1/groups")
    assert wrong.status_code == 405
    assert wrong.json()["error"]["message"] == "this path takes POST"


def test_what_is_not_json_is_refused(served):
    """A torn body, and one that is no object."""
    cases_0 = ['{"messages": ', "[NaN]"]
    cases_1 = [
        "/v1/groups",
        "/v1/cohorts/g/members/0",
        "/verify",
        "/compare",
        "/openrlhf",
    ]
    for body in cases_0:
        for path in cases_1:
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
