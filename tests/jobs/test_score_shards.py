"""Shards: runs that only ask, and one that concludes what they recorded."""

import json

import pytest
from genrm_process import make_rollouts
from s3_objects import get, keys_in, put

SHARDS = 3
# Of a failure, its journal keeps no more than the attempts.
COSTS = {"latency_s", "prompt_tokens", "completion_tokens"}
SCORE = "score in.jsonl --max-unscored 1 -q --no-probe --profile nemotron-plain"
SOME_FAIL = {"verdict": "hash", "fault": {"content": "no verdict"}, "fault_share": 0.2}


@pytest.fixture
def score(call_judged):
    """Give a test a run on the judge."""

    def run(words, *more, code=0, **environment):
        return call_judged(words, *more, **environment).ended(code)

    return run


@pytest.fixture
def score_shards(score):
    """Give a test all shards of a run, and the run that concludes."""

    def run(words, count=SHARDS):
        for number in range(count):
            score(f"{words} --shard {number}/{count}")
        score(f"{words} --conclude")

    return run


def outputs_of(genrm):
    """Return the scored lines, and the comparisons without what a run measures anew."""
    comparisons = genrm.lines("in.comparisons.jsonl")
    kept = [{name: line[name] for name in line.keys() - COSTS} for line in comparisons]
    return genrm.text("in.scored.jsonl"), kept


@pytest.mark.parametrize(
    ("words", "groups", "behaviour"),
    [
        ("--strategy ring --ring-k 1.5", 9, SOME_FAIL),
        pytest.param("--ring-k 1.5", 9, {"verdict": "hash"}, marks=pytest.mark.slow),
        pytest.param(
            "--strategy all_pairs --repeats 2 --both-orders", 5, SOME_FAIL, marks=pytest.mark.slow
        ),
        pytest.param("--goal pair --ring-k 1.5", 9, SOME_FAIL, marks=pytest.mark.slow),
        pytest.param("--limit 4", 9, SOME_FAIL, marks=pytest.mark.slow),
    ],
)
def test_shards_give_the_outputs_of_a_single_run(
    genrm, judge_server, score, score_shards, words, groups, behaviour
):
    """Scored lines are equal byte by byte, failures included; each request is made once, and none
    to conclude.
    """
    judge_server.behave(**behaviour)
    genrm.rollouts(groups, 3)
    score(f"{SCORE} {words}")
    whole = outputs_of(genrm)
    asked = judge_server.stats()["requests"]
    for path in genrm.folder.glob("in.*.*"):
        path.unlink()
    judge_server.behave(**behaviour)
    before = judge_server.stats()["requests"]
    score_shards(f"{SCORE} {words}")
    assert outputs_of(genrm) == whole
    assert judge_server.stats()["requests"] - before == asked
    metrics = genrm.metrics()
    assert metrics["calls"] == 0
    assert bool(metrics["failures"]) == ("fault" in behaviour)


@pytest.mark.slow
def test_shards_of_a_set_of_files_on_s3(genrm, score, judge_server, s3_bucket, aws):
    """Machines that share nothing but the store give the objects of a single run, failures
    included.
    """
    judge_server.behave(**SOME_FAIL)
    lines = make_rollouts(groups=6, size=4)
    keys = [f"rl/env/rs{seed}.jsonl" for seed in range(4)]
    for seed, key in enumerate(keys):
        body = "".join(json.dumps(line) + "\n" for line in lines[seed::4])
        put(s3_bucket, key, body.encode())
    root = f"s3://{s3_bucket.name}/rl"
    words = SCORE.replace("in.jsonl", f"{root}/env/ --together --min-age 0")
    words = f"{words} --journal {root}/journal/"

    def scored():
        return [get(s3_bucket, key.replace(".jsonl", ".scored.jsonl")) for key in keys]

    def elsewhere(name):  # each machine has a state folder of its own
        return aws | {"XDG_STATE_HOME": str(genrm.state_folder / name)}

    score(words, **aws)
    whole = scored()
    for key in keys_in(s3_bucket) - set(keys):
        s3_bucket.client.delete_object(Bucket=s3_bucket.name, Key=key)
    for number in range(SHARDS):
        score(f"{words} --shard {number}/{SHARDS}", **elsewhere(str(number)))
    requests = judge_server.stats()["requests"]
    [result] = json.loads(score(f"{words} --conclude --json", **elsewhere("last")).out)["results"]
    assert result["metrics"]["failures_by_kind"]["no_verdict"] > 0
    assert scored() == whole
    assert judge_server.stats()["requests"] == requests


def test_what_no_shard_asked_leaves_the_outputs_partial(genrm, score):
    """To conclude without one of the shards exits with 6; with all of them the outputs are whole,
    deadline or not.
    """
    genrm.rollouts(12, 2)
    score(f"{SCORE} --shard 0/2")
    early = score(f"{SCORE} --conclude", code=6)
    assert "Run the missing or stopped shards again, then --conclude" in early.err
    score(f"{SCORE} --shard 1/2")
    score(f"{SCORE} --conclude --deadline 0.001s")
    assert not genrm.metrics()["partial"]


@pytest.mark.parametrize(
    ("shard", "asked"), [("--shard 0/2 --max-calls 7", 4), ("--max-calls 5", 5)]
)
def test_what_was_asked_before_is_not_asked_again(
    genrm, judge_server, score, score_shards, shard, asked
):
    """A shard that its share of --max-calls stopped exits with 6 and goes on where it was, and so
    do shards of a run that was stopped whole.
    """
    genrm.rollouts(20, 2)
    score(f"{SCORE} {shard}", code=6)
    assert judge_server.stats()["requests"] == asked
    score_shards(SCORE, count=2)
    assert judge_server.stats()["requests"] == genrm.metrics()["journal_hits"]


def test_shards_keep_the_limit_of_the_run(genrm, judge_server, score):
    """Of six calls in flight each of three shards gets two."""
    judge_server.behave(latency_s=0.01)
    genrm.rollouts(30, 3)
    score(f"{SCORE} --concurrency 6 --shard 1/3")
    assert judge_server.stats()["max_in_flight"] == 2
