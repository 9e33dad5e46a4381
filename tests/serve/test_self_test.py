"""`genrm serve --self-test`: with a good judge, with one that is down, and against a server that runs."""

import asyncio
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from served import judge_flags, serving

from genrm_cli.catalog import SELF_TESTS
from genrm_cli.errors import GenrmError
from genrm_cli.serve.self_test import TRAINERS, probe_server


@contextmanager
def answering_anything():
    """Keep a server that answers every request with an empty object; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_every_trainer_of_the_catalog_has_a_test():
    """Names that users may type, and functions behind them."""
    assert tuple(TRAINERS) == SELF_TESTS


@pytest.mark.parametrize("trainer", SELF_TESTS)
def test_a_server_that_works_passes(served, trainer):
    """Against a server that runs: each claim that holds is told."""
    claims = []
    asyncio.run(probe_server(trainer, served.url, None, claims.append))
    assert any(claim.startswith("rewards of 4 responses: ") for claim in claims)


@pytest.mark.parametrize("trainer", SELF_TESTS)
def test_what_is_no_reward_server_fails(trainer):
    """A server that answers every request with `{}` passes no test."""
    with answering_anything() as url, pytest.raises(GenrmError, match="expected"):
        asyncio.run(probe_server(trainer, url, None, lambda claim: None))


def test_a_server_of_its_own_keeps_nothing(genrm, judge_server):
    """It starts with the judge that is given, wants the token that is set, and writes no file."""
    ended = genrm.run(
        "serve", *judge_flags(judge_server.base_url), "--self-test", "verl", GENRM_SERVE_TOKEN="a-long-token"
    )
    assert ended.code == 0, ended.err
    assert "ok  a refusal of another token" in ended.err
    assert "ok  the same reward for a copy of a sample" in ended.err
    assert "genrm: rewards reach verl as it needs them" in ended.err
    assert genrm.names() == set()
    assert not genrm.state_folder.exists()


@pytest.mark.parametrize(
    ("trainer", "said"),
    [
        ("trl", "rewards: 4 of 4 responses have none"),
        pytest.param("slime", "POST /slime?size=4: 503", marks=pytest.mark.slow),
    ],
)
def test_a_judge_that_gives_no_verdicts_is_named(genrm, judge_server, trainer, said):
    """Exit code 4, with the reason."""
    judge_server.behave(fault={"content": "Both are nice."})
    flags = (*judge_flags(judge_server.base_url), "--no-probe", "--reask", "0")
    ended = genrm.run("serve", *flags, "--self-test", trainer)
    assert ended.code == 4
    assert said in ended.err


@pytest.mark.slow
def test_a_judge_that_is_down_is_named(genrm):
    """Exit code 4, before anything is sent."""
    ended = genrm.run("serve", *judge_flags("http://127.0.0.1:9/v1"), "--retries", "0", "--self-test", "openrlhf")
    assert ended.code == 4
    assert "the judge cannot be used" in ended.err


def test_a_wrong_token_is_named(genrm, judge_server):
    """Exit code 2, with the variable that holds it."""
    with serving(genrm, *judge_flags(judge_server.base_url), GENRM_SERVE_TOKEN="the-right-one") as guarded:
        ended = genrm.run(
            "serve", "--self-test", "trl", "--self-test-url", guarded.url, GENRM_SERVE_TOKEN="another-one"
        )
    assert ended.code == 2
    assert "401" in ended.err
    assert "Set GENRM_SERVE_TOKEN" in ended.err


def test_an_unknown_trainer_is_refused(genrm):
    """The message lists those that are known."""
    ended = genrm.run("serve", "--self-test", "ppo")
    assert ended.code == 2
    assert "trl, verl, openrlhf, slime, nemo-gym" in ended.err
