"""What a judge's client does on the wire, over each library that can send its requests."""

import asyncio
import contextlib
import gzip
import io
import ssl
import sys
import zlib
from datetime import UTC, datetime, timedelta
from functools import partial

import calling
import orjson
import pytest
from batch_server import serving
from calling import BODY, KEY, TIMEOUT_S, check_passing, complete, failed_call, use
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from small_server import answering, answering_each, completion

from genrm_cli.errors import UsageError
from genrm_cli.judging.http.choice import _find_class
from genrm_cli.judging.http.interface import MAX_REPLY_BYTES, HttpOptions, HttpReply
from genrm_cli.judging.http.over_httpx import HttpxClient
from genrm_cli.verdicts import FailureKind

OK = completion("ok")
COMPLETION = OK[2]
# As `openssl req -x509 -newkey ec -nodes -subj /CN=localhost -addext subjectAltName=...` makes it:
# an authority and a server in one.
OWN_CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgq7aQgUDt4jeBJrTT
acZ87EHiLJpjh/diXTJ+yGJaB7ShRANCAATkwSLcV4o/J+uYlD4c/kJqsTG7UIA5
id9tw0baxvgZ4sLgipX29Vi97xifV4I2OzHSZKiwmIh+WkTpTWLi7zJ3
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBnDCCAUGgAwIBAgIUNg+4lQ3CJ/jmwugLJCg2OaHNyZswCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNDE3MDYxNFoYDzIxMjYxMDMx
MTcwNjE0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATkwSLcV4o/J+uYlD4c/kJqsTG7UIA5id9tw0baxvgZ4sLgipX29Vi9
7xifV4I2OzHSZKiwmIh+WkTpTWLi7zJ3o28wbTAdBgNVHQ4EFgQUndbRGldAyJQp
R9YRUKVHIDUxWk8wHwYDVR0jBBgwFoAUndbRGldAyJQpR9YRUKVHIDUxWk8wDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSQAwRgIhAMvR9bg99SYdZUMoejNgDdi/2kuOJNfdW0+tJqNO6ViBAiEA
oRBKiBaiHiLiNWA5iB/DJXwY04TdOGVErbq0r7APijY=
-----END CERTIFICATE-----
"""


@pytest.fixture(params=["pyreqwest", "httpx"])
def open_client(request):
    """Return what opens a client of a URL, over each library in turn."""
    return partial(calling.open_client, http_client=request.param)


@pytest.fixture
def without_proxy(monkeypatch):
    """Keep the proxies of this machine out of a test."""
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_call_is_json_with_the_key(open_client):
    """The request says what it is and who asks; the reply arrives as the server gave it."""
    with answering(OK) as (url, seen):
        assert complete(open_client(url, api_key=KEY)).text == "ok"
    path, sent, body = seen[0]
    assert path == "/chat/completions"
    assert body == orjson.loads(BODY)
    assert sent["content-type"] == "application/json"
    assert sent["authorization"] == f"Bearer {KEY}"
    assert sent["user-agent"] == "genrm"
    assert sent["accept-encoding"] == "gzip"


@pytest.mark.parametrize("reset", ["before", "mid_body"])
def test_a_reset_is_a_connection_failure(open_client, judge_server, reset):
    """A connection that breaks, even in the middle of a reply, is a failure that may pass."""
    judge_server.behave(fault={"reset": reset})
    error = failed_call(open_client(judge_server.base_url))
    check_passing(error, FailureKind.CONNECTION)


def test_a_refused_connection_says_so(open_client):
    """The failure names the cause, not only that something failed."""
    error = failed_call(open_client("http://127.0.0.1:9/v1"))
    check_passing(error, FailureKind.CONNECTION, "refused")


@pytest.mark.parametrize("fault", [{"hang": True}, {"trickle_s": 0.05}])
def test_the_call_timeout_covers_the_whole_call(open_client, judge_server, fault):
    """A reply that never comes, or comes byte by byte, ends at the limit for the call."""
    judge_server.behave(fault=fault)
    error = failed_call(open_client(judge_server.base_url), 0.3)
    check_passing(error, FailureKind.TIMEOUT, "0.3 s")
    judge_server.wait_until(lambda stats: stats["in_flight"] == 0)


def test_connections_are_kept_and_bounded(open_client, judge_server):
    """Calls in turn share one connection; more calls at once than connections wait for one."""

    async def act(client):
        for _ in range(5):
            await client.complete(BODY, TIMEOUT_S)
        alone = judge_server.stats()["max_connections"]
        await asyncio.gather(*(client.complete(BODY, TIMEOUT_S) for _ in range(20)))
        return alone

    judge_server.behave(latency_s=0.01)
    alone = use(open_client(judge_server.base_url), act)
    stats = judge_server.stats()
    # The stats come over a connection of their own.
    assert alone <= 2
    assert stats["max_in_flight"] <= 4
    assert stats["max_connections"] <= 5
    assert stats["requests"] == 25


@pytest.mark.parametrize("packed", [False, True])
def test_a_body_without_end_is_cut_off(open_client, judge_server, packed):
    """A reply over the limit is read no further, and counts as a bad body like any other."""
    judge_server.behave(
        fault={
            "huge_bytes": MAX_REPLY_BYTES + 1,
            "chunked": not packed,
            "gzip": packed,
        }
    )
    error = failed_call(open_client(judge_server.base_url), 60)
    check_passing(error, FailureKind.BAD_BODY, "longer")


def test_packed_replies_are_read(open_client):
    """gzip is unpacked; what is torn, or packed in a way nobody asked for, is a bad body."""
    content = orjson.dumps(COMPLETION)
    good = gzip.compress(content[:9]) + gzip.compress(content[9:])
    bad = [
        ("gzip", good[:-9]),
        ("gzip", content),
        ("br", content),
        ("gzip, gzip", good),
    ]
    replies = [(200, {"Content-Encoding": name}, body) for name, body in [("gzip", good), *bad]]
    with answering(*replies) as (url, _):
        assert complete(open_client(url)).text == "ok"
        for _ in bad:
            error = failed_call(open_client(url))
            check_passing(error, FailureKind.BAD_BODY)


def test_a_bomb_is_unpacked_no_further_than_the_limit():
    """However much a small body would unpack to, it ends with one piece beyond the limit, and
    nothing of it is kept: the traceback of a failed call lives for a while.
    """
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    zeros = bytes(1_000_000)
    bomb = b"".join(packer.compress(zeros) for _ in range(34)) + packer.flush()
    reply = HttpReply(200, {"content-encoding": "gzip"}, None)
    assert not reply.feed(bomb)
    assert reply.fault is not None
    assert reply.body == b""
    written = 0

    def write(piece):
        nonlocal written
        assert len(piece) <= 1_000_000
        written += len(piece)

    reply = HttpReply(200, {"content-encoding": "gzip"}, write)
    for start in range(0, len(bomb), 1_000):
        assert reply.feed(bomb[start : start + 1_000])
    reply.end()
    assert written == 34_000_000
    assert reply.fault is None
    assert reply.body == b""


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (429, {"Retry-After": "\xff"}, "HTTP 429: slow down"),
        (302, {"Location": "http://h/\xe4"}, "redirect to (not ASCII), not followed"),
        (302, {}, "redirect to nowhere, not followed"),
    ],
)
def test_headers_that_are_not_ascii_are_unreadable(open_client, status, headers, words):
    """A header with other bytes than ASCII is a failure of the call, like any other status."""
    with answering((status, headers, {"error": {"message": "slow down"}})) as (url, _):
        error = failed_call(open_client(url))
    assert words in error.failure.detail
    assert error.may_pass
    assert error.retry_after_s is None


def test_redirects_are_not_followed(open_client, judge_server, start_judge):
    """The key stays with the host that it was given for: the place redirected to gets no
    request.
    """
    other = start_judge()
    location = {"Location": f"{other.base_url}/chat/completions"}
    judge_server.behave(fault={"status": 307, "headers": location})
    error = failed_call(open_client(judge_server.base_url, api_key=KEY))
    assert f"redirect to {other.base_url}" in error.failure.detail
    assert other.stats()["requests"] == 0


def test_a_batch_is_uploaded_and_fetched(open_client):
    """A file goes up as a form; one longer than any reply comes down piece by piece."""
    with serving() as server:
        content = b'{"custom_id": "1"}\n'
        uploaded = use(
            open_client(server.url),
            lambda client: client.call(
                "POST", "/files", TIMEOUT_S, upload=("requests.jsonl", io.BytesIO(content))
            ),
        )
        assert server.files[orjson.loads(uploaded)["id"]] == ("requests.jsonl", content)
        server.files["long"] = "replies.jsonl", b"x" * (MAX_REPLY_BYTES + 1)
        fetched = []
        rest = use(
            open_client(server.url),
            lambda client: client.call(
                "GET", "/files/long/content", 60, write=lambda piece: fetched.append(len(piece))
            ),
        )
    assert sum(fetched) == MAX_REPLY_BYTES + 1
    assert rest == b""
    assert max(fetched) <= 1_000_000


@pytest.mark.usefixtures("without_proxy")
def test_the_proxy_of_the_environment_is_used(open_client, monkeypatch):
    """Calls go through http_proxy, without a scheme too, except to hosts that no_proxy names."""
    with answering(OK, OK) as (url, seen):
        monkeypatch.setenv("http_proxy", url.removeprefix("http://"))
        monkeypatch.setenv("no_proxy", "judge.example")
        complete(open_client("http://judge.invalid/v1"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        complete(open_client(url))
    assert [path for path, *_ in seen] == [
        "http://judge.invalid/v1/chat/completions",
        "/chat/completions",
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.usefixtures("without_proxy")
def test_a_judge_on_this_machine_is_called_directly(open_client, monkeypatch, host):
    """No proxy sees its prompts, whatever the environment says."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with answering(OK) as (url, seen):
        port = url.rpartition(":")[2]
        complete(open_client(f"http://{host}:{port}"))
    assert len(seen) == 1


@pytest.mark.usefixtures("without_proxy")
def test_what_a_proxy_answers_names_the_proxy(open_client, monkeypatch):
    """Its page and its refused connection are not told as the judge's; what the judge's server says
    through it is.
    """
    said = {"error": {"message": "no such key"}}
    with answering((403, {}, b"<html>Forbidden</html>"), (403, {}, said)) as (url, _):
        monkeypatch.setenv("http_proxy", url.replace("://", "://user:s3cret@"))
        page = failed_call(open_client("http://judge.invalid/v1")).failure
        judges = failed_call(open_client("http://judge.invalid/v1")).failure
    monkeypatch.setenv("http_proxy", "http://user:s3cret@127.0.0.1:9")
    refused = failed_call(open_client("http://judge.invalid/v1")).failure
    assert page.kind == refused.kind == FailureKind.CONNECTION
    assert f"HTTP 403: <html>Forbidden</html> (through the proxy {url} of" in page.detail
    assert "through the proxy http://127.0.0.1:9 of the environment" in refused.detail
    assert "s3cret" not in page.detail + refused.detail
    assert judges.kind == FailureKind.AUTH
    assert judges.detail == "HTTP 403: no such key"


def test_bytes_after_a_reply_answer_no_other_request(open_client):
    """A connection that holds a second reply is closed, so that each call gets its own."""

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                asked = orjson.loads(await reader.readexactly(length))
                replies = b""
                for text in (asked["messages"][0]["content"], "surplus"):
                    body = orjson.dumps({"choices": [{"message": {"content": text}}]})
                    replies += b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                writer.write(replies)
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        asked = [f"text {number}" for number in range(8)]
        async with server, open_client(f"http://127.0.0.1:{port}/v1", max_connections=2) as client:
            bodies = [orjson.dumps({"messages": [{"content": text}]}) for text in asked]
            replies = await asyncio.gather(*(client.complete(body, TIMEOUT_S) for body in bodies))
        assert [reply.text for reply in replies] == asked

    asyncio.run(run())


def test_many_packed_members_cost_linear_time():
    """A file of a batch may have thousands of blocks; nearly empty ones are refused early."""
    block = bytes(range(256)) * 16
    blocks = HttpReply(200, {"content-encoding": "gzip"}, None)
    assert blocks.feed(gzip.compress(block) * 300)
    blocks.end()
    assert blocks.fault is None
    assert blocks.body == block * 300
    empty = HttpReply(200, {"content-encoding": "gzip"}, None)
    assert not empty.feed(gzip.compress(b"") * 1_000_000)
    assert "101 members" in str(empty.fault)


@pytest.mark.usefixtures("without_proxy")
def test_the_password_of_a_proxy_is_not_shown(monkeypatch):
    """An invalid proxy is named without its user, even where the error quotes the password."""
    for proxy in ("http://user:s3cret@proxy:99999x", "http://user:s3cret/2@proxy"):
        monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(ValueError, match="the proxy proxy") as caught:
            HttpxClient(HttpOptions("http://judge.invalid/v1", {}, 2, 1))
        assert "s3cret" not in str(caught.value)


@pytest.fixture
def own_certificate(tmp_path):
    """Return a file with the certificate of a server that signed its own, and its key."""
    path = tmp_path / "own.pem"
    path.write_text(OWN_CERTIFICATE, encoding="utf-8")
    return path


@pytest.mark.parametrize("http_client", ["auto", "httpx"])
def test_a_server_that_signed_its_own_certificate_is_trusted_by_name(
    own_certificate, http_client, monkeypatch
):
    """As with curl, the certificate is enough as bundle; without it the call fails and says why."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own_certificate)
    with answering_each(lambda _: OK, context) as (url, _):

        def client():
            place = url.replace("127.0.0.1", "localhost")
            return calling.open_client(place, http_client)

        monkeypatch.setenv("SSL_CERT_FILE", str(own_certificate))
        assert complete(client()).text == "ok"
        monkeypatch.delenv("SSL_CERT_FILE")
        error = failed_call(client())
    assert error.failure.kind == FailureKind.CONNECTION
    assert "certificate" in error.failure.detail.lower()


@pytest.fixture
def private_authority(tmp_path):
    """Return the files of an authority's certificate, and of a certificate for localhost that it
    signed, with its key.
    """
    now = datetime.now(UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in ("Ours", "it")]
    paths = []
    for number, (key, name) in enumerate(zip(keys, names, strict=True)):
        builder = x509.CertificateBuilder(names[0], name, key.public_key(), 7 + number)
        builder = builder.not_valid_before(now - timedelta(days=1))
        builder = builder.not_valid_after(now + timedelta(days=1))
        is_authority = x509.BasicConstraints(ca=number == 0, path_length=None)
        builder = builder.add_extension(is_authority, critical=True)
        if number:
            hosts = x509.SubjectAlternativeName([x509.DNSName("localhost")])
            builder = builder.add_extension(hosts, critical=False)
        signed = builder.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM)
        paths.append(tmp_path / f"{number}.pem")
        form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        paths[-1].write_bytes(signed + (key.private_bytes(*form) if number else b""))
    return paths


@pytest.mark.parametrize("http_client", ["pyreqwest", "httpx"])
def test_a_private_authority_is_trusted_by_both_clients(
    private_authority, http_client, monkeypatch
):
    """SSL_CERT_FILE adds it to those of the system."""
    authority, server = private_authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    with answering_each(lambda _: OK, context) as (url, _):
        place = url.replace("127.0.0.1", "localhost")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert complete(calling.open_client(place, http_client)).text == "ok"
        monkeypatch.delenv("SSL_CERT_FILE")
        error = failed_call(calling.open_client(place, http_client))
    assert error.failure.kind == FailureKind.CONNECTION


def test_what_pyreqwest_cannot_trust_names_the_client_that_can(own_certificate, monkeypatch):
    """It takes no authority for a server; the error says what to set."""
    monkeypatch.setenv("SSL_CERT_FILE", str(own_certificate))
    with pytest.raises(UsageError, match=r"SSL_CERT_FILE=.* http_client='httpx'"):
        calling.open_client("https://localhost/v1", "pyreqwest")


def test_a_bundle_that_is_none_is_a_usage_error(open_client, tmp_path, monkeypatch):
    """A missing or senseless bundle is named before any call."""
    junk = tmp_path / "ca.pem"
    junk.write_bytes(gzip.compress(b"no certificate"))
    for path in (junk, tmp_path / "missing.pem", tmp_path):
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        with pytest.raises(UsageError, match="SSL_CERT_FILE="):
            open_client("https://localhost/v1")


@pytest.fixture
def without_pyreqwest(monkeypatch):
    """Make the imports fail that would find it."""
    for name in list(sys.modules):
        if name.startswith("pyreqwest"):
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "genrm_cli.judging.http.over_pyreqwest", raising=False)
    _find_class.cache_clear()
    yield
    _find_class.cache_clear()


@pytest.mark.usefixtures("without_pyreqwest")
def test_httpx_calls_where_pyreqwest_is_not_installed(judge_server):
    """`auto` falls back and says so; pyreqwest by name is an error, which names what is missing."""
    client = calling.open_client(judge_server.base_url)
    assert client.library == "httpx"
    assert complete(client).text == "ok"
    with pytest.raises(UsageError, match="http_client='pyreqwest' cannot be imported: "):
        calling.open_client(judge_server.base_url, "pyreqwest")


def test_httpx_calls_where_the_system_has_no_certificates(judge_server, tmp_path, monkeypatch):
    """As in a small container; pyreqwest by name is an error with the reason."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    client = calling.open_client(judge_server.base_url)
    assert client.library == "httpx"
    assert complete(client).text == "ok"
    with pytest.raises(UsageError, match=r"pyreqwest' cannot be used: .*No CA certificates"):
        calling.open_client(judge_server.base_url, "pyreqwest")
