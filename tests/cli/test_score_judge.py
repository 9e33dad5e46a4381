import statistics
from collections import defaultdict

import pytest
from genrm_process import make_rollouts, read_lines
from judge_behaviour import choose_verdict

MODEL = "nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603"
PROBES = 2  # calls of the probe when all is well
MEAN = ("--estimator", "simple_tiebreaker")  # rewards that can be read off the verdicts


def judge(server, *more):
    """Name a judge on the command line."""
    return (
        "--base-url",
        server.base_url,
        "--model",
        MODEL,
        *more,
    )


def implied_rewards(answers):
    """Work out by hand what a judge that prefers the longer answer gives a circle of
    comparisons.
    """
    scores = defaultdict(list)
    for i in range(len(answers)):
        j = (i + 1) % len(answers)
        first, second, ranking = choose_verdict("by_length", [], (answers[i], answers[j]))
        tie = 3.5 - ranking if first == second else 0.0
        scores[i].append(first + tie)
        scores[j].append(second - tie)
    return [statistics.fmean(scores[place]) for place in range(len(answers))]


@pytest.mark.parametrize("profile", ["nemotron", "nemotron-plain"])
def test_a_real_judge_gives_the_rewards_that_its_verdicts_imply(genrm, call, judge_server, profile):
    """Every comparison is asked once, and the rewards are those of the judge's verdicts, for any
    profile.
    """
    lines = make_rollouts(groups=3, size=4)
    lines[1]["completion"] = lines[2]["completion"][
        ::-1
    ]  # as long as its neighbour: a tie of the scores
    genrm.write("in.jsonl", lines)
    circle = ("--strategy", "circular", *MEAN)
    finished = call("score in.jsonl", *judge(judge_server, "--profile", profile, *circle)).ended(0)
    after = read_lines(genrm.folder / "in.scored.jsonl")
    answers = [line["completion"] for line in lines]
    expected = [
        reward for start in (0, 4, 8) for reward in implied_rewards(answers[start : start + 4])
    ]
    assert [line["reward"] for line in after] == pytest.approx(expected)
    assert all(
        line["genrm"]["judge"] == MODEL and not line["genrm"]["is_baseline"] for line in after
    )
    stats = judge_server.stats()
    assert stats["requests"] == 12 + PROBES
    assert stats["repeat_answers"] == 0
    metrics = genrm.metrics()
    assert metrics["calls"] == 12
    assert metrics["retries"] == 0
    assert metrics["verdicts"] == 12
    assert metrics["failures"] == 0
    assert metrics["comparisons_planned"] == 12
    assert metrics["journal_hits"] == 0
    assert metrics["partial"] is False
    assert metrics["prompt_tokens"] > 0
    assert metrics["completion_tokens"] > 0
    assert metrics["judge"]["profile"] == profile
    assert "built-in lexical baseline" not in finished.err


@pytest.mark.parametrize(
    ("environment", "arguments", "expected"),
    [
        ({}, (), None),
        ({"GENRM_API_KEY": "k1", "OPENAI_API_KEY": "k2"}, (), "Bearer k1"),
        ({"OPENAI_API_KEY": "k2"}, (), "Bearer k2"),
        ({"MINE": "k3", "GENRM_API_KEY": "k1"}, ("--api-key-env", "MINE"), "Bearer k3"),
    ],
)
def test_a_key_is_sent_when_there_is_one(
    call,
    judge_server,
    environment,
    arguments,
    expected,
):
    """Without a key there is no Authorization header; with one, the named variable goes before the
    usual two.
    """
    call("compare -p Why? a b", *judge(judge_server, *arguments), **environment).ended(0)
    headers = [request["headers"] for request in judge_server.stats()["recent"]]
    assert {header.get("authorization") for header in headers} == {expected}


def test_the_concurrency_is_used_and_never_exceeded(genrm, call, judge_server):
    """With --concurrency 8 the judge sees eight calls at once, no more, over no more
    connections.
    """
    judge_server.behave(latency_s=0.03)
    genrm.write("in.jsonl", make_rollouts(groups=10, size=4))
    assert call("score in.jsonl", *judge(judge_server, "--concurrency", 8)).code == 0
    stats = judge_server.stats()
    assert stats["max_in_flight"] == 8
    assert stats["max_connections"] <= 8 + 1  # one is the test's own
    assert stats["requests"] == 40 + PROBES


def test_some_failures_leave_the_rest_scored(genrm, call, judge_server):
    """Rollouts with one verdict left are scored on it; the failures are counted and kept out of the
    rewards.
    """
    judge_server.behave(fault={"content": "I would rather not."}, fault_share=0.3)
    lines = make_rollouts(groups=8, size=4)
    genrm.write("in.jsonl", lines)
    arguments = judge(judge_server, "--no-probe", "--max-unscored", 1, "--keep-replies", *MEAN)
    finished = call("score in.jsonl --max-extra 0 --min-verdicts 0", *arguments).ended(0)
    records = read_lines(genrm.folder / "in.comparisons.jsonl")
    failed = [record for record in records if record["failure"]]
    assert 0 < len(failed) < len(records) == 32
    for record in records:
        assert (
            (record["failure"] is None)
            == (record["score_1"] is not None)
            == (record["ranking"] is not None)
        )
        assert (
            record["reply"] == "I would rather not."
            if record["failure"]
            else "ranking" in record["reply"]
        )
    metrics = genrm.metrics()
    assert metrics["failures_by_kind"] == {"no_verdict": len(failed)}
    for line in read_lines(genrm.folder / "in.scored.jsonl"):
        detail = line["genrm"]
        assert detail["comparisons"] + detail["failed"] == 2
        assert (line["reward"] is None) == (detail["comparisons"] == 0)
        assert line["reward"] in (
            None,
            1.0,
            3.0,
            5.0,
        )  # means of the judge's 1s and 5s, no default among them
    assert f"{len(failed)} no_verdict (for example: " in finished.err


def test_a_judge_that_dies_in_mid_run_ends_with_6_and_honest_outputs(genrm, call, judge_server):
    """Calls after the judge's end are connection failures: nothing is made up, and the run still
    ends.
    """
    judge_server.behave(script=[{}] * (PROBES + 3), fault={"reset": "before"})
    genrm.write("in.jsonl", make_rollouts(groups=3, size=3))
    arguments = judge(judge_server, "--concurrency", 1, "--retries", 0)
    call("score in.jsonl", *arguments).ended(6)
    metrics = genrm.metrics()
    assert metrics["verdicts"] == 3
    assert metrics["failures_by_kind"] == {"connection": 6}
    rewards = [line["reward"] for line in read_lines(genrm.folder / "in.scored.jsonl")]
    assert rewards[3:] == [None] * 6
    assert None not in rewards[:3]


def test_the_http_client_changes_nothing_but_the_line_about_the_judge(genrm, call, judge_server):
    """The outputs are equal byte for byte; httpx, which is slower, is named."""
    genrm.write("in.jsonl", make_rollouts())
    outputs = []
    for client in ("pyreqwest", "httpx"):
        options = (
            "--http-client",
            client,
            "--no-journal",
            "--force",
        )
        finished = call("score in.jsonl", *judge(judge_server, *options)).ended(0)
        assert ("over httpx" in finished.err) == (client == "httpx")
        outputs.append((genrm.folder / "in.scored.jsonl").read_bytes())
    assert outputs[0] == outputs[1]
