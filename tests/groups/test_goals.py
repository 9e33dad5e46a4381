"""Runs that look for the best rollout, or for the best and the worst."""

import json
import signal

import pytest
from genrm_process import make_rollouts, read_lines

import genrm_cli as genrm_api

RUN = (
    "--model",
    "m",
    "--no-probe",
    "--retries",
    "0",
    "--max-unscored",
    "1",
    "-q",
)
COSTS = (
    "latency_s",
    "from_journal",
    "attempts",
    "prompt_tokens",
    "completion_tokens",
    "journal_key",
)


def run_of(judge, *more):
    """Return the arguments that score the input for a goal."""
    return (
        "score",
        "in.jsonl",
        "--base-url",
        judge.base_url,
        *RUN,
        "--ring-k",
        "1.5",
        *more,
    )


def outputs_of(folder):
    """Return the scored lines, and the comparisons without their costs."""
    lines = read_lines(folder / "in.comparisons.jsonl")
    kept = [{name: value for name, value in line.items() if name not in COSTS} for line in lines]
    return (folder / "in.scored.jsonl").read_bytes(), kept


@pytest.mark.parametrize("goal", ["best", "pair"])
def test_the_dry_run_tells_the_calls(genrm, call, judge_server, goal):
    """Verdicts decide which pairs are asked, not how many; each is asked once, failed or not, and
    copies nothing.
    """
    judge_server.behave(verdict="hash", fault={"content": "no verdict"}, fault_share=0.2)
    lines = [*make_rollouts(groups=3, size=6), *make_rollouts(groups=5, size=3)[9:]]
    genrm.write("in.jsonl", [*lines, lines[0] | {"id": "copy"}])
    given = run_of(judge_server, "--goal", goal, "--ring-k", "1.5", "--max-extra", "0")
    told = json.loads(call(*given, "--dry-run", "--json").out)["results"][0]["plan"]["calls"]
    assert call(*given).code == 0
    assert judge_server.stats()["requests"] == told == genrm.metrics()["calls"]
    lines = read_lines(genrm.folder / "in.comparisons.jsonl")
    assert len({(line["group"], line["i"], line["j"]) for line in lines}) == len(lines) == told


@pytest.mark.parametrize("goal", ["best", "pair"])
@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_stopped_run_is_resumed_without_paying_twice(genrm, call, judge_server, goal, is_killed):
    """The resumed run follows the verdicts of the first one to the same pairs, and writes the same
    rewards.
    """
    genrm.write("in.jsonl", make_rollouts(groups=4, size=6))
    given = run_of(judge_server, "--goal", goal, "--concurrency", "4", "--force")
    judge_server.behave(verdict="hash")
    assert call(*given, "--no-journal").code == 0
    whole = outputs_of(genrm.folder)
    planned = judge_server.stats()["requests"]
    if is_killed:
        judge_server.behave(verdict="hash", script=[{}] * 17, fault={"hang": True})
        process = genrm.start(*given)
        judge_server.wait_until(lambda stats: stats["hangs"] == 4)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 130
        judge_server.behave(verdict="hash")
    else:
        assert call(*given, "--max-calls", "17").code == 6
    before = judge_server.stats()["requests"]
    assert call(*given).code == 0
    assert outputs_of(genrm.folder) == whole
    assert judge_server.stats()["requests"] - before == planned - 17


def test_errors_and_reliability_are_unknown(genrm, call, judge_server):
    """The plan chose verdicts by their noise: nothing is said about it, and manifests name the
    goal.
    """
    judge_server.behave(verdict="hash")
    genrm.write("in.jsonl", make_rollouts(groups=24, size=4))
    assert call(*run_of(judge_server, "--goal", "best")).code == 0
    details = [line["genrm"] for line in read_lines(genrm.folder / "in.scored.jsonl")]
    assert {(each["standard_error"], each["reliability"]) for each in details} == {(None, None)}
    assert genrm.metrics()["reliability"]["count"] == 0
    assert call("export", "in.scored.jsonl", "--to", "trl-sft", "-o", "best.jsonl", "-q").code == 0
    manifest = json.loads((genrm.folder / "best.manifest.json").read_bytes())
    assert manifest["inputs"][0]["scored_with"]["goal"] == "best"


def test_what_a_goal_excludes_is_refused():
    """The message names the setting to leave out."""
    cases = [
        ({"strategy": "all_pairs"}, "strategy has no effect"),
        ({"both_orders": True}, "both_orders"),
        ({"min_reliability": 0.5}, "min_reliability has no effect"),
        ({"profile": "rewardanything"}, "judges that grade responses"),
    ]
    for given, told in cases:
        with pytest.raises(genrm_api.UsageError, match=told):
            genrm_api.Scorer(base_url="http://localhost/v1", model="m", goal="best", **given)


@pytest.mark.parametrize("goal", ["best", "pair"])
def test_a_rollout_whose_comparisons_failed_is_compared_again(genrm, call, judge_server, goal):
    """With a tenth of the requests always without a verdict, 3 % of the rollouts at most have no
    reward.
    """
    judge_server.behave(verdict="hash", fault={"content": "no verdict"}, fault_share=0.1)
    genrm.write("in.jsonl", make_rollouts(groups=12, size=8))
    assert (
        call(*run_of(judge_server, "--goal", goal, "--max-extra", 0, "--min-verdicts", 0)).code == 0
    )
    metrics = genrm.metrics()
    assert metrics["calls"] == metrics["comparisons_planned"] == 12 * 12
    assert metrics["failures"] > 6
    assert metrics["unscored"] <= 3
