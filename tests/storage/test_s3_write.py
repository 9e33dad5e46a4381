import re
import threading
from dataclasses import replace

import pytest
from s3_objects import UPLOAD, keys_in, refusal

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.store import Store

STORE = Store()
_URI = "s3://bucket/rl/x.jsonl"
_PART = 8 << 20
_COMPLETED = b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
_LISTING = b"<ListBucketResult></ListBucketResult>"


def _kind(request):
    """Name what a request wants, as S3 does."""
    query = request.path.partition("?")[2]
    if request.method == "POST":
        return "complete" if "uploadId" in query else "begin"
    part = re.search(r"partNumber=(\d+)", query)
    if part is not None:
        return f"part {part[1]}"
    return {"PUT": "put", "DELETE": "abort", "HEAD": "head"}.get(request.method, "list")


def _kinds(scripted_s3):
    return [_kind(request) for request in scripted_s3.requests]


def _accept(request):
    """Answer as a store that takes everything and holds no object."""
    kind = _kind(request)
    if kind == "head":
        return 404, {}, b""
    contents = {"begin": UPLOAD, "complete": _COMPLETED, "list": _LISTING}
    return 200, {"ETag": '"x"'}, contents.get(kind, b"")


def _accept_but(kind, answer):
    return lambda request: answer if _kind(request) == kind else _accept(request)


def test_parts_go_up_before_the_object_appears(s3_bucket):
    """Parts of equal size are at S3 once the content ends; the object appears with the commit."""
    sink = STORE.open_sink(f"s3://{s3_bucket.name}/rl/x.jsonl", overwrite=False)
    sink.write(bytes(2 * _PART + 5))
    sink.finish()
    (upload,) = s3_bucket.client.list_multipart_uploads(Bucket=s3_bucket.name)["Uploads"]
    place = {"Bucket": s3_bucket.name, "Key": "rl/x.jsonl", "UploadId": upload["UploadId"]}
    parts = s3_bucket.client.list_parts(**place)["Parts"]
    assert [part["Size"] for part in parts] == [_PART, _PART, 5]
    assert keys_in(s3_bucket) == {"unfinished rl/x.jsonl"}
    sink.commit()
    assert keys_in(s3_bucket) == {"rl/x.jsonl"}


def test_part_that_fails_ends_the_upload(scripted_s3):
    """When the third part of five is refused, all parts are given up after the last one in
    flight.
    """
    scripted_s3.answer = _accept_but("part 3", refusal(403, "AccessDenied"))
    with (  # noqa: PT012
        pytest.raises(StorageError, match=f"^{_URI}: "),
        Outputs(scripted_s3.store, overwrite=True) as outputs,
    ):
        sink = outputs.open(_URI)
        for _ in range(40):
            sink.write(bytes(1 << 20))
        outputs.commit()
    kinds = _kinds(scripted_s3)
    assert "complete" not in kinds
    assert kinds.index("abort") == len(kinds) - 1


def test_refused_commit_leaves_nothing(scripted_s3):
    """If joining the parts is refused, that is a storage error, and they are given up."""
    scripted_s3.answer = _accept_but("complete", refusal(403, "AccessDenied"))
    sink = scripted_s3.store.open_sink(_URI, overwrite=True)
    sink.write(bytes(_PART + 1))
    with pytest.raises(StorageError, match="access denied"):
        sink.commit()
    sink.abort()
    assert _kinds(scripted_s3).count("abort") == 1


def test_everything_goes_up_with_a_checksum(scripted_s3):
    """Parts carry a CRC32, and the joining repeats those that S3 acknowledged."""
    scripted_s3.answer = lambda request: (
        (200, {"ETag": '"x"', "x-amz-checksum-crc32": request.headers["x-amz-checksum-crc32"]}, b"")
        if _kind(request).startswith("part")
        else _accept(request)
    )
    sink = scripted_s3.store.open_sink(_URI, overwrite=True)
    sink.write(bytes(2 * _PART))
    sink.commit()
    sent = {
        _kind(r): r.headers.get("x-amz-checksum-crc32")
        for r in scripted_s3.requests
        if r.method == "PUT"
    }
    assert sent.keys() == {"part 1", "part 2"}
    assert all(sent.values())
    completion = scripted_s3.requests[-1].body.decode()
    assert re.findall("<ChecksumCRC32>(.*?)</ChecksumCRC32>", completion) == [
        sent["part 1"],
        sent["part 2"],
    ]


def test_store_without_conditions_is_looked_at_again(scripted_s3):
    """An object that came while a store refused the condition is not replaced."""
    tried = threading.Event()

    def answer(request):
        if "if-none-match" in request.headers:
            tried.set()
            return refusal(501, "NotImplemented")
        if request.method == "HEAD" and tried.is_set():
            return 200, {"ETag": '"theirs"'}, b""
        return _accept(request)

    scripted_s3.answer = answer
    sink = scripted_s3.store.open_sink(_URI, overwrite=False)
    sink.write(b"ours")
    with pytest.raises(StorageError, match="created by another process"):
        sink.commit()
    sink.abort()
    assert _kinds(scripted_s3).count("put") == 1


def test_small_object_is_one_conditional_put(scripted_s3):
    """An output of some KB takes one request, and appears only where nothing is."""
    scripted_s3.answer = _accept
    sink = scripted_s3.store.at(_URI).open_sink(overwrite=False, mode=0o666)
    sink.write(b"content")
    sink.commit()
    assert _kinds(scripted_s3) == ["put"]
    assert scripted_s3.requests[0].headers["if-none-match"] == "*"


def test_arguments_of_the_settings_go_with_each_request_that_has_them(scripted_s3):
    """A put carries all of them, a listing only what a listing has."""
    scripted_s3.answer = _accept
    arguments = (
        ("RequestPayer", "requester"),
        ("SSEKMSKeyId", "key-1"),
        ("ServerSideEncryption", "aws:kms"),
        ("StorageClass", "STANDARD_IA"),
    )
    store = Store(replace(scripted_s3.store.settings, s3=arguments), max_attempts=1)
    for size in (1, _PART + 1):
        sink = store.at(_URI).open_sink(overwrite=True, mode=0o666)
        sink.write(bytes(size))
        sink.commit()
    list(store.at("s3://bucket/rl/").iter_found())
    sent = {
        _kind(request): {
            name: value
            for name, value in request.headers.items()
            if name in ("x-amz-request-payer", "x-amz-storage-class")
            or name.startswith("x-amz-server-side-encryption")
        }
        for request in scripted_s3.requests
    }
    payer = {"x-amz-request-payer": "requester"}
    whole = payer | {
        "x-amz-server-side-encryption": "aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id": "key-1",
        "x-amz-storage-class": "STANDARD_IA",
    }
    assert sent["put"] == sent["begin"] == whole
    assert sent["list"] == sent["part 1"] == sent["complete"] == payer


def test_unknown_argument_is_refused(scripted_s3):
    """A misspelt argument, one that genrm sets itself, and a secret key are errors."""
    for name in ("RequestPayr", "Body", "SSECustomerKey"):
        store = Store(replace(scripted_s3.store.settings, s3=((name, "x"),)), max_attempts=1)
        with pytest.raises(UsageError, match=rf"\[s3\]: '{name}'"):
            store.at(_URI).read()


def test_joining_whose_reply_got_lost_is_no_failure(scripted_s3):
    """A repeated joining finds no upload as the first one ended it; the object's mark shows that it
    is ours.
    """
    begun = {}
    answers = iter([refusal(500, "InternalError"), refusal(404, "NoSuchUpload")])

    def answer(request):
        if _kind(request) == "begin":
            begun.update(
                {
                    name: value
                    for name, value in request.headers.items()
                    if name.startswith("x-amz-meta-")
                }
            )
        if _kind(request) == "complete":
            return next(answers)
        return (
            (200, {**begun, "ETag": '"x"'}, b"") if request.method == "HEAD" else _accept(request)
        )

    scripted_s3.answer = answer
    sink = scripted_s3.store.open_sink(_URI, overwrite=True)
    sink.write(bytes(_PART + 1))
    sink.commit()
    sink.abort()
    assert "abort" not in _kinds(scripted_s3)
