"""Listings of S3 objects, and small objects read and written in one piece."""

import time
import uuid
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, FlexibleChecksumError, HTTPClientError, IncompleteReadError

from genrm_cli.storage.formats.location import InputIdentity, S3Options, parse_s3_uri
from genrm_cli.storage.s3.connection import describe, identify, s3_client
from genrm_cli.storage.s3.faults import MISSING, NO_CONDITIONS, REFUSED_CONDITION, error_code, s3_faults

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

_MARK = "genrm-create"
_CREATE_TRIES = 3
_READ_TRIES = 3


def iter_objects(bucket: str, prefix: str, options: S3Options, *, flat: bool) -> Iterator[tuple[InputIdentity, float]]:
    """Yield each object whose key starts with a prefix, with its age in seconds by the clock of S3, page by page.

    Keys that end in `/` (folder markers) are skipped. `flat` also skips, without listing them, keys with another `/`
    after the prefix.
    """
    start = f"s3://{bucket}/{prefix}"
    with s3_faults(start):
        pager = s3_client(options).get_paginator("list_objects_v2")
        listing = pager.paginate(Bucket=bucket, Prefix=prefix)
        if flat:
            listing = pager.paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
        pages = iter(listing)
    while True:
        # Not around the whole loop: errors of the caller are not S3 errors.
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
    """Return the content of an object, or None if it does not exist. Retry truncated replies."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        return _read(s3_client(options), bucket, key, _READ_TRIES)


def create(uri: str, options: S3Options, data: bytes) -> bool:
    """Create an object and return True, unless it exists; without conditional puts, check first and then put."""
    bucket, key = parse_s3_uri(uri)
    mark = uuid.uuid4().hex
    with s3_faults(uri):
        client = s3_client(options)
        for _ in range(_CREATE_TRIES):
            try:
                client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*", Metadata={_MARK: mark})
            except ClientError as error:
                if error_code(error) in NO_CONDITIONS:
                    return _create_unconditionally(client, uri, data)
                if error_code(error) not in REFUSED_CONDITION:
                    raise
                found = describe(client, uri, sure_of_bucket=True)
                if found is None:  # another put was in progress and failed
                    continue
                return found[1].get(_MARK) == mark  # ours, if the reply was lost and boto3 repeated the put
            return True
    return False


def _create_unconditionally(client: "S3Client", uri: str, data: bytes) -> bool:
    if identify(client, uri, sure_of_bucket=True) is not None:
        return False
    bucket, key = parse_s3_uri(uri)
    client.put_object(Bucket=bucket, Key=key, Body=data)
    return True


def replace(uri: str, options: S3Options, data: bytes) -> None:
    """Create or replace an object."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        s3_client(options).put_object(Bucket=bucket, Key=key, Body=data)


def remove(uri: str, options: S3Options) -> None:
    """Delete an object if it exists."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        try:
            s3_client(options).delete_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error_code(error) not in MISSING:  # unlike S3, some stores report a missing object
                raise


def honours_conditions(uri: str, options: S3Options, bodies: tuple[bytes, bytes]) -> bool:
    """Test whether the store refuses a second conditional put; the object is kept for the next test."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        client = s3_client(options)
        for body in bodies:
            try:
                client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
            except ClientError as error:
                if error_code(error) in NO_CONDITIONS:
                    return False
                if error_code(error) in REFUSED_CONDITION:
                    return True
                raise
    return False


def _read(client: "S3Client", bucket: str, key: str, tries: int) -> bytes | None:
    try:
        body = client.get_object(Bucket=bucket, Key=key)["Body"]
    except ClientError as error:
        if error_code(error) in MISSING:
            return None
        raise
    try:
        return body.read()
    except (HTTPClientError, IncompleteReadError, FlexibleChecksumError):  # boto3 does not retry reading the body
        if tries == 1:
            raise
    return _read(client, bucket, key, tries - 1)
