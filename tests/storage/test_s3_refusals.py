import random
import threading

import pytest
from s3_objects import UPLOAD, refusal

from genrm_cli.errors import ChangedInputError, StoppedError, StorageError
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.source import open_source

_URI = "s3://bucket/rl/x.jsonl"
_MULTIPART_BYTES = 9 << 20


def test_reason_is_found_though_head_has_no_body(scripted_s3):
    """A refused HEAD has no body, so another request finds the reason; the message is one line
    without secrets.
    """
    cases = [
        (403, "AccessDenied", "access denied .*need s3:"),
        (400, "ExpiredToken", "session token has expired; sign in again"),
        (404, "NoSuchBucket", "no such bucket"),
        (400, "Whatever", "S3 refused .*Whatever.*said by the server"),
    ]
    for status, code, message in cases:
        scripted_s3.always(status, refusal(status, code)[2])
        for attempt in (
            lambda: open_source(_URI, scripted_s3.store, InputSettings()),
            lambda: scripted_s3.store.at(_URI).identify(),
        ):
            with pytest.raises(StorageError, match=f"^{_URI}: .*{message}") as caught:
                attempt()
            assert "\n" not in str(caught.value)
            assert "SKTEST" not in str(caught.value)


def test_missing_permission_to_write_is_found_before_the_run(scripted_s3):
    """The check names the permission that is missing, that to give up an upload included."""
    cases = [("POST", "s3:PutObject"), ("DELETE", "s3:AbortMultipartUpload")]
    for refused, permission in cases:
        scripted_s3.answer = lambda request, refused=refused: (
            refusal(403, "AccessDenied") if request.method == refused else (200, {}, UPLOAD)
        )
        with pytest.raises(StorageError, match=permission):
            scripted_s3.store.at(_URI).check_writable()


def test_every_get_is_pinned_to_one_version(scripted_s3):
    """A large object is fetched in ranges, each on condition that it is still the version of the
    first reply.
    """
    size = 20 << 20

    def answer(request):
        if "range" not in request.headers:
            return 200, {"ETag": '"a"'}, bytes(size)
        start, _, end = request.headers["range"].removeprefix("bytes=").partition("-")
        first = int(start)
        last = int(end or size - 1)
        return (
            206,
            {"ETag": '"a"', "Content-Range": f"bytes {first}-{last}/{size}"},
            b"x" * (last - first + 1),
        )

    scripted_s3.answer = answer
    with open_source(_URI, scripted_s3.store, InputSettings(max_line_bytes=size)) as source:
        (line,) = source.iter_lines()
    first, *ranges = scripted_s3.requests
    assert len(line.raw) == size
    assert "if-match" not in first.headers
    assert len(ranges) > 1
    assert {request.headers["if-match"] for request in ranges} == {'"a"'}


def test_object_replaced_while_being_read_is_an_input_error(scripted_s3):
    """When the version first seen is gone, the input is refused: versions are never mixed."""
    for gone in (refusal(412, "PreconditionFailed"), refusal(404, "NoSuchKey")):
        scripted_s3.answer = lambda request, gone=gone: (
            gone if "range" in request.headers else (200, {"ETag": '"a"'}, bytes(_MULTIPART_BYTES))
        )
        with pytest.raises(ChangedInputError, match="changed while being read"):
            open_source(_URI, scripted_s3.store, InputSettings())


def test_replacement_is_seen_where_conditions_are_ignored(scripted_s3):
    """A store that ignores If-Match names the other version in its reply."""
    scripted_s3.answer = lambda request: (
        (206, {"ETag": '"b"'}, bytes(8 << 20))
        if "range" in request.headers
        else (200, {"ETag": '"a"'}, bytes(_MULTIPART_BYTES))
    )
    with pytest.raises(ChangedInputError, match="changed while being read"):
        open_source(_URI, scripted_s3.store, InputSettings())


def test_read_can_be_stopped(scripted_s3):
    """A transfer that is told to stop ends without fetching the rest, though S3 answers slowly and
    breaks off.
    """
    size = 400 << 20
    stopped = threading.Event()

    def answer(request):
        if request.method == "HEAD":
            return 200, {"ETag": '"a"', "Content-Length": str(size)}, b""
        stopped.wait(10)
        return 206, {"ETag": '"a"', "Content-Length": "4", "Connection": "close"}, b"abc"

    def stop():
        if any(request.method == "GET" for request in scripted_s3.requests):
            stopped.set()
        return stopped.is_set()

    scripted_s3.answer = answer
    with pytest.raises(StoppedError):
        open_source(_URI, scripted_s3.store, InputSettings(), stop)
    gets = sum(request.method == "GET" for request in scripted_s3.requests)
    assert 0 < gets <= 10


_PAGE = b"<html><body>Please sign in.</body></html>"


def test_a_web_page_is_no_reply_of_s3(scripted_s3):
    """A page with status 200 is an error: no object, no empty listing, no finished upload."""
    cases = {
        "source": lambda s3: open_source(_URI, s3, InputSettings()),
        "exists": lambda s3: s3.at(_URI).exists(),
        "read": lambda s3: s3.at(_URI).read(),
        "create": lambda s3: s3.at(_URI).create(b"x"),
        "check": lambda s3: s3.at(_URI).check_writable(),
        "prefix": lambda s3: list(s3.at("s3://bucket/rl/").iter_found()),
    }
    scripted_s3.answer = lambda request: (200, {"Content-Type": "text/html"}, _PAGE)
    for attempt in cases.values():
        with pytest.raises(StorageError, match=r"not from S3.*check the S3 endpoint"):
            attempt(scripted_s3.store)


def test_an_upload_answered_by_a_web_page_has_failed(scripted_s3):
    """Neither a part nor the whole counts as stored."""
    for large in (False, True):
        sink = scripted_s3.store.open_sink(_URI, overwrite=True)
        scripted_s3.answer = lambda request: (
            (200, {}, UPLOAD)
            if "?uploads" in request.path
            else (200, {"Content-Type": "text/html"}, _PAGE)
        )
        with pytest.raises(StorageError, match="not from S3"):  # noqa: PT012
            sink.write(random.randbytes(_MULTIPART_BYTES if large else 10))
            sink.commit()
        sink.abort()
