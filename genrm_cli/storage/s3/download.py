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

from genrm_cli.errors import ChangedInputError, StoppedError, StorageError
from genrm_cli.storage.formats.location import InputIdentity, S3Options, parse_s3_uri
from genrm_cli.storage.formats.spool import temporary_error
from genrm_cli.storage.s3.connection import identify, s3_client
from genrm_cli.storage.s3.faults import MISSING, REFUSED_CONDITION, error_code, s3_faults

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

# Chunks of 256 KiB wait in this queue for the disk: 25 MB at most, where the default lets 250 MB pile up.
# The rest is as `aws s3 cp` has it: ten requests at once, each for 8 MB.
_TRANSFER = TransferConfig(max_io_queue_size=100)
_STOP_CHECK_S = 0.1
_REPLACED = (*REFUSED_CONDITION, *MISSING)


def download(uri: str, options: S3Options, stop: Callable[[], bool] | None = None) -> tuple[InputIdentity, BinaryIO]:
    """Fetch an object, in parallel ranges when it is large, into a temporary file; the caller closes it.

    Args:
        stop: asked ten times a second whether to give up; a connection that stands still delays that by its timeout.

    Raises:
        ChangedInputError: the object was replaced meanwhile; versions are never mixed.
        StoppedError: `stop` said so.
        StorageError: the object is missing or cannot be fetched, or there is no room for it.
    """
    with s3_faults(uri):
        client = s3_client(options)
        identity = identify(client, uri)
        if identity is None:
            raise StorageError(f"{uri}: no such object; check the key (a prefix ends in /)")
        return identity, _fetch(client, identity, stop or _never)


def _never() -> bool:
    return False


def _fetch(client: "S3Client", identity: InputIdentity, stop: Callable[[], bool]) -> BinaryIO:
    try:
        file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        try:
            _transfer(client, identity, file, stop)
            size_bytes = file.seek(0, 2)
            file.seek(0)
            # Some stores ignore If-Match, so look again at what is there now.
            if size_bytes != identity.size_bytes or identify(client, identity.uri) != identity:
                raise _changed(identity.uri)
        except BaseException:
            file.close()
            raise
    except BotoCoreError:
        raise  # before the next clause: some of them, as a timeout, are also an OSError
    except OSError as error:
        raise temporary_error(error) from error
    except S3DownloadFailedError as error:  # the transfer manager's word for a 412
        raise _changed(identity.uri) from error
    except ClientError as error:
        if error_code(error) in _REPLACED:
            raise _changed(identity.uri) from error
        raise
    return file


def _transfer(client: "S3Client", identity: InputIdentity, file: BinaryIO, stop: Callable[[], bool]) -> None:
    bucket, key = parse_s3_uri(identity.uri)
    progress = _Progress(identity)
    pinned = cast(BaseClient, _Pinned(client, identity, stop))
    with TransferManager(pinned, _TRANSFER) as transfers:  # leaving it by an exception cancels what runs
        future = transfers.download(bucket, key, file, subscribers=[progress])
        while not progress.done.wait(_STOP_CHECK_S):
            if stop():
                raise StoppedError
        future.result()


class _Progress(BaseSubscriber):
    """Tells a transfer what is known of the object, which saves a request, and hears when it is done."""

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
    """A client that reads one version of an object only, as the transfer manager cannot be told to."""

    def __init__(self, client: "S3Client", identity: InputIdentity, stop: Callable[[], bool]) -> None:
        self._client = client
        self._condition = {"IfMatch": f'"{identity.etag}"'}
        self._stop = stop

    def get_object(self, **arguments: object) -> object:
        if self._stop():  # the transfer manager repeats a broken read a few times, also when it was told to stop
            raise StoppedError
        get: Callable[..., object] = self._client.get_object
        return get(**{**arguments, **self._condition})

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)


def _changed(uri: str) -> ChangedInputError:
    return ChangedInputError(f"{uri}: changed while being read; run again when nothing writes to it any more")
