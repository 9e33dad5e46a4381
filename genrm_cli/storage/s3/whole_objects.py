"""Listings of S3 objects, small objects in one piece, and downloads pinned to one version."""

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, BinaryIO, cast

from botocore.client import BaseClient
from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError, HTTPClientError, IncompleteReadError
from s3transfer.exceptions import S3DownloadFailedError
from s3transfer.futures import TransferFuture
from s3transfer.manager import TransferConfig, TransferManager
from s3transfer.subscribers import BaseSubscriber

from genrm_cli.errors import StoppedError
from genrm_cli.storage.location import InputIdentity, S3Options, changed, parse_s3_uri
from genrm_cli.storage.s3.connection import (
    MISSING,
    REFUSED_CONDITION,
    describe,
    error_code,
    identify,
    identify_object,
    s3_client,
    s3_faults,
)
from genrm_cli.storage.spool import temporary_error

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_MARK = "genrm-create"
_CREATE_TRIES = 3
_READ_TRIES = 3


def iter_objects(bucket: str, prefix: str, options: S3Options, *, flat: bool) -> Iterator[tuple[InputIdentity, float]]:
    """Yield each object whose key starts with a prefix, with its age by the clock of S3, page by page.

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
    """Create an object and return True, unless it exists."""
    bucket, key = parse_s3_uri(uri)
    mark = uuid.uuid4().hex
    with s3_faults(uri):
        client = s3_client(options)
        for _ in range(_CREATE_TRIES):
            try:
                client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*", Metadata={_MARK: mark})
            except ClientError as error:
                if error_code(error) not in REFUSED_CONDITION:
                    raise
                found = describe(client, uri, sure_of_bucket=True)
                if found is None:  # another put was in progress and failed
                    continue
                return found[1].get(_MARK) == mark  # ours, if the reply was lost and boto3 repeated the put
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


# At most 100 chunks of 256 KiB wait for the disk (the default queue holds 250 MB). Otherwise as `aws s3 cp`: ten
# concurrent requests of 8 MB.
_TRANSFER = TransferConfig(max_io_queue_size=100)
_STOP_CHECK_S = 0.1
_REPLACED = (*REFUSED_CONDITION, *MISSING)


def download(uri: str, options: S3Options, stop: Callable[[], bool] | None = None) -> tuple[InputIdentity, BinaryIO]:
    """Download an object into a temporary file, large ones in parallel ranges; the caller closes the file.

    Versions are never mixed. `stop` is polled ten times a second, but a stalled connection delays it by its timeout.
    """
    identity = identify_object(uri, options)
    with s3_faults(uri):
        return identity, _fetch(s3_client(options), identity, stop or (lambda: False))


def _fetch(client: "S3Client", identity: InputIdentity, stop: Callable[[], bool]) -> BinaryIO:
    try:
        file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (closed by the caller)
        try:
            _transfer(client, identity, file, stop)
            size_bytes = file.seek(0, 2)
            file.seek(0)
            # Some stores ignore If-Match, so compare the version again.
            if size_bytes != identity.size_bytes or identify(client, identity.uri) != identity:
                raise changed(identity.uri)
        except BaseException:
            file.close()
            raise
    except BotoCoreError:
        raise  # some, such as timeouts, are also an OSError
    except OSError as error:
        raise temporary_error(error) from error
    except S3DownloadFailedError as error:  # raised by the transfer manager for a 412
        raise changed(identity.uri) from error
    except ClientError as error:
        if error_code(error) in _REPLACED:
            raise changed(identity.uri) from error
        raise
    return file


def _transfer(client: "S3Client", identity: InputIdentity, file: BinaryIO, stop: Callable[[], bool]) -> None:
    bucket, key = parse_s3_uri(identity.uri)
    progress = _Progress(identity)
    pinned = cast(BaseClient, _Pinned(client, identity, stop))
    with TransferManager(pinned, _TRANSFER) as transfers:  # an exception cancels running requests
        future = transfers.download(bucket, key, file, subscribers=[progress])
        while not progress.done.wait(_STOP_CHECK_S):
            if stop():
                raise StoppedError
        future.result()


class _Progress(BaseSubscriber):
    """Give a transfer the known size and ETag, which saves a request, and signal its end."""

    def __init__(self, identity: InputIdentity) -> None:
        self._identity = identity
        self.done = threading.Event()

    def on_queued(self, future: TransferFuture, **_: object) -> None:
        if self._identity.size_bytes is not None:
            future.meta.provide_transfer_size(self._identity.size_bytes)
        if hasattr(future.meta, "provide_object_etag"):  # not in older versions
            future.meta.provide_object_etag(f'"{self._identity.etag}"')

    def on_done(self, future: TransferFuture, **_: object) -> None:
        self.done.set()


class _Pinned:
    """A client that reads only one version of an object, for which the transfer manager has no option."""

    def __init__(self, client: "S3Client", identity: InputIdentity, stop: Callable[[], bool]) -> None:
        self._client = client
        self._condition = {"IfMatch": f'"{identity.etag}"'}
        self._stop = stop

    def get_object(self, **arguments: object) -> object:
        if self._stop():  # the transfer manager retries a broken read even after a stop
            raise StoppedError
        get: Callable[..., object] = self._client.get_object
        return get(**{**arguments, **self._condition})

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)
