"""A run with a judge: what it is asked, and what its verdicts and failures become."""

import statistics
from collections import defaultdict

import pytest

PROBES = 2  # calls of the probe when all is well
MEAN = "--estimator simple_tiebreaker"  # rewards that can be read off the verdicts


@pytest.mark.parametrize("profile", ["nemotron", "nemotron-plain"])
def test_a_real_judge_gives_the_rewards_that_its_verdicts_imply(
    genrm, call_judged, judge_server, profile
):
    """Every comparison is asked once, and the rewards are those of the judge's verdicts, for any
    profile.
    """
    genrm.rollouts(3, 4)
    words = f"score in.jsonl --strategy circular {MEAN} --profile {profile}"
    finished = call_judged(words).ended(0)
    scores = defaultdict(list)
    for record in genrm.lines("in.comparisons.jsonl"):
        scores[record["group"], record["i"]].append(record["score_1"])
        scores[record["group"], record["j"]].append(record["score_2"])
    for line in genrm.lines():
        detail = line["genrm"]
        expected = statistics.fmean(scores[detail["group"], detail["index"]])
        assert line["reward"] == pytest.approx(expected)
        assert (detail["judge"], detail["is_baseline"]) == ("m", False)
    stats = judge_server.stats()
    assert (stats["requests"], stats["repeat_answers"]) == (12 + PROBES, 0)
    metrics = genrm.metrics()
    counts = ("calls", "verdicts", "comparisons_planned", "failures", "retries", "journal_hits")
    assert [metrics[name] for name in counts] == [12, 12, 12, 0, 0, 0]
    assert metrics["judge"]["profile"] == profile
    assert "built-in lexical baseline" not in finished.err


@pytest.mark.parametrize(
    ("environment", "option", "expected"),
    [
        ({}, "", None),
        ({"GENRM_API_KEY": "k1", "OPENAI_API_KEY": "k2"}, "", "Bearer k1"),
        ({"MINE": "k3", "GENRM_API_KEY": "k1"}, "--api-key-env MINE", "Bearer k3"),
    ],
)
def test_a_key_is_sent_when_there_is_one(call_judged, judge_server, environment, option, expected):
    """Without a key there is no Authorization header; with one, the named variable goes before the
    usual two.
    """
    call_judged(f"compare -p Why? a b {option}", **environment).ended(0)
    headers = [request["headers"] for request in judge_server.stats()["recent"]]
    assert {header.get("authorization") for header in headers} == {expected}


def test_the_concurrency_is_used_and_never_exceeded(genrm, call_judged, judge_server):
    """With --concurrency 8 the judge sees eight calls at once, no more, over no more
    connections.
    """
    judge_server.behave(latency_s=0.03)
    genrm.rollouts(10, 4)
    call_judged("score in.jsonl --concurrency 8").ended(0)
    stats = judge_server.stats()
    assert stats["max_in_flight"] == 8
    assert stats["max_connections"] <= 8 + 1  # one is the test's own
    assert stats["requests"] == 40 + PROBES


def test_some_failures_leave_the_rest_scored(genrm, call_judged, judge_server):
    """Rollouts with one verdict left are scored on it; the failures are counted and kept out of the
    rewards.
    """
    refusal = "I would rather not."
    judge_server.behave(fault={"content": refusal}, fault_share=0.3)
    genrm.rollouts(8, 4)
    lenient = f"--max-extra 0 --min-verdicts 0 --max-unscored 1 --keep-replies --no-probe {MEAN}"
    finished = call_judged(f"score in.jsonl {lenient}").ended(0)
    records = genrm.lines("in.comparisons.jsonl")
    failed = [record for record in records if record["failure"]]
    assert 0 < len(failed) < len(records) == 32
    for record in records:
        numbers = (record["score_1"], record["ranking"])
        assert (None in numbers) == (record["reply"] == refusal) == bool(record["failure"])
    assert genrm.metrics()["failures_by_kind"] == {"no_verdict": len(failed)}
    for line in genrm.lines():
        detail = line["genrm"]
        assert detail["comparisons"] + detail["failed"] == 2
        assert (line["reward"] is None) == (detail["comparisons"] == 0)
        # Means of the judge's 1s and 5s, no default among them.
        assert line["reward"] in (None, 1.0, 3.0, 5.0)
    assert f"{len(failed)} no_verdict (for example: " in finished.err


def test_a_judge_that_dies_in_mid_run_ends_with_6_and_honest_outputs(
    genrm, call_judged, judge_server
):
    """Calls after the judge's end are connection failures: nothing is made up, and the run still
    ends.
    """
    judge_server.behave(script=[{}] * (PROBES + 3), fault={"reset": "before"})
    genrm.rollouts(3, 3)
    call_judged("score in.jsonl --concurrency 1 --retries 0").ended(6)
    metrics = genrm.metrics()
    assert (metrics["verdicts"], metrics["failures_by_kind"]) == (3, {"connection": 6})
    assert [line["reward"] is None for line in genrm.lines()] == [False] * 3 + [True] * 6


def test_the_http_client_changes_nothing_but_the_line_about_the_judge(genrm, call_judged):
    """The outputs are equal byte for byte; httpx, which is slower, is named."""
    genrm.rollouts()
    outputs = set()
    for client in ("pyreqwest", "httpx"):
        score = f"score in.jsonl --no-journal --force --http-client {client}"
        finished = call_judged(score).ended(0)
        assert ("over httpx" in finished.err) == (client == "httpx")
        outputs.add(genrm.text("in.scored.jsonl"))
    assert len(outputs) == 1
