import json
import socket

import pytest
from genrm_process import make_rollouts


@pytest.mark.parametrize(
    ("behaviour", "path", "says"),
    [
        ({"require_key": "secret"}, "/v1", ("auth", "401", "GENRM_API_KEY")),
        ({}, "", ("404", "--base-url", "/v1")),
    ],
)
def test_a_judge_that_cannot_be_used_is_found_at_once(
    genrm,
    call,
    judge_server,
    behaviour,
    path,
    says,
):
    """The probe ends the run with 4 within seconds: URL, model, cause and remedy are said, there
    are no outputs.
    """
    judge_server.behave(**behaviour)
    genrm.write("in.jsonl", make_rollouts())
    base_url = judge_server.base_url.removesuffix("/v1") + path
    finished = call("score in.jsonl", "--base-url", base_url, "--model", "m", "--json")
    assert finished.code == 4
    for text in (base_url, "'m'", *says):
        assert text in finished.err
    judge, plan, probing, error, done = finished.err.splitlines()
    assert probing.startswith("probing ")
    assert judge.startswith("judge: m, profile nemotron-plain (default), ")
    assert done.startswith("genrm: failed: 1 file: 1 skipped; ")
    assert done.endswith("; exit 4")
    printed = json.loads(finished.out)
    assert printed["exit_code"] == 4
    assert error.startswith(
        f"genrm: error: {printed['error'][:60]}"
    )  # the JSON names settings, the message flags
    assert plan.startswith("8 comparisons")
    assert error.startswith("genrm: error: ")
    assert genrm.names() == {"in.jsonl"}
    assert judge_server.stats()["requests"] <= 2


@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.slow), "https"])
def test_a_judge_that_is_down_is_found_at_once(genrm, call, judge_server, scheme):
    """No server, or a server without TLS: exit code 4 with the cause in words, and no outputs."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, never listening
        port = nobody.getsockname()[1] if scheme == "http" else judge_server.port
        genrm.write("in.jsonl", make_rollouts())
        url = f"{scheme}://127.0.0.1:{port}/v1"
        finished = call("score in.jsonl", "--base-url", url, "--model", "m")
    assert finished.code == 4
    for text in (url, "'m'", "connection", "--base-url"):
        assert text in finished.err
    assert "refused" in finished.err or scheme == "https"
    assert genrm.names() == {"in.jsonl"}


@pytest.mark.slow
def test_a_proxy_in_the_environment_does_not_catch_loopback_calls(genrm, judge_server):
    """NO_PROXY is honoured, so that a judge on this machine is reached from behind a company's
    proxy.
    """
    genrm.write("in.jsonl", make_rollouts(groups=1, size=2))
    proxies = {
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }
    assert genrm.run("score in.jsonl", *judge_server.flags, **proxies).code == 0


def test_a_busy_judge_passes_the_probe(genrm, call, judge_server):
    """429 means that the judge is up: the run continues and waits for its turn."""
    judge_server.behave(script=[{"status": 429}])
    genrm.write("in.jsonl", make_rollouts(groups=1, size=2))
    call("score in.jsonl", *judge_server.flags).ended(0)
    assert judge_server.stats()["by_status"] == {
        "200": 2,
        "429": 1,
    }


@pytest.mark.parametrize(
    ("behaviour", "path", "said"),
    [
        ({"require_key": "secret"}, "/v1", ("HTTP 401", "GENRM_API_KEY")),
        ({}, "/v2", ("HTTP 404", "--base-url", "--model")),
    ],
)
def test_without_a_probe_what_no_wait_cures_ends_the_run_at_once(
    genrm, call, judge_server, behaviour, path, said
):
    """A wrong key or address is told with its remedy after a trial call, and not waited for."""
    judge_server.behave(**behaviour)
    genrm.write("in.jsonl", make_rollouts(groups=3, size=4))
    base_url = judge_server.base_url.removesuffix("/v1") + path
    finished = call("score in.jsonl", "--base-url", base_url, "--model", "m", "--no-probe").ended(4)
    for text in (base_url, "cannot be used", "journal", *said):
        assert text in finished.err
    assert "giving up unless" not in finished.err
    assert genrm.names() == {"in.jsonl"}
