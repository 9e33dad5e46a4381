"""The judge is tried before a run, and its result goes with the rewards: into the summary, the
metrics and the report.
"""

import json

import pytest

NO_PREFERENCE = {"verdict": {"score_1": 3, "score_2": 3, "ranking": 3}}


@pytest.mark.parametrize(
    ("behaviour", "path", "says"),
    [
        ({"require_key": "secret"}, "/v1", ("auth", "401", "GENRM_API_KEY")),
        ({}, "", ("404", "--base-url", "/v1")),
        (NO_PREFERENCE, "/v1", ("does not prefer a right answer to nonsense",)),
    ],
)
def test_a_judge_that_cannot_be_used_is_found_at_once(
    genrm, call, judge_server, behaviour, path, says
):
    """The probe ends the run with 4 within seconds: URL, model, cause and remedy are said, there
    are no outputs.
    """
    judge_server.behave(**behaviour)
    genrm.rollouts()
    base_url = judge_server.base_url.removesuffix("/v1") + path
    finished = call("score in.jsonl --model m --json --base-url", base_url).ended(4)
    for text in (base_url, "'m'", *says):
        assert text in finished.err
    judge, plan, probing, error, done = finished.err.splitlines()
    assert judge.startswith("judge: m, profile nemotron-plain (default), ")
    assert plan.startswith("8 comparisons")
    assert probing.startswith("probing ")
    printed = json.loads(finished.out)
    assert printed["exit_code"] == 4
    # The JSON names settings, the message flags.
    assert error.startswith(f"genrm: error: {printed['error'][:60]}")
    assert done.startswith("genrm: failed: 1 file: 1 skipped; ")
    assert done.endswith("; exit 4")
    assert genrm.names() == {"in.jsonl"}
    assert judge_server.stats()["requests"] <= 3


def test_a_judge_without_tls_is_found_at_once(genrm, call, judge_server):
    """Exit code 4 with the cause in words, and no outputs."""
    genrm.rollouts()
    url = judge_server.base_url.replace("http:", "https:")
    finished = call("score in.jsonl --model m --base-url", url).ended(4)
    for text in (url, "'m'", "connection", "--base-url"):
        assert text in finished.err
    assert genrm.names() == {"in.jsonl"}


def test_a_grader_that_cannot_be_read_is_named_with_its_component(genrm, call_judged, judge_server):
    """A judge that does not know rubrics ends the run with 4; the error begins with the component,
    and proposes no profile, which would not change how a rubric is asked.
    """
    genrm.rollouts()
    judge_server.behave(script=[{}] * 2, fault={"content": "I do not grade."})
    finished = call_judged("score in.jsonl --component rubric:helpfulness").ended(4)
    assert "genrm: error: component rubric: the judge cannot be used: " in finished.err
    assert "Give this component a stronger model." in finished.err
    assert "--profile" not in finished.err


@pytest.mark.slow
def test_a_proxy_in_the_environment_does_not_catch_loopback_calls(genrm, judge_server):
    """NO_PROXY is honoured, so that a judge on this machine is reached from behind a company's
    proxy.
    """
    genrm.rollouts(1, 2)
    proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    genrm.run("score in.jsonl", *judge_server.flags, NO_PROXY="127.0.0.1", **proxies).ended(0)


def test_a_busy_judge_passes_the_probe(genrm, call_judged, judge_server):
    """429 means that the judge is up: the run continues and waits for its turn."""
    judge_server.behave(script=[{"status": 429}])
    genrm.rollouts(1, 2)
    call_judged("score in.jsonl").ended(0)
    assert judge_server.stats()["by_status"] == {"200": 2, "429": 1}


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
    genrm.rollouts(3, 4)
    base_url = judge_server.base_url.removesuffix("/v1") + path
    finished = call("score in.jsonl --no-probe --model m --base-url", base_url).ended(4)
    for text in (base_url, "cannot be used", "journal", *said):
        assert text in finished.err
    assert "giving up unless" not in finished.err
    assert genrm.names() == {"in.jsonl"}


def probe_of(genrm, stem="in"):
    """Return the result of the probe in the metrics."""
    return genrm.metrics(stem)["judge"]["probe"]


def test_a_skipped_probe_is_told_and_the_report_is_not_green(
    genrm, call, call_judged, judge_server
):
    """Verdicts in the journal stay unprobed ones until the judge passes; then those of its calls
    are probed.
    """
    genrm.rollouts(2, 3)
    score = "score in.jsonl --force --profile nemotron"
    skipped = call_judged(f"{score} --no-probe").ended(0)
    assert f"{judge_server.base_url}, probe skipped" in skipped.err
    assert probe_of(genrm) == "skipped"
    assert "The judge was not probed" in call("report in.scored.jsonl").err
    call_judged(score).ended(0)
    assert probe_of(genrm) == "skipped"
    call_judged(f"{score} --repeats 2").ended(0)
    assert probe_of(genrm) == "passed"


def test_a_passed_probe_is_known_to_a_run_that_asks_nothing(genrm, call, call_judged):
    """Even with --no-probe: the journal knows. The baseline has no probe."""
    genrm.rollouts()
    call_judged("score in.jsonl").ended(0)
    assert probe_of(genrm) == "passed"
    finished = call_judged("score in.jsonl --force --no-probe")
    assert probe_of(genrm) == "passed"
    assert "probe skipped" not in finished.err
    call("score in.jsonl --offline -o lexical.jsonl").ended(0)
    assert probe_of(genrm, "lexical") is None


def test_an_endpoint_that_was_down_leaves_the_probe_incomplete(genrm, call_judged, start_judge):
    """The other one works, and the rewards say that not all of the judge was tested."""
    other = start_judge()
    other.kill()
    genrm.rollouts()
    finished = call_judged("score in.jsonl", "--base-url", other.base_url).ended(0)
    assert probe_of(genrm) == "incomplete"
    assert "probe incomplete" in finished.err
