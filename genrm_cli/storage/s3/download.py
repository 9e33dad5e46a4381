"""Downloads pinned to one version of an object."""

import os
import tempfile
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)

from genrm_cli.errors import StoppedError
from genrm_cli.storage.contract import InputIdentity, Stop
from genrm_cli.storage.location import changed
from genrm_cli.storage.s3.connection import (
    MISSING,
    REFUSED_CONDITION,
    error_code,
    object_at,
    read_object,
    s3_faults,
)
from genrm_cli.storage.spool import temporary_error

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

# As boto3's own transfers. Memory holds a range for each thread, 64 MiB in all.
_RANGE_BYTES = 8 << 20
_RANGES_AT_ONCE = 8
_STOP_CHECK_S = 0.1  # after Ctrl-C, too short to be noticed
_REPLACED = (*REFUSED_CONDITION, *MISSING, "416", "InvalidRange")


def download(client: "S3Client", uri: str, stop: Stop) -> tuple[InputIdentity, BinaryIO]:
    """Download an object into a temporary file, large ones in parallel ranges; the caller closes
    the file.

    Versions are never mixed: the reply to the first request names the version. `stop` is polled ten
    times a second, but a stalled connection delays it by its timeout."""
    with s3_faults(uri), ExitStack() as on_error:
        try:
            file: BinaryIO = on_error.enter_context(tempfile.TemporaryFile())
            identity = _fetch(client, uri, file.fileno(), stop)
        except BotoCoreError:
            raise  # some, such as timeouts, are also an OSError
        except OSError as error:
            raise temporary_error(error) from error
        on_error.pop_all()
        return identity, file


def _fetch(client: "S3Client", uri: str, fd: int, stop: Stop) -> InputIdentity:
    """Write the object to a file: the first reply if it is small, else all its ranges."""

    def fetch_first() -> InputIdentity:
        reply = client.get_object(**object_at(uri))
        size = reply["ContentLength"]
        identity = InputIdentity(uri, size_bytes=size, etag=reply["ETag"].strip('"'))
        if size > _RANGE_BYTES:
            reply["Body"].close()
            return identity
        try:
            data = reply["Body"].read()
        except (HTTPClientError, IncompleteReadError, FlexibleChecksumError):
            data = _read_version(client, identity, {}, stop)
        _write(fd, data, 0)
        return identity

    def fetch_range(identity: InputIdentity, start: int) -> None:
        end = min(identity.size_bytes or 0, start + _RANGE_BYTES)
        data = _read_version(client, identity, {"Range": f"bytes={start}-{end - 1}"}, stop)
        if len(data) != end - start:
            raise changed(uri)
        _write(fd, data, start)

    with ThreadPoolExecutor(_RANGES_AT_ONCE, thread_name_prefix="genrm-download") as threads:
        try:
            first = threads.submit(fetch_first)
            _await_all({first}, stop)
            identity = first.result()
            size = identity.size_bytes or 0
            starts = range(0, size, _RANGE_BYTES) if size > _RANGE_BYTES else ()
            _await_all({threads.submit(fetch_range, identity, start) for start in starts}, stop)
            return identity
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _await_all(pending: set[Future[Any]], stop: Stop) -> None:
    while pending:
        if stop():
            raise StoppedError
        done, pending = wait(pending, _STOP_CHECK_S, FIRST_EXCEPTION)
        for part in done:
            part.result()


def _read_version(
    client: "S3Client", identity: InputIdentity, part: dict[str, str], stop: Stop
) -> bytes:
    try:
        data = read_object(client, identity.uri, {"IfMatch": f'"{identity.etag}"', **part}, stop)
    except ClientError as error:
        if error_code(error) in _REPLACED:
            raise changed(identity.uri) from error
        raise
    if data is None:
        raise changed(identity.uri)
    return data


def _write(fd: int, data: bytes, offset: int) -> None:
    while data:  # near a full disk a write may be partial
        written = os.pwrite(fd, data, offset)
        data = data[written:]
        offset += written
