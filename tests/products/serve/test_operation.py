"""Who may ask, how much, and what whoever operates the server sees."""

import asyncio
import contextlib
import signal
import socket

import pytest
from served import GROUP, MEMBER, texts

from genrm_cli.metrics.event import ignore_event
from genrm_cli.products.serve import run
from genrm_cli.settings import settings_from

KINDS = ("prompt", "completion")


def has_ipv6():
    """Whether this machine has the loopback address of IPv6."""
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


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
    refused = {"/v1/cohorts/new/members/0": MEMBER}
    if limit == "max_open_bytes":
        refused["/v1/groups"] = group
    for path, body in refused.items():
        reply = limited.post(path, body)
        assert reply.status_code == 429
        assert limit in reply.text
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
    with serve("--drain 200s") as served:
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
    with serve("--drain 0.5s") as served:
        waiting = served.begin_member("open", 0, **MEMBER)
        served.wait_for(waiting=1)
        assert served.terminate() == 0
        assert waiting.reply().status_code == 503
        assert "Retry-After" in waiting.reply().headers
