"""The process that disturbs S3 passes everything else through, and disturbs just what it is told to."""

import random
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from s3_disturber_fixture import DisturbedS3

MIB = 1 << 20


@pytest.fixture(scope="module")
def make_client(s3_disturber: DisturbedS3) -> Callable[..., Any]:
    """Return a maker of boto3 clients of the disturbed endpoint."""
    session = boto3.Session(aws_access_key_id="AK", aws_secret_access_key="SK", region_name="us-east-1")

    def make(attempts: int = 1, url: str = s3_disturber.url) -> Any:
        config = Config(retries={"mode": "standard", "total_max_attempts": attempts}, read_timeout=10)
        return session.client("s3", endpoint_url=url, config=config)

    return make


@pytest.fixture(scope="module")
def once(make_client: Callable[..., Any]) -> Any:
    """Give a client that asks once."""
    return make_client()


def code_of(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, int]:
    """Return an error's code and its HTTP status."""
    reply = caught.value.response
    return reply["Error"]["Code"], reply["ResponseMetadata"]["HTTPStatusCode"]


def test_passes_objects_through(disturbed_s3: DisturbedS3, s3_bucket: Any, once: Any) -> None:
    """Keys of all sorts, metadata, empty and large bodies, ranges, HEAD and listings come out as they went in."""
    contents = {
        "rl/a b+c/ä%20&=?#.jsonl": b"odd key",
        "rl/empty": b"",
        "rl/large": random.Random(1).randbytes(9 * MIB),
    }
    for key, content in contents.items():
        once.put_object(Bucket=s3_bucket.name, Key=key, Body=content, Metadata={"made-by": "genrm"})
    for key, content in contents.items():
        direct, through = (client.get_object(Bucket=s3_bucket.name, Key=key) for client in (s3_bucket.client, once))
        assert direct["Body"].read() == through["Body"].read() == content
        assert through["Metadata"] == {"made-by": "genrm"}
        head = once.head_object(Bucket=s3_bucket.name, Key=key)
        assert (head["ETag"], head["ContentLength"]) == (direct["ETag"], len(content))
    part = once.get_object(Bucket=s3_bucket.name, Key="rl/large", Range="bytes=5-1048580")
    assert part["Body"].read() == contents["rl/large"][5:1_048_581]
    listed = once.list_objects_v2(Bucket=s3_bucket.name, Prefix="rl/")["Contents"]
    assert {one["Key"] for one in listed} == set(contents)
    once.delete_object(Bucket=s3_bucket.name, Key="rl/empty")
    with pytest.raises(ClientError) as caught:
        once.get_object(Bucket=s3_bucket.name, Key="rl/empty")
    assert code_of(caught) == ("NoSuchKey", 404)
    assert {one["rule"] for one in disturbed_s3.requests()} == {None}


def test_passes_conditions_and_multipart_through(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """An upload in parts arrives whole, and If-None-Match refuses a second put."""
    upload = once.create_multipart_upload(Bucket=s3_bucket.name, Key="parts")
    target = {"Bucket": s3_bucket.name, "Key": "parts", "UploadId": upload["UploadId"]}
    parts = [
        {"PartNumber": number, "ETag": once.upload_part(**target, PartNumber=number, Body=body)["ETag"]}
        for number, body in ((1, b"x" * 5 * MIB), (2, b"end"))
    ]
    once.complete_multipart_upload(**target, MultipartUpload={"Parts": parts})
    assert s3_bucket.client.get_object(Bucket=s3_bucket.name, Key="parts")["Body"].read() == b"x" * 5 * MIB + b"end"
    with pytest.raises(ClientError) as caught:
        once.put_object(Bucket=s3_bucket.name, Key="parts", Body=b"second", IfNoneMatch="*")
    assert code_of(caught) == ("PreconditionFailed", 412)
    (refused,) = [one for one in disturbed_s3.requests("PUT") if not one["query"]]
    assert refused["headers"]["if-none-match"] == "*"
    assert "x-amz-checksum-crc32" in refused["headers"]
    assert (refused["status"], refused["backend_status"], refused["body_bytes"]) == (412, 412, 6)


@pytest.mark.parametrize(
    "fields", [{}, {"methd": "PUT", "delay_s": 1}, {"drop": "later"}, {"answer": {"code": "Odd"}}, {"method": "PUT"}]
)
def test_refuses_rules_that_mean_nothing(fields: dict[str, Any], disturbed_s3: DisturbedS3) -> None:
    """A rule with a slip in it fails the test that gives it, rather than disturbing nothing."""
    with pytest.raises(ValueError):
        disturbed_s3.rule(**fields)
