"""Listings of S3 objects, small objects in one piece, and downloads pinned to one version."""

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, BinaryIO

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)

from genrm_cli.errors import StoppedError
from genrm_cli.storage.location import InputIdentity, S3Options, changed, parse_s3_uri
from genrm_cli.storage.s3.connection import (
    MISSING,
    REFUSED_CONDITION,
    describe,
    error_code,
    identify_object,
    s3_client,
    s3_faults,
)
from genrm_cli.storage.spool import temporary_error

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import GetObjectOutputTypeDef

_MARK = "genrm-create"
_CREATE_TRIES = 3
Stop = Callable[[], bool]


def iter_objects(
    bucket: str, prefix: str, options: S3Options, *, flat: bool
) -> Iterator[tuple[InputIdentity, float]]:
    """Yield each object whose key starts with a prefix, with its age by the clock of S3, page by
    page.

    Keys that end in `/` (folder markers) are skipped. `flat` also skips, without listing them, keys
    with another `/` after the prefix."""
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
        headers = page["ResponseMetadata"]["HTTPHeaders"]
        now_s = (
            parsedate_to_datetime(headers["date"]).timestamp() if "date" in headers else time.time()
        )
        for entry in page.get("Contents", []):
            if not entry["Key"].endswith("/"):
                uri = f"s3://{bucket}/{entry['Key']}"
                etag = entry["ETag"].strip('"')
                age_s = max(0.0, now_s - entry["LastModified"].timestamp())
                yield InputIdentity(uri, size_bytes=entry["Size"], etag=etag), age_s


def read(uri: str, options: S3Options) -> bytes | None:
    """Return the content of an object, or None if it does not exist. Retry truncated replies."""
    with s3_faults(uri):
        return _read(s3_client(options), uri)


def create(uri: str, options: S3Options, data: bytes) -> bool:
    """Create an object and return True, unless it exists."""
    bucket, key = parse_s3_uri(uri)
    mark = uuid.uuid4().hex
    with s3_faults(uri):
        client = s3_client(options)
        for _ in range(_CREATE_TRIES):
            try:
                client.put_object(
                    Bucket=bucket, Key=key, Body=data, IfNoneMatch="*", Metadata={_MARK: mark}
                )
            except ClientError as error:
                if error_code(error) not in REFUSED_CONDITION:
                    raise
                found = describe(client, uri, sure_of_bucket=True)
                if found is None:  # another put was in progress and failed
                    continue
                return (
                    found[1].get(_MARK) == mark
                )  # ours, if the reply was lost and boto3 repeated the put
            return True
    return False


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


def _read(
    client: "S3Client",
    uri: str,
    only: Mapping[str, str] = {},
    stop: Stop = lambda: False,
    tries: int = 3,
) -> bytes | None:
    """Return the content of an object, or the part and version that `only` names; None if it does
    not exist.
    """
    get: Callable[..., GetObjectOutputTypeDef] = client.get_object
    bucket, key = parse_s3_uri(uri)
    if stop():
        raise StoppedError
    try:
        body = get(Bucket=bucket, Key=key, **only)["Body"]
    except ClientError as error:
        if error_code(error) in MISSING:
            return None
        raise
    try:
        return body.read()
    except (
        HTTPClientError,
        IncompleteReadError,
        FlexibleChecksumError,
    ):  # boto3 does not retry reading the body
        if tries == 1:
            raise
    return _read(client, uri, only, stop, tries - 1)


_RANGE_BYTES = 8 << 20
_RANGES_AT_ONCE = 8
_STOP_CHECK_S = 0.1
_REPLACED = (*REFUSED_CONDITION, *MISSING, "416", "InvalidRange")


def download(
    uri: str, options: S3Options, stop: Stop | None = None
) -> tuple[InputIdentity, BinaryIO]:
    """Download an object into a temporary file, large ones in parallel ranges; the caller closes
    the file.

    Versions are never mixed. `stop` is polled ten times a second, but a stalled connection delays
    it by its timeout."""
    identity = identify_object(uri, options)
    with s3_faults(uri), ExitStack() as on_error:
        client = s3_client(options)
        try:
            file: BinaryIO = on_error.enter_context(tempfile.TemporaryFile())
            _fetch(client, identity, file.fileno(), stop or (lambda: False))
            # Some stores ignore If-Match, so compare the version again.
            if (found := describe(client, uri)) is None or found[0] != identity:
                raise changed(uri)
        except BotoCoreError:
            raise  # some, such as timeouts, are also an OSError
        except OSError as error:
            raise temporary_error(error) from error
        except ClientError as error:
            if error_code(error) in _REPLACED:
                raise changed(uri) from error
            raise
        on_error.pop_all()
        return identity, file


def _fetch(client: "S3Client", identity: InputIdentity, fd: int, stop: Stop) -> None:
    size = identity.size_bytes or 0

    def fetch(start: int) -> None:
        end = min(size, start + _RANGE_BYTES)
        part = {} if size <= _RANGE_BYTES else {"Range": f"bytes={start}-{end - 1}"}
        data = _read(client, identity.uri, {"IfMatch": f'"{identity.etag}"', **part}, stop)
        if data is None or len(data) != end - start:
            raise changed(identity.uri)
        while data:  # near a full disk a write may be partial
            written = os.pwrite(fd, data, end - len(data))
            data = data[written:]

    with ThreadPoolExecutor(_RANGES_AT_ONCE, thread_name_prefix="genrm-download") as threads:
        pending = {threads.submit(fetch, start) for start in range(0, size, _RANGE_BYTES)}
        try:
            while pending:
                if stop():
                    raise StoppedError
                done, pending = wait(pending, _STOP_CHECK_S, FIRST_EXCEPTION)
                for each in done:
                    each.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
