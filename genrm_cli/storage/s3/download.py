"""Downloads pinned to one version of an object."""

import os
import tempfile
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

from botocore.exceptions import BotoCoreError, ClientError

from genrm_cli.errors import StoppedError
from genrm_cli.storage.contract import InputIdentity, Stop
from genrm_cli.storage.location import changed
from genrm_cli.storage.s3.connection import (
    MISSING,
    REFUSED_CONDITION,
    describe,
    error_code,
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


def download(client: "S3Client", identity: InputIdentity, stop: Stop) -> BinaryIO:
    """Download an object into a temporary file, large ones in parallel ranges; the caller closes
    the file.

    Versions are never mixed. `stop` is polled ten times a second, but a stalled connection delays
    it by its timeout."""
    uri = identity.uri
    with s3_faults(uri), ExitStack() as on_error:
        try:
            file: BinaryIO = on_error.enter_context(tempfile.TemporaryFile())
            _fetch(client, identity, file.fileno(), stop)
            # Some stores ignore If-Match, so compare the version again.
            found = describe(client, uri)
            if found is None or found[0] != identity:
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
        return file


def _fetch(client: "S3Client", identity: InputIdentity, fd: int, stop: Stop) -> None:
    size = identity.size_bytes or 0

    def fetch(start: int) -> None:
        end = min(size, start + _RANGE_BYTES)
        part = {} if size <= _RANGE_BYTES else {"Range": f"bytes={start}-{end - 1}"}
        data = read_object(client, identity.uri, {"IfMatch": f'"{identity.etag}"', **part}, stop)
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
                for part in done:
                    part.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
