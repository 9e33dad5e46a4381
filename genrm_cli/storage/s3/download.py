"""Download of an S3 object into a temporary file, pinned to one version."""

import tempfile
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, cast

from botocore.client import BaseClient
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import S3DownloadFailedError
from s3transfer.futures import TransferFuture
from s3transfer.manager import TransferConfig, TransferManager
from s3transfer.subscribers import BaseSubscriber

from genrm_cli.errors import StoppedError
from genrm_cli.storage.formats.location import InputIdentity, S3Options, parse_s3_uri
from genrm_cli.storage.formats.spool import temporary_error
from genrm_cli.storage.input_errors import changed
from genrm_cli.storage.s3.connection import identify, identify_object, s3_client
from genrm_cli.storage.s3.faults import MISSING, REFUSED_CONDITION, error_code, s3_faults

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

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
