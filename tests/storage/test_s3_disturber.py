"""The process that disturbs S3 passes everything else through, and disturbs just what it is told to."""

import contextlib
import http.client
import random
import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, IncompleteReadError, ResponseStreamingError
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


def test_passes_chunked_bodies_through(s3_bucket: Any, disturbed_s3: DisturbedS3) -> None:
    """A body in chunks, whose inner aws-chunked frame is S3's own matter, is stored as the content meant."""
    frame = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=AK/20260101/us-east-1/s3/aws4_request"}
    headers = {
        "Content-Encoding": "aws-chunked",
        "X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "X-Amz-Decoded-Content-Length": "5",
        "X-Amz-Trailer": "x-amz-checksum-crc32",
        "Expect": "100-continue",
    }
    path, chunks = f"/{s3_bucket.name}/chunked", iter([frame[:9], frame[9:]])
    address = disturbed_s3.url.removeprefix("http://")
    with contextlib.closing(http.client.HTTPConnection(address, timeout=10)) as connection:
        connection.request("PUT", path, chunks, headers | signed, encode_chunked=True)
        assert connection.getresponse().read() == b""
        connection.request("GET", path, headers=signed)  # the same connection goes on
        assert connection.getresponse().read() == b"hello"


def test_answers_errors_in_turn(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """`after` requests pass, `times` are refused with the code told, the rest pass; others are left alone."""
    disturbed_s3.rule(method="PUT", key_contains="scored", after=1, times=2, answer={"code": "SlowDown"})
    seen: list[object] = []
    for _ in range(4):
        try:
            once.put_object(Bucket=s3_bucket.name, Key="a.scored.jsonl", Body=b"x")
            once.put_object(Bucket=s3_bucket.name, Key="other", Body=b"x")
            seen.append("stored")
        except ClientError as error:
            seen.append(error.response["Error"]["Code"])
    assert seen == ["stored", "SlowDown", "SlowDown", "stored"]
    statuses = [(one["status"], one["rule"]) for one in disturbed_s3.requests("PUT", "scored")]
    assert statuses == [(200, None), (503, 0), (503, 0), (200, None)]


def test_disturbs_a_share_at_random(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """About the share told, and under one seed the same requests each time."""
    disturbed: list[list[bool]] = []
    for seed in (1, 1, 2):
        disturbed_s3.clear()
        disturbed_s3.rule(share=0.3, seed=seed, answer={"code": "NoSuchKey"})
        for _ in range(40):
            with contextlib.suppress(ClientError):
                once.head_bucket(Bucket=s3_bucket.name)
        disturbed.append([one["rule"] is not None for one in disturbed_s3.requests()])
    assert disturbed[0] == disturbed[1] != disturbed[2]
    assert all(4 <= sum(one) <= 20 for one in disturbed)


@pytest.mark.parametrize(
    ("code", "status"), [("InternalError", 500), ("ExpiredToken", 400), ("AccessDenied", 403), ("NoSuchKey", 404)]
)
def test_knows_the_status_of_a_code(
    code: str, status: int, s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any
) -> None:
    """A code comes with its status, in XML; HEAD gets the status alone."""
    disturbed_s3.rule(answer={"code": code})
    with pytest.raises(ClientError) as caught:
        once.get_object(Bucket=s3_bucket.name, Key="any")
    assert code_of(caught) == (code, status)
    with pytest.raises(ClientError) as caught:
        once.head_object(Bucket=s3_bucket.name, Key="any")
    assert code_of(caught) == (str(status), status)


def test_refuses_one_part(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """A rule finds a request by its query: part 3 fails, part 2 does not."""
    disturbed_s3.rule(method="PUT", query={"partNumber": "3", "uploadId": None}, answer={"code": "AccessDenied"})
    upload = once.create_multipart_upload(Bucket=s3_bucket.name, Key="parts")
    target = {"Bucket": s3_bucket.name, "Key": "parts", "UploadId": upload["UploadId"], "Body": b"x"}
    once.upload_part(**target, PartNumber=2)
    with pytest.raises(ClientError, match="AccessDenied"):
        once.upload_part(**target, PartNumber=3)


def test_answers_an_error_after_the_work_was_done(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """With `pass_on` the backend stores the object although the client is told 500."""
    disturbed_s3.rule(method="PUT", answer={"code": "InternalError", "pass_on": True})
    with pytest.raises(ClientError, match="InternalError"):
        once.put_object(Bucket=s3_bucket.name, Key="done", Body=b"stored")
    assert s3_bucket.client.get_object(Bucket=s3_bucket.name, Key="done")["Body"].read() == b"stored"


@pytest.mark.parametrize(("drop", "stored"), [("before", False), ("after", True)])
def test_closes_the_connection(drop: str, stored: bool, s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """The client gets no answer, whether its request got lost or only the reply to it."""
    disturbed_s3.rule(method="PUT", drop=drop)
    with pytest.raises(ConnectionClosedError):
        once.put_object(Bucket=s3_bucket.name, Key="dropped", Body=b"x")
    assert ("Contents" in s3_bucket.client.list_objects_v2(Bucket=s3_bucket.name)) is stored
    (request,) = disturbed_s3.requests()
    assert (request["status"], request["backend_status"]) == (None, 200 if stored else None)


def test_makes_a_repeated_put_fail_by_a_lost_reply(
    s3_bucket: Any, disturbed_s3: DisturbedS3, make_client: Callable[..., Any]
) -> None:
    """A client that repeats a conditional put whose reply got lost is refused by its own object."""
    disturbed_s3.rule(method="PUT", times=1, drop="after")
    with pytest.raises(ClientError) as caught:
        make_client(attempts=2).put_object(Bucket=s3_bucket.name, Key="claim", Body=b"mine", IfNoneMatch="*")
    assert code_of(caught) == ("PreconditionFailed", 412)


def test_breaks_off_a_body(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """A reply dropped halfway promises more bytes than come."""
    s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="k", Body=b"x" * 1_000)
    disturbed_s3.rule(method="GET", drop="halfway")
    body = once.get_object(Bucket=s3_bucket.name, Key="k")["Body"]
    with pytest.raises((IncompleteReadError, ResponseStreamingError)):
        body.read()


def test_delays(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """A delayed request takes at least that long and is answered all the same."""
    disturbed_s3.rule(method="HEAD", delay_s=0.2)
    started_s = time.monotonic()
    once.head_bucket(Bucket=s3_bucket.name)
    assert time.monotonic() - started_s >= 0.2


def test_strips_conditions(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """Without the header the endpoint behaves as one that silently ignores conditional puts."""
    disturbed_s3.rule(strip=["if-none-match", "if-match"])
    for content in (b"first", b"second"):
        once.put_object(Bucket=s3_bucket.name, Key="claim", Body=content, IfNoneMatch="*")
    assert s3_bucket.client.get_object(Bucket=s3_bucket.name, Key="claim")["Body"].read() == b"second"
    assert [one["headers"]["if-none-match"] for one in disturbed_s3.requests("PUT")] == ["*", "*"]


def test_replaces_an_object_under_its_reader(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """The first range comes from the old version; a reader that pins it is refused the next."""
    etag = s3_bucket.client.put_object(Bucket=s3_bucket.name, Key="dump", Body=b"old version")["ETag"]
    disturbed_s3.rule(method="GET", key_contains="dump", times=1, replace_after=b"new version")
    pinned = {"Bucket": s3_bucket.name, "Key": "dump", "IfMatch": etag}
    assert once.get_object(**pinned, Range="bytes=0-2")["Body"].read() == b"old"
    with pytest.raises(ClientError) as caught:
        once.get_object(**pinned, Range="bytes=3-")
    assert code_of(caught) == ("PreconditionFailed", 412)
    assert once.get_object(Bucket=s3_bucket.name, Key="dump")["Body"].read() == b"new version"


def test_first_due_rule_acts_and_all_count(s3_bucket: Any, disturbed_s3: DisturbedS3, once: Any) -> None:
    """Of two rules for a request the first one acts while it is due, then the second one."""
    disturbed_s3.rule(method="GET", times=1, answer={"code": "SlowDown"})
    disturbed_s3.rule(method="GET", after=1, answer={"code": "ExpiredToken"})
    for code in ("SlowDown", "ExpiredToken", "ExpiredToken"):
        with pytest.raises(ClientError, match=code):
            once.get_object(Bucket=s3_bucket.name, Key="any")
    disturbed_s3.clear()
    assert disturbed_s3.requests() == []
    once.list_objects_v2(Bucket=s3_bucket.name)
    assert [one["status"] for one in disturbed_s3.requests()] == [200]


@pytest.mark.parametrize(
    "fields", [{}, {"methd": "PUT", "delay_s": 1}, {"drop": "later"}, {"answer": {"code": "Odd"}}, {"method": "PUT"}]
)
def test_refuses_rules_that_mean_nothing(fields: dict[str, Any], disturbed_s3: DisturbedS3) -> None:
    """A rule with a slip in it fails the test that gives it, rather than disturbing nothing."""
    with pytest.raises(ValueError):
        disturbed_s3.rule(**fields)
