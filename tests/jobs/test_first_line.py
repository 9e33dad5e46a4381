"""What `score` learns from the first line of its first input."""

import gzip
import json

import pytest

from genrm_cli.jobs.previews.first_line import format_of_first
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.containers import HEAD_BYTES

SHORT = {"prompt": "Why?", "completion": "Because."}
LONG = SHORT | {"completion": "Because. " * (HEAD_BYTES // 9 + 1)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("small.jsonl", json.dumps(SHORT)),
        ("array.json", json.dumps([SHORT, SHORT], indent=1)),
        ("large.jsonl", "\n".join(map(json.dumps, [SHORT, LONG, LONG]))),
        ("long-lines.jsonl", "\n".join(map(json.dumps, [LONG, LONG]))),
        ("large-array.json", json.dumps([SHORT, LONG, LONG], indent=1)),
        ("large.jsonl.gz", "\n".join(map(json.dumps, [SHORT, LONG, LONG]))),
    ],
)
def test_the_format_is_that_of_the_first_record(tmp_path, name, text):
    """However an input stores its records, and however long it or its first record is."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert format_of_first([str(path)], Settings()) == "completion"


def test_a_large_object_is_not_downloaded_for_its_first_line(s3_bucket, disturbed_s3, monkeypatch):
    """Its download, in ranges, is left to the job."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", disturbed_s3.url)
    body = json.dumps(SHORT).encode() + b"\n" * (9 << 20)
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="rl/a.jsonl", Body=body)
    assert format_of_first([f"s3://{s3_bucket.name}/rl/a.jsonl"], Settings()) == "completion"
    assert len(disturbed_s3.requests("GET", "a.jsonl")) == 1
