"""S3 by whole small objects and by listings. Imported only when an S3 URI is used, as s3.py is."""

import time
import uuid
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

from genrm_cli.storage.location import InputIdentity, S3Options, parse_s3_uri
from genrm_cli.storage.s3 import identify, s3_client
from genrm_cli.storage.s3_errors import error_code, s3_faults

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

_MARK = "genrm-create"
_READ_TRIES = 3
_MISSING = ("404", "NoSuchKey")
_REFUSED_CONDITION = ("412", "PreconditionFailed", "409", "ConditionalRequestConflict")
_NO_CONDITIONS = ("501", "NotImplemented", "XNotImplemented")


def iter_objects(bucket: str, prefix: str, options: S3Options, *, flat: bool) -> Iterator[tuple[InputIdentity, float]]:
    """Yield each object whose key begins with a prefix, and its age in seconds by the clock of S3, page by page.

    Keys that end in `/`, which stand for empty folders, are left out. `flat` leaves out what lies below
    another `/` after the prefix, without listing it.

    Raises:
        StorageError: S3 cannot be asked, or has no such bucket.
    """
    start = f"s3://{bucket}/{prefix}"
    with s3_faults(start):
        pager = s3_client(options).get_paginator("list_objects_v2")
        listing = pager.paginate(Bucket=bucket, Prefix=prefix)
        if flat:
            listing = pager.paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
        pages = iter(listing)
    while True:
        # Not around the whole loop: what a caller does with an object is no fault of S3.
        with s3_faults(start):
            page = next(pages, None)
        if page is None:
            return
        yield from _iter_page(bucket, page)


def _iter_page(bucket: str, page: "ListObjectsV2OutputTypeDef") -> Iterator[tuple[InputIdentity, float]]:
    headers = page["ResponseMetadata"]["HTTPHeaders"]
    now_s = parsedate_to_datetime(headers["date"]).timestamp() if "date" in headers else time.time()
    for entry in page.get("Contents", []):
        if not entry["Key"].endswith("/"):
            uri, etag = f"s3://{bucket}/{entry['Key']}", entry["ETag"].strip('"')
            age_s = max(0.0, now_s - entry["LastModified"].timestamp())
            yield InputIdentity(uri, size_bytes=entry["Size"], etag=etag), age_s


def read(uri: str, options: S3Options) -> bytes | None:
    """Return an object's bytes, None where there is no object; a reply that breaks off is asked for again."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        return _read(s3_client(options), bucket, key, _READ_TRIES)


def create(uri: str, options: S3Options, data: bytes) -> bool:
    """Put an object unless one is there, which is False; where S3 knows no conditions, look first, then put."""
    bucket, key = parse_s3_uri(uri)
    mark = uuid.uuid4().hex
    with s3_faults(uri):
        client = s3_client(options)
        try:
            client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*", Metadata={_MARK: mark})
        except ClientError as error:
            if error_code(error) in _REFUSED_CONDITION:
                return _has_mark(client, bucket, key, mark)
            if error_code(error) not in _NO_CONDITIONS:
                raise
            if identify(client, uri) is not None:
                return False
            client.put_object(Bucket=bucket, Key=key, Body=data)
    return True


def replace(uri: str, options: S3Options, data: bytes) -> None:
    """Put an object, whatever was there."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        s3_client(options).put_object(Bucket=bucket, Key=key, Body=data)


def remove(uri: str, options: S3Options) -> None:
    """Delete an object; none is fine."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        try:
            s3_client(options).delete_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error_code(error) not in _MISSING:  # S3 itself says nothing then, some other stores do
                raise


def honours_conditions(uri: str, options: S3Options, bodies: tuple[bytes, bytes]) -> bool:
    """Try whether a second conditional put of one object is refused; the object stays, for the next time."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        client = s3_client(options)
        for body in bodies:
            try:
                client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
            except ClientError as error:
                if error_code(error) in _NO_CONDITIONS:
                    return False
                if error_code(error) in _REFUSED_CONDITION:
                    return True
                raise
    return False


def _read(client: "S3Client", bucket: str, key: str, tries: int) -> bytes | None:
    try:
        body = client.get_object(Bucket=bucket, Key=key)["Body"]
    except ClientError as error:
        if error_code(error) in _MISSING:
            return None
        raise
    try:
        return body.read()
    except (HTTPClientError, IncompleteReadError):  # boto3 repeats requests, but not the reading of a reply's body
        if tries == 1:
            raise
    return _read(client, bucket, key, tries - 1)


def _has_mark(client: "S3Client", bucket: str, key: str, mark: str) -> bool:
    """Say whether our own put made the object: when its reply is lost, boto3 repeats it and is refused."""
    try:
        head = client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error_code(error) in _MISSING:  # gone by now, so it was another's
            return False
        raise
    # Some stores capitalise the names.
    return {name.lower(): value for name, value in head["Metadata"].items()}.get(_MARK) == mark
