from functools import partial
from itertools import count, repeat

import pytest
from s3_objects import refusal

from genrm_cli.errors import StorageError

_URI = "s3://bucket/rl/x.lease"


def test_success_whose_reply_got_lost_is_a_success(scripted_s3):
    """If boto3 repeats a successful put and S3 refuses it, the object is recognised as our own."""
    stored = []

    def answer(request):
        if request.method == "PUT":
            stored.append({n: v for n, v in request.headers.items() if n.startswith("x-amz-meta-")})
            return refusal(500, "InternalError") if len(stored) == 1 else refusal(412, "412")
        return 200, {"ETag": '"e"', **stored[0]}, b""

    scripted_s3.answer = answer
    assert scripted_s3.store.at(_URI).create(b"mine") is True
    assert scripted_s3.store.at(_URI).create(b"mine") is False
    methods = [request.method for request in scripted_s3.requests]
    assert methods == ["PUT", "PUT", "HEAD", "PUT", "HEAD"]
    assert {request.headers.get("if-none-match") for request in scripted_s3.requests} == {"*", None}


def test_what_a_store_lacks_is_named(scripted_s3):
    """Checksums, conditions or multipart: what the refusal names, else all possible causes."""
    place = scripted_s3.store.at(_URI)
    checksums = "AWS_REQUEST_CHECKSUM_CALCULATION=when_required"
    conditions = "If-None-Match"
    lacks = refusal(501, "NotImplemented")[2]

    def named(header):
        return lacks.replace(b"</Error>", f"<Header>{header}</Header></Error>".encode())

    cases = [
        (partial(place.create, b"mine"), lacks, [checksums, conditions]),
        (partial(place.create, b"mine"), named("If-None-Match"), [conditions]),
        (partial(place.create, b"mine"), named("x-amz-checksum-crc32"), [checksums]),
        (place.read, lacks, [checksums]),
        (place.exists, b"", [checksums]),
        (place.check_writable, lacks, [checksums, "multipart"]),
    ]
    for attempt, body, causes in cases:
        scripted_s3.always(501, body)
        with pytest.raises(StorageError) as caught:
            attempt()
        told = str(caught.value)
        assert [cause for cause in (checksums, conditions, "multipart") if cause in told] == causes


def test_reply_that_breaks_off_is_asked_for_again(scripted_s3):
    """A truncated body is requested again; after the last attempt it is an error."""
    replies = count()

    def answer(request):
        headers = {"ETag": '"e"', "Connection": "close"}
        return (
            (200, headers | {"Content-Length": "9"}, b"who")
            if next(replies) == 0
            else (200, headers, b"whole one")
        )

    scripted_s3.answer = answer
    assert scripted_s3.store.at(_URI).read() == b"whole one"
    replies = repeat(0)
    with pytest.raises(StorageError, match=f"^{_URI}: "):
        scripted_s3.store.at(_URI).read()


def test_refusal_is_one_line_that_names_the_place(scripted_s3):
    """A refusal becomes a `StorageError` that names the denied action and contains no secret."""
    scripted_s3.answer = lambda request: refusal(403, "AccessDenied")
    at = scripted_s3.store.at(_URI)
    for attempt in (at.read, at.remove, partial(at.create, b"x"), partial(at.replace, b"x")):
        with pytest.raises(
            StorageError, match=rf"^{_URI}.*: access denied \(.*these credentials need s3:"
        ) as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert "SKTEST" not in str(caught.value)
