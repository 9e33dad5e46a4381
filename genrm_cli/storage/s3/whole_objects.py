"""S3 by whole small objects and by listings. Imported only when an S3 URI is used, as s3.py is."""

import time
import uuid
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

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
        for _ in range(_CREATE_TRIES):
            try:
                client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*", Metadata={_MARK: mark})
            except ClientError as error:
                if error_code(error) in NO_CONDITIONS:
                    return _create_unconditionally(client, uri, data)
                if error_code(error) not in REFUSED_CONDITION:
                    raise
                found = describe(client, uri, sure_of_bucket=True)
                if found is None:  # somebody else's put was under way, and came to nothing
                    continue
                return found[1].get(_MARK) == mark  # its reply got lost: boto3 repeated it, and was refused
            return True
    return False


def _create_unconditionally(client: "S3Client", uri: str, data: bytes) -> bool:
    if identify(client, uri, sure_of_bucket=True) is not None:
        return False
    bucket, key = parse_s3_uri(uri)
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
            if error_code(error) not in MISSING:  # S3 itself says nothing then, some other stores do
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
    except (HTTPClientError, IncompleteReadError):  # boto3 repeats requests, but not the reading of a reply's body
        if tries == 1:
            raise
    return _read(client, bucket, key, tries - 1)
