import gzip
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from genrm_process import make_rollouts, without_rewards
from polling import poll_until
from s3_objects import get, keys_in

LEXICAL = ("--judge", "lexical")
NOW = ("--min-age", "0")
FOLDER = "rl/pixelated/übung 1"
SUFFIXES = ("scored.jsonl", "metrics.json", "comparisons.jsonl")
BODY = "".join(json.dumps(line) + "\n" for line in make_rollouts(groups=1, size=2)).encode()


def put(bucket, *keys, body=BODY):
    """Make objects, compressed where the name says so."""
    for key in keys:
        content = gzip.compress(body) if key.endswith(".gz") else body
        bucket.client.put_object(Bucket=bucket.name, Key=key, Body=content)


def state_of(bucket):
    """Take down the ETag and the time of every object."""
    contents = bucket.client.list_objects_v2(Bucket=bucket.name).get("Contents", [])
    return {item["Key"]: (item["ETag"], item["LastModified"]) for item in contents}


def last_line(finished):
    """Return what a log grep would look for."""
    return finished.err.splitlines()[-1]


def test_small_objects_take_few_requests(call, s3_bucket, aws, disturbed_s3):
    """The first object of a prefix takes eleven requests, each further one eight, and a look at
    what is up to date two; one that is named takes eleven. No put asks before it sends its body.
    """
    folder = f"s3://{s3_bucket.name}/{FOLDER}"
    environment = aws | {"AWS_ENDPOINT_URL": disturbed_s3.url}

    def requests(uri):
        disturbed_s3.clear()
        call("score", uri, *LEXICAL, *NOW, **environment).ended(0)
        made = disturbed_s3.requests()
        assert not [each for each in made if "expect" in each["headers"]]
        return len(made)

    once = 3  # the listing, and before it the first page and the first line
    put(s3_bucket, f"{FOLDER}/a.jsonl")
    assert requests(f"{folder}/") <= once + 8
    put(s3_bucket, *(f"{FOLDER}/{name}.jsonl" for name in ("a-1", "a.2", "b")))
    assert requests(f"{folder}/") <= once + 3 * 8 + 2
    assert requests(f"{folder}/") <= once + 4 * 2
    put(s3_bucket, "rl/c.jsonl")
    assert requests(f"s3://{s3_bucket.name}/rl/c.jsonl") <= 11


def test_small_objects_are_scored_together(call, s3_bucket, aws, disturbed_s3):
    """While one small object waits for the store, more than eight others do."""
    names = [f"{number:02}" for number in range(10)]
    put(s3_bucket, *(f"{FOLDER}/{name}.jsonl" for name in names))
    score = ("score", f"s3://{s3_bucket.name}/{FOLDER}/", *LEXICAL, *NOW)
    environment = aws | {"AWS_ENDPOINT_URL": disturbed_s3.url}
    gate = threading.Event()
    disturbed_s3.rule(method="GET", key_contains=".jsonl", after=1, gate=gate)

    def open_gate():
        poll_until(lambda: count_begun() > 8)
        begun = count_begun()
        gate.set()
        return begun

    def count_begun():
        return sum(map(is_begun, names))

    def is_begun(name):
        return disturbed_s3.has_arrived("GET", f"{name}.jsonl")

    with ThreadPoolExecutor(1) as threads:
        opened = threads.submit(open_gate)
        call(*score, **environment).ended(0)
        assert opened.result() > 8


@pytest.mark.slow
def test_a_listing_of_several_pages(call, s3_bucket, aws, disturbed_s3):
    """Outputs are found beside their inputs on whatever page of a listing they are."""
    names = [f"x.{number:03}" for number in range(4)]
    put(s3_bucket, *(f"{FOLDER}/{name}.jsonl" for name in names))
    many = [f"{FOLDER}/x.{number:03}.log" for number in range(4, 1_000)]
    put(s3_bucket, *many, f"{FOLDER}/x.jsonl", body=b"")
    score = ("score", f"s3://{s3_bucket.name}/{FOLDER}/", *LEXICAL, *NOW)
    environment = aws | {"AWS_ENDPOINT_URL": disturbed_s3.url}
    first = call(*score, **environment).ended(0)
    assert "5 scored" in last_line(first)
    again = call(*score, **environment).ended(0)
    assert "5 up to date" in last_line(again)


@pytest.mark.slow
def test_a_named_object_needs_no_right_to_list(call, s3_bucket, aws, disturbed_s3):
    """Without s3:ListBucket, S3 says of what is missing that access is denied. A named object is
    scored, found up to date, scored again and reported on all the same.
    """
    disturbed_s3.deny_listing()
    put(s3_bucket, "rl/a.jsonl")
    uri = f"s3://{s3_bucket.name}/rl/a.jsonl"
    environment = aws | {"AWS_ENDPOINT_URL": disturbed_s3.url}
    assert "1 scored" in last_line(call("score", uri, *LEXICAL, **environment).ended(0))
    assert keys_in(s3_bucket) == {"rl/a.jsonl", *(f"rl/a.{suffix}" for suffix in SUFFIXES)}
    assert "1 up to date" in last_line(call("score", uri, *LEXICAL, **environment).ended(0))
    put(s3_bucket, "rl/a.jsonl", body=BODY * 2)
    assert "1 scored" in last_line(call("score", uri, *LEXICAL, **environment).ended(0))
    scored = uri.replace(".jsonl", ".scored.jsonl")
    call("report", scored, "-o", "page.html", **environment).ended(0)
    missing = call("score", uri.replace("a.", "b."), *LEXICAL, **environment).ended(5)
    assert "s3:GetObject, and s3:ListBucket to learn that an object is missing" in missing.err
    prefix = call("score", f"s3://{s3_bucket.name}/rl/", *LEXICAL, **environment).ended(5)
    assert "s3:ListBucket" in prefix.err


@pytest.mark.slow
def test_a_prefix_from_cron(genrm, call, s3_bucket, aws):
    """With next to nothing in the environment: every file below the prefix gets its outputs,
    nothing is put here.
    """
    put(
        s3_bucket,
        f"{FOLDER}/a.jsonl",
        f"{FOLDER}/deep/b.jsonl.gz",
        f"{FOLDER}/a_failures.jsonl",
        "rl/other/c.jsonl",
    )
    before = keys_in(s3_bucket)
    prefix = f"s3://{s3_bucket.name}/{FOLDER}/"
    finished = genrm.run("score --no-journal", prefix, *LEXICAL, *NOW, **aws).ended(0)
    stems = (f"{FOLDER}/a", f"{FOLDER}/deep/b")
    assert keys_in(s3_bucket) - before == {
        f"{stem}.{suffix}" for stem in stems for suffix in SUFFIXES
    }
    for stem in stems:
        lines = [json.loads(line) for line in get(s3_bucket, f"{stem}.scored.jsonl").splitlines()]
        assert [without_rewards(line) for line in lines] == make_rollouts(groups=1, size=2)
    assert genrm.names() == set()
    assert last_line(finished).startswith("genrm: done: 2 files: 2 scored; ")
    assert not re.search(r"[\x1b\r]", finished.err)
    before_again = state_of(s3_bucket)
    again = call("score --no-journal --quiet", prefix, *LEXICAL, *NOW, **aws)
    assert again == (0, b"", "")
    assert state_of(s3_bucket) == before_again


def test_what_cannot_be_done_on_s3(call, genrm, s3_bucket, aws):
    """An empty prefix is not an error; a missing bucket is 5, results outside rl/ are 2; other
    inputs continue.
    """
    put(s3_bucket, "rl/a.jsonl", "sft/b.jsonl")
    bucket = f"s3://{s3_bucket.name}"
    empty = call("score", f"{bucket}/rl/nothing/", f"{bucket}/rl/*.ndjson", *LEXICAL, **aws).ended(
        0
    )
    assert "no rollout files; expected names" in empty.err
    outside = call("score", f"{bucket}/sft/", f"{bucket}/rl/", *LEXICAL, *NOW, **aws).ended(2)
    assert "RL data is kept separate" in outside.err
    assert "1 scored" in last_line(outside)
    missing = call(
        "score s3://no-such-bucket/rl/ --force", f"{bucket}/rl/", *LEXICAL, *NOW, **aws
    ).ended(5)
    assert "no-such-bucket" in missing.err
    assert "1 scored" in last_line(missing)
    call("score s3://no-such-bucket/rl/", f"{bucket}/sft/", *LEXICAL, *NOW, **aws).ended(5)


@pytest.mark.slow
def test_a_budget_leaves_few_objects_incomplete(call, s3_bucket, aws, judge_server):
    """Small objects share a budget: it holds, and only inputs of the usual lanes are begun."""
    for number in range(40):
        put(s3_bucket, f"rl/{number:02}.jsonl", body=BODY.replace(b"Question", b"Q%d" % number))
    arguments = ("score", f"s3://{s3_bucket.name}/rl/", *judge_server.flags, *NOW)
    finished = call(*arguments, "--max-calls", "6", "--no-probe", **aws).ended(6)
    assert judge_server.stats()["requests"] == 6
    begun = [key for key in keys_in(s3_bucket) if key.endswith(".scored.jsonl")]
    assert 1 <= len(begun) <= 3 + 8
    assert "40 files" in last_line(finished)
    call(*arguments, **aws).ended(0)
    assert judge_server.stats()["repeat_answers"] == 0


@pytest.mark.slow
def test_once_on_s3(call, s3_bucket, aws, judge_server):
    """Nothing is asked or written again until an input has another version; then that one is."""
    put(s3_bucket, "rl/a.jsonl", "rl/b.jsonl")
    arguments = (
        "score",
        f"s3://{s3_bucket.name}/rl/",
        *judge_server.flags,
        *NOW,
    )
    assert call(*arguments, **aws).code == 0
    before = state_of(s3_bucket)
    judge_server.reset()
    assert "2 up to date" in last_line(call(*arguments, **aws))
    assert judge_server.stats()["requests"] == 0
    assert state_of(s3_bucket) == before
    put(s3_bucket, "rl/b.jsonl", body=BODY + b'{"prompt": "q", "completion": "alone"}\n')
    finished = call(*arguments, **aws).ended(0)
    assert "(the input has changed)" in finished.err
    after = state_of(s3_bucket)
    changed = {key for key, state in after.items() if before[key] != state}
    assert {"rl/b.jsonl", "rl/b.scored.jsonl", "rl/b.metrics.json"} <= changed
    assert not [key for key in changed if key.startswith("rl/a.")]


def test_metrics_say_where_objects_come_from(call, s3_bucket, aws):
    """They name the version of the input, a non-ASCII name included, and the upload of the scored
    lines.
    """
    key = f"{FOLDER}/läuf.jsonl"
    put(s3_bucket, key)
    assert call("score", f"s3://{s3_bucket.name}/rl/", *LEXICAL, *NOW, **aws).code == 0
    etag = s3_bucket.client.head_object(Bucket=s3_bucket.name, Key=key)["ETag"].strip('"')
    metrics = json.loads(get(s3_bucket, f"{FOLDER}/läuf.metrics.json"))
    assert metrics["input"] == {
        "uri": f"s3://{s3_bucket.name}/{key}",
        "place": f"s3://{s3_bucket.name}/{key}",
        "size_bytes": len(BODY),
        "etag": etag,
    }  # fmt: skip
    scored = s3_bucket.client.head_object(Bucket=s3_bucket.name, Key=f"{FOLDER}/läuf.scored.jsonl")[
        "Metadata"
    ]
    assert metrics["output_mark"]["upload"] == scored["genrm-upload"]


def test_a_listing_that_is_refused_fails_alone(call, s3_bucket, aws, disturbed_s3):
    """A prefix that may not be listed is one failed input; what else was given is scored."""
    put(s3_bucket, "rl/x/a.jsonl", "rl/y/b.jsonl")
    disturbed_s3.rule(method="GET", query={"prefix": "rl/x/"}, answer={"code": "AccessDenied"})
    bucket = f"s3://{s3_bucket.name}"
    aws["AWS_ENDPOINT_URL"] = disturbed_s3.url
    places = f"{bucket}/rl/x/", f"{bucket}/rl/y/"
    finished = call("score", *places, *LEXICAL, *NOW, **aws).ended(5)
    assert "rl/y/b.scored.jsonl" in keys_in(s3_bucket)
    assert "1 failed" in last_line(finished)


@pytest.mark.slow
def test_an_output_that_cannot_be_put_fails_alone(call, s3_bucket, aws, disturbed_s3):
    """A file whose scored lines the store refuses keeps no lease, and the next run completes it;
    the other is done.
    """
    put(s3_bucket, "rl/a.jsonl", "rl/b.jsonl")
    disturbed_s3.rule(key_contains="a.scored.jsonl", method="PUT", answer={"code": "AccessDenied"})
    arguments = (
        "score",
        f"s3://{s3_bucket.name}/rl/",
        *LEXICAL,
        *NOW,
    )
    call(*arguments, **aws | {"AWS_ENDPOINT_URL": disturbed_s3.url}).ended(5)
    keys = keys_in(s3_bucket)
    assert "rl/a.scored.jsonl" not in keys
    assert not [key for key in keys if ".lease-" in key or "unfinished" in key]
    assert {"rl/b.metrics.json", "rl/b.scored.jsonl"} <= keys
    assert call(*arguments, **aws).code == 0
    keys = keys_in(s3_bucket)
    assert {"rl/a.metrics.json", "rl/a.scored.jsonl"} <= keys
    assert not [key for key in keys if ".commit" in key and "conditional" not in key]
