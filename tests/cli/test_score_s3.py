import json
from typing import Any

import pytest
from genrm_process import Call, Genrm, make_rollouts, without_rewards
from judge_server_fixture import JudgeServer
from s3_objects import get, keys_in

LEXICAL = ("--judge", "lexical")
FOLDER = "rl/pixelated/therapeutic_session"


def body_of(lines: list[dict[str, Any]]) -> bytes:
    """Render rollouts as an object's content."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_results_go_beside_the_input_by_default(genrm: Genrm, call: Call, s3_bucket: Any, aws: dict[str, str]) -> None:
    """An s3:// input gets its outputs under the same prefix, and nothing is written here."""
    lines = make_rollouts()
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key=f"{FOLDER}/run-7.jsonl", Body=body_of(lines))
    finished = call("score", f"s3://{s3_bucket.name}/{FOLDER}/run-7.jsonl", *LEXICAL, **aws)
    assert finished.code == 0, finished.err
    suffixes = ("jsonl", "scored.jsonl", "metrics.json", "comparisons.jsonl")
    assert keys_in(s3_bucket) == {f"{FOLDER}/run-7.{suffix}" for suffix in suffixes}
    after = [json.loads(line) for line in get(s3_bucket, f"{FOLDER}/run-7.scored.jsonl").splitlines()]
    assert [without_rewards(line) for line in after] == lines
    metrics = json.loads(get(s3_bucket, f"{FOLDER}/run-7.metrics.json"))
    assert metrics["output"] == f"s3://{s3_bucket.name}/{FOLDER}/run-7.scored.jsonl"
    assert metrics["input"]["etag"]
    assert genrm.names() == set()


def test_a_named_output_and_endpoint(genrm: Genrm, call: Call, s3_bucket: Any, aws: dict[str, str], s3: str) -> None:
    """`-o s3://...` and --s3-endpoint-url work as in the cron line, compressed both ways, quietly."""
    genrm.sample("rollouts.jsonl")
    environment = {**aws, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    out = f"s3://{s3_bucket.name}/{FOLDER}/scored/run-7.jsonl.gz"
    endpoint = ("--s3-endpoint-url", s3, "--quiet")
    assert call("score", "rollouts.jsonl", *LEXICAL, "-o", out, *endpoint, **environment) == (0, b"", "")
    again = call("score", out, *LEXICAL, "-o", "-", *endpoint, **environment)
    assert again.code == 0
    assert len(again.out.splitlines()) == 36
    assert all(json.loads(line)["genrm"]["previous_genrm"] for line in again.out.splitlines())


def test_outputs_that_exist_are_kept_on_s3_too(genrm: Genrm, call: Call, s3_bucket: Any, aws: dict[str, str]) -> None:
    """Without --force an object in the way is refused with 2 and keeps its content."""
    genrm.write("in.jsonl", make_rollouts())
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="rl/out.metrics.json", Body=b"precious")
    finished = call("score", "in.jsonl", *LEXICAL, "-o", f"s3://{s3_bucket.name}/rl/out.jsonl", **aws)
    assert finished.code == 2
    assert "--force" in finished.err
    assert keys_in(s3_bucket) == {"rl/out.metrics.json"}
    assert get(s3_bucket, "rl/out.metrics.json") == b"precious"


@pytest.mark.parametrize("where", ["missing key", "missing bucket", "missing output bucket"])
def test_what_is_missing_on_s3_ends_with_5_before_any_call(
    genrm: Genrm, call: Call, s3_bucket: Any, aws: dict[str, str], judge_server: JudgeServer, where: str
) -> None:
    """A bucket or key that is not there is named in one error, and the judge is not asked."""
    genrm.write("in.jsonl", make_rollouts())
    missing = f"s3://{s3_bucket.name}/rl/in.jsonl" if where == "missing key" else "s3://no-such-bucket/rl/in.jsonl"
    places = ("in.jsonl", "-o", missing) if where == "missing output bucket" else (missing,)
    finished = call("score", *places, *judge_server.flags, **aws)
    assert finished.code == 5
    error, done = finished.err.splitlines()
    assert error.startswith("genrm: error: ")
    assert done.endswith("; exit 5")
    assert missing.rpartition("/")[0] in finished.err
    assert keys_in(s3_bucket) == set()
    assert judge_server.stats()["requests"] == 0
