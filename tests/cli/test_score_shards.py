"""Shards: runs that only ask, and one that concludes what they recorded."""

import json

import pytest
from genrm_process import make_rollouts, read_lines

SHARDS = 3
COSTS = (
    "latency_s",
    "prompt_tokens",
    "completion_tokens",
)  # of a failure, its journal keeps no more than the attempts

CASES = {
    "ring": (("--strategy", "ring", "--ring-k", "1.5"), 9),
    "repeats in both orders": (
        (
            "--strategy",
            "all_pairs",
            "--repeats",
            "2",
            "--both-orders",
        ),
        5,
    ),
    "a goal": (("--goal", "pair", "--ring-k", "1.5"), 9),
    "a trial": (("--limit", "4"), 9),
}


def arguments(judge, *more):
    """Return the options of a run."""
    return (
        *judge.flags,
        "--max-unscored",
        "1",
        "-q",
        *more,
    )


def outputs_of(folder, stem="in"):
    """Return the scored lines, and the comparisons without what a run measures anew."""
    comparisons = read_lines(folder / f"{stem}.comparisons.jsonl")
    kept = [
        {name: value for name, value in line.items() if name not in COSTS} for line in comparisons
    ]
    return (folder / f"{stem}.scored.jsonl").read_bytes(), kept


def remove_outputs(folder):
    """Remove everything that a run left in a folder."""
    for path in [
        *folder.glob("*.scored.jsonl"),
        *folder.glob("*.metrics.json"),
        *folder.glob("*.comparisons.jsonl"),
    ]:
        path.unlink()
    for path in folder.glob("*.journal.sqlite*"):
        path.unlink()


def run_shards(call, *given, count=SHARDS, **environment):
    """Run all shards, then the run that concludes; return how each ended."""
    shards = [
        call(*given, "--shard", f"{number}/{count}", **environment) for number in range(count)
    ]
    return [*shards, call(*given, "--conclude", **environment)]


_SLOW = ("a trial",)


@pytest.mark.parametrize(
    "case", [pytest.param(each, marks=[pytest.mark.slow] * (each in _SLOW)) for each in CASES]
)
@pytest.mark.parametrize("fault_share", [pytest.param(0.0, marks=pytest.mark.slow), 0.2])
def test_shards_give_the_outputs_of_a_single_run(call, genrm, judge_server, case, fault_share):
    """Scored lines are equal byte by byte, failures included; each request is made once, and none
    to conclude.
    """
    options, groups = CASES[case]
    behaviour = {
        "verdict": "hash",
        "fault": {"content": "no verdict"},
        "fault_share": fault_share,
    }
    judge_server.behave(**behaviour)
    genrm.write("in.jsonl", make_rollouts(groups=groups, size=3))
    given = (
        "score",
        "in.jsonl",
        *arguments(judge_server, "--no-probe", "--profile", "nemotron-plain", *options),
    )
    assert call(*given).code == 0
    whole = outputs_of(genrm.folder)
    asked = judge_server.stats()["requests"]
    remove_outputs(genrm.folder)
    judge_server.behave(**behaviour)
    before = judge_server.stats()["requests"]
    codes = [finished.code for finished in run_shards(call, *given)]
    assert codes == [0] * (SHARDS + 1)
    assert outputs_of(genrm.folder) == whole
    assert judge_server.stats()["requests"] - before == asked
    metrics = genrm.metrics()
    assert metrics["calls"] == 0
    assert bool(metrics["failures"]) == (fault_share > 0)


@pytest.mark.slow
def test_shards_of_a_set_of_files_on_s3(call, genrm, judge_server, s3_bucket, s3):
    """Machines that share nothing but the store give the objects of a single run, failures
    included.
    """
    judge_server.behave(verdict="hash", fault={"content": "no verdict"}, fault_share=0.2)
    lines = make_rollouts(groups=6, size=4)
    keys = [f"rl/env/rs{seed}.jsonl" for seed in range(4)]
    for seed, key in enumerate(keys):
        body = "".join(json.dumps(line) + "\n" for line in lines[seed::4])
        s3_bucket.client.put_object(Bucket=s3_bucket.name, Key=key, Body=body.encode())
    given = (
        "score",
        f"s3://{s3_bucket.name}/rl/env/",
        "--together",
        "--min-age",
        "0",
        "--no-probe",
    )
    given += arguments(
        judge_server,
        "--journal",
        f"s3://{s3_bucket.name}/rl/journal/",
        "--profile",
        "nemotron-plain",
    )
    environment = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "AKTEST",
        "AWS_SECRET_ACCESS_KEY": "SKTEST",
    }

    def scored():
        names = [key.replace(".jsonl", ".scored.jsonl") for key in keys]
        return {
            name: s3_bucket.client.get_object(Bucket=s3_bucket.name, Key=name)["Body"].read()
            for name in names
        }

    assert call(*given, **environment).code == 0
    whole = scored()
    for found in s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name)["Contents"]:
        if found["Key"] not in keys:
            s3_bucket.client.delete_object(Bucket=s3_bucket.name, Key=found["Key"])
    for number in range(SHARDS):  # each machine has a state folder of its own
        state = str(genrm.state_folder / str(number))
        assert (
            call(*given, "--shard", f"{number}/{SHARDS}", XDG_STATE_HOME=state, **environment).code
            == 0
        )
    requests = judge_server.stats()["requests"]
    ended = call(
        *given,
        "--conclude",
        "--json",
        XDG_STATE_HOME=str(genrm.state_folder / "last"),
        **environment,
    ).ended(0)
    assert json.loads(ended.out)["results"][0]["metrics"]["failures_by_kind"]["no_verdict"] > 0
    assert scored() == whole
    assert judge_server.stats()["requests"] == requests


def test_what_no_shard_asked_leaves_the_outputs_partial(call, genrm, judge_server):
    """To conclude without one of the shards exits with 6; with all of them the outputs are whole,
    deadline or not.
    """
    genrm.write("in.jsonl", make_rollouts(groups=12, size=2))
    given = ("score", "in.jsonl", *arguments(judge_server))
    assert call(*given, "--shard", "0/2").code == 0
    early = call(*given, "--conclude").ended(6)
    assert "Run the missing or stopped shards again, then --conclude" in early.err
    assert call(*given, "--shard", "1/2").code == 0
    assert call(*given, "--conclude", "--deadline", "0.001s").code == 0
    assert not genrm.metrics()["partial"]


def test_a_stopped_shard_goes_on_where_it_was(call, genrm, judge_server):
    """A shard that its share of --max-calls stopped exits with 6; run again with more, it asks only
    the rest.
    """
    genrm.write("in.jsonl", make_rollouts(groups=20, size=2))
    given = (
        "score",
        "in.jsonl",
        *arguments(judge_server, "--no-probe", "--profile", "nemotron-plain"),
    )
    call(*given, "--shard", "0/2", "--max-calls", "7").ended(6)
    assert judge_server.stats()["requests"] == 4
    assert [finished.code for finished in run_shards(call, *given, count=2)] == [0, 0, 0]
    assert judge_server.stats()["requests"] == genrm.metrics()["journal_hits"]


def test_shards_keep_the_limit_of_the_run(call, genrm, judge_server):
    """Of six calls in flight each of three shards gets two."""
    judge_server.behave(latency_s=0.01)
    genrm.write("in.jsonl", make_rollouts(groups=30, size=3))
    given = ("score", "in.jsonl", *arguments(judge_server, "--no-probe", "--concurrency", "6"))
    assert call(*given, "--shard", "1/3").code == 0
    assert judge_server.stats()["max_in_flight"] == 2


def test_a_shard_reuses_what_an_earlier_run_asked(call, genrm, judge_server):
    """Verdicts in the journal of the whole are not asked again."""
    genrm.write("in.jsonl", make_rollouts(groups=10, size=2))
    given = (
        "score",
        "in.jsonl",
        *arguments(judge_server, "--no-probe", "--profile", "nemotron-plain"),
    )
    assert call(*given, "--max-calls", "5").code == 6
    assert [finished.code for finished in run_shards(call, *given, count=2)] == [0, 0, 0]
    assert judge_server.stats()["requests"] == genrm.metrics()["journal_hits"]


def test_what_contradicts_shards_is_refused(call, genrm, judge_server):
    """A usage error says what to change before anything is asked."""
    cases = [
        (("--shard", "4/4"), "the shards of four are 0/4, 1/4, 2/4 and 3/4"),
        (("--shard", "1"), "is not a shard"),
        (("--shard", "0/2", "--conclude"), "--shard has no effect with --conclude"),
        (("--shard", "0/2", "--no-journal"), "--shard has no effect with --no-journal"),
        (("--shard", "0/2", "-o", "-"), "set --journal to"),
        (("--ray", "local", "--shard", "0/2"), "--ray has no effect with --shard 0/2"),
        (("--ray", "local", "--no-journal"), "--ray has no effect with --no-journal"),
    ]
    for options, said in cases:
        genrm.write("in.jsonl", make_rollouts(groups=2, size=2))
        finished = call("score in.jsonl", *arguments(judge_server), *options).ended(2)
        assert said in finished.err
        assert judge_server.stats()["requests"] == 0
