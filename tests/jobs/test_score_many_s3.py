import gzip
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from genrm_process import make_rollouts, without_rewards
from polling import poll_until
from s3_objects import get, keys_in, put

FOLDER = "rl/pixelated/übung 1"
SUFFIXES = ("scored.jsonl", "metrics.json", "comparisons.jsonl")
BODY = "".join(json.dumps(line) + "\n" for line in make_rollouts(groups=1, size=2)).encode()
DENIED = {"code": "AccessDenied"}


@pytest.fixture
def fill(s3_bucket):
    """Give a test a way to make objects, compressed where the name says so."""

    def run(*keys, body=BODY):
        for key in keys:
            put(s3_bucket, key, gzip.compress(body) if key.endswith(".gz") else body)

    return run


@pytest.fixture
def score(call, s3_bucket, aws):
    """Give a test a run over keys and prefixes of the bucket."""

    def run(*keys, words="--offline", code=0, **more):
        uris = (f"s3://{s3_bucket.name}/{key}" for key in keys)
        return call(f"score {words} --min-age 0", *uris, **aws | more).ended(code)

    return run


@pytest.fixture
def endpoint(disturbed_s3):
    """Name the endpoint that counts requests and fails when told to."""
    return {"AWS_ENDPOINT_URL": disturbed_s3.url}


def state_of(bucket):
    """Take down the ETag and the time of every object."""
    contents = bucket.client.list_objects_v2(Bucket=bucket.name).get("Contents", [])
    return {item["Key"]: (item["ETag"], item["LastModified"]) for item in contents}


@pytest.mark.slow
def test_small_objects_take_few_requests(fill, score, disturbed_s3, endpoint):
    """The first object of a prefix takes 14 requests, each further one eight, and a look at what is
    up to date two; one that is named takes 14. No put asks before it sends its body.
    """

    def requests(key):
        disturbed_s3.clear()
        score(key, **endpoint)
        made = disturbed_s3.requests()
        assert not [each for each in made if "expect" in each.headers]
        return len(made)

    once = 3  # the listing, and before it the first page and the first line
    leased = 3  # a look at leases, and whether a second one is refused
    fill(f"{FOLDER}/a.jsonl")
    assert requests(f"{FOLDER}/") <= once + leased + 8
    fill(*(f"{FOLDER}/{name}.jsonl" for name in ("a-1", "a.2", "b")))
    assert requests(f"{FOLDER}/") <= once + leased + 3 * 8 + 2
    assert requests(f"{FOLDER}/") <= once + 4 * 2
    fill("rl/c.jsonl")
    assert requests("rl/c.jsonl") <= leased + 11


@pytest.mark.slow
def test_small_objects_are_scored_together(fill, score, disturbed_s3, endpoint):
    """While one small object waits for the store, more than eight others do."""
    names = [f"{number:02}.jsonl" for number in range(10)]
    fill(*(f"{FOLDER}/{name}" for name in names))
    gate = threading.Event()
    disturbed_s3.rule(method="GET", key_contains=".jsonl", after=1, gate=gate)

    def count_begun():
        return sum(bool(disturbed_s3.requests("GET", name)) for name in names)

    def open_gate():
        poll_until(lambda: count_begun() > 8)
        gate.set()

    with ThreadPoolExecutor(1) as threads:
        opened = threads.submit(open_gate)
        score(f"{FOLDER}/", **endpoint)
        opened.result()


@pytest.mark.slow
def test_a_listing_of_several_pages(fill, score):
    """Outputs are found beside their inputs on whatever page of a listing they are."""
    fill(*(f"{FOLDER}/x.{number:03}.jsonl" for number in range(4)))
    many = [f"{FOLDER}/x.{number:03}.log" for number in range(4, 1_000)]
    fill(*many, f"{FOLDER}/x.jsonl", body=b"")
    assert "5 scored" in score(f"{FOLDER}/").last
    assert "5 up to date" in score(f"{FOLDER}/").last


@pytest.mark.slow
def test_a_named_object_needs_no_right_to_list(
    call, fill, score, s3_bucket, aws, disturbed_s3, endpoint
):
    """Without s3:ListBucket, S3 says of what is missing that access is denied. A named object is
    scored, found up to date, scored again and reported on all the same.
    """
    disturbed_s3.deny_listing()
    fill("rl/a.jsonl")
    assert "1 scored" in score("rl/a.jsonl", **endpoint).last
    assert keys_in(s3_bucket) == {"rl/a.jsonl", *(f"rl/a.{suffix}" for suffix in SUFFIXES)}
    assert "1 up to date" in score("rl/a.jsonl", **endpoint).last
    fill("rl/a.jsonl", body=BODY * 2)
    assert "1 scored" in score("rl/a.jsonl", **endpoint).last
    scored = f"s3://{s3_bucket.name}/rl/a.scored.jsonl"
    call("report -o page.html", scored, **aws | endpoint).ended(0)
    missing = score("rl/b.jsonl", code=5, **endpoint)
    assert "s3:GetObject, and s3:ListBucket to learn that an object is missing" in missing.err
    assert "s3:ListBucket" in score("rl/", code=5, **endpoint).err


@pytest.mark.slow
def test_a_prefix_from_cron(genrm, fill, score, s3_bucket, aws):
    """With next to nothing in the environment: every file below the prefix gets its outputs,
    nothing is put here.
    """
    stems = (f"{FOLDER}/a", f"{FOLDER}/deep/b")
    fill(f"{stems[0]}.jsonl", f"{stems[1]}.jsonl.gz", f"{FOLDER}/a_failures.jsonl")
    fill("rl/other/c.jsonl")
    before = keys_in(s3_bucket)
    prefix = f"s3://{s3_bucket.name}/{FOLDER}/"
    finished = genrm.run("score --no-journal --offline --min-age 0", prefix, **aws).ended(0)
    outputs = {f"{stem}.{suffix}" for stem in stems for suffix in SUFFIXES}
    assert keys_in(s3_bucket) - before == outputs
    for stem in stems:
        lines = map(json.loads, get(s3_bucket, f"{stem}.scored.jsonl").splitlines())
        assert [without_rewards(line) for line in lines] == make_rollouts(groups=1, size=2)
    assert genrm.names() == set()
    assert finished.last.startswith("genrm: done: 2 files: 2 scored; ")
    assert not re.search(r"[\x1b\r]", finished.err)
    written = state_of(s3_bucket)
    assert score(f"{FOLDER}/", words="--no-journal --quiet --offline") == (0, b"", "")
    assert state_of(s3_bucket) == written


def test_what_fails_on_s3_fails_alone(fill, score, disturbed_s3, endpoint):
    """An empty prefix is not an error; a missing bucket and a prefix that may not be listed are 5,
    results outside rl/ are 2; other inputs continue.
    """
    fill("rl/a.jsonl", "rl/x/b.jsonl", "sft/c.jsonl")
    empty = score("rl/nothing/", "rl/*.ndjson")
    assert "no rollout files; expected names" in empty.err
    outside = score("sft/", "rl/a.jsonl", code=2)
    assert "RL data is kept separate" in outside.err
    assert "1 scored" in outside.last
    disturbed_s3.rule(method="GET", query={"prefix": "rl/x/"}, answer=DENIED)
    refused = score("rl/x/", "rl/a.jsonl", words="--offline --force", code=5, **endpoint)
    assert "1 failed, 1 scored" in refused.last
    missing = score("sft/", words="s3://no-such-bucket/rl/ --offline", code=5)
    assert "no-such-bucket" in missing.err


@pytest.mark.slow
def test_a_budget_leaves_few_objects_incomplete(fill, score, s3_bucket, judge_server):
    """Small objects share a budget: it holds, and only inputs of the usual lanes are begun."""
    for number in range(40):
        fill(f"rl/{number:02}.jsonl", body=BODY.replace(b"Question", b"Q%d" % number))
    judge = " ".join(judge_server.flags)
    finished = score("rl/", words=f"--max-calls 6 --no-probe {judge}", code=6)
    assert judge_server.stats()["requests"] == 6
    begun = [key for key in keys_in(s3_bucket) if key.endswith(".scored.jsonl")]
    assert 1 <= len(begun) <= 3 + 8
    assert "40 files" in finished.last
    score("rl/", words=judge)
    assert judge_server.stats()["repeat_answers"] == 0


def test_metrics_say_where_objects_come_from(fill, score, s3_bucket):
    """They name the version of the input, a non-ASCII name included, and the upload of the scored
    lines.
    """
    key = f"{FOLDER}/läuf.jsonl"
    fill(key)
    score("rl/")

    def head(key):
        return s3_bucket.client.head_object(Bucket=s3_bucket.name, Key=key)

    uri = f"s3://{s3_bucket.name}/{key}"
    metrics = json.loads(get(s3_bucket, f"{FOLDER}/läuf.metrics.json"))
    etag = head(key)["ETag"].strip('"')
    size_bytes = len(BODY)
    assert metrics["input"] == {"uri": uri, "place": uri, "size_bytes": size_bytes, "etag": etag}
    written = head(f"{FOLDER}/läuf.scored.jsonl")["Metadata"]
    assert metrics["output_mark"]["upload"] == written["genrm-upload"]


@pytest.mark.slow
def test_an_output_that_cannot_be_put_fails_alone(fill, score, s3_bucket, disturbed_s3, endpoint):
    """A file whose scored lines the store refuses keeps no lease, and the next run completes it;
    the other is done.
    """
    fill("rl/a.jsonl", "rl/b.jsonl")
    disturbed_s3.rule(key_contains="a.scored.jsonl", method="PUT", answer=DENIED)
    score("rl/", code=5, **endpoint)
    keys = keys_in(s3_bucket)
    assert "rl/a.scored.jsonl" not in keys
    assert not [key for key in keys if ".lease-" in key or "unfinished" in key]
    assert {"rl/b.metrics.json", "rl/b.scored.jsonl"} <= keys
    score("rl/")
    keys = keys_in(s3_bucket)
    assert {"rl/a.metrics.json", "rl/a.scored.jsonl"} <= keys
    assert not [key for key in keys if ".commit" in key and "conditional" not in key]
