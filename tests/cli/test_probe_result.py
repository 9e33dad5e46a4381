"""The probe's result goes with the rewards: into the summary, the metrics and the report."""

import pytest
from genrm_process import make_rollouts

GREEN = "Nothing measured here speaks against it"


def probe_of(genrm):
    """Return the result of the probe in the metrics."""
    return genrm.metrics()["judge"]["probe"]


@pytest.fixture
def judged(genrm):
    """Give a test rollouts whose rewards have nothing to do with length."""
    genrm.write(
        "in.jsonl",
        [{"prompt": "Q?", "responses": [f"Answer {n}" for n in "abcd"]} for _ in range(40)],
    )
    return genrm


def test_a_skipped_probe_is_told_and_the_report_is_not_green(judged, call, judge_server):
    """Verdicts in the journal stay unprobed ones until the judge passes; then those of its calls
    are probed.
    """
    judge = (
        *judge_server.flags,
        "--strategy",
        "all_pairs",
        "--both-orders",
    )
    skipped = call("score in.jsonl --no-probe --profile nemotron", *judge).ended(0)
    assert f"{judge_server.base_url}, probe skipped" in skipped.err
    assert probe_of(judged) == "skipped"
    report = call("report in.scored.jsonl -o report.html")
    assert GREEN not in report.err, report.err
    assert "The judge was not probed" in report.err, report.err
    assert call("score in.jsonl --profile nemotron --force", *judge).code == 0
    assert probe_of(judged) == "skipped"
    assert call("score in.jsonl --profile nemotron --force --repeats 2", *judge).code == 0
    assert probe_of(judged) == "passed"


def test_a_passed_probe_is_known_to_a_run_that_asks_nothing(genrm, call, judge_server):
    """Even with --no-probe: the journal knows. The baseline has no probe."""
    genrm.write("in.jsonl", make_rollouts())
    assert call("score in.jsonl", *judge_server.flags).code == 0
    assert probe_of(genrm) == "passed"
    finished = call("score in.jsonl --force --no-probe", *judge_server.flags)
    assert probe_of(genrm) == "passed"
    assert "probe skipped" not in finished.err
    assert call("score in.jsonl --offline -o lexical.jsonl").code == 0
    assert genrm.metrics("lexical")["judge"]["probe"] is None


def test_an_endpoint_that_was_down_leaves_the_probe_incomplete(
    genrm, call, judge_server, start_judge
):
    """The other one works, and the rewards say that not all of the judge was tested."""
    other = start_judge()
    other.kill()
    genrm.write("in.jsonl", make_rollouts())
    finished = call("score in.jsonl", *judge_server.flags, "--base-url", other.base_url)
    assert (finished.code, probe_of(genrm)) == (0, "incomplete"), finished.err
    assert "probe incomplete" in finished.err
