"""The one place that speaks S3. Imported only when an S3 URI is used, as boto3 is slow to import."""

import tempfile
import uuid
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, cast

import boto3
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import S3DownloadFailedError
from s3transfer.manager import TransferConfig, TransferManager

from genrm_cli.errors import InputError, StorageError, UsageError
from genrm_cli.storage.codec import make_encoder
from genrm_cli.storage.location import InputIdentity, S3Options, parse_s3_uri
from genrm_cli.storage.s3_errors import error_code, s3_faults, without_password
from genrm_cli.storage.spool import Spool, temporary_error

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

# Chunks of 256 KiB wait in this queue for the disk: 25 MB at most, where the default lets 250 MB pile up.
_TRANSFER = TransferConfig(max_io_queue_size=100)
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 60
_UPLOAD_MARK = "genrm-upload"
_MISSING = ("404", "NoSuchKey")
_WITHOUT_REASON = ("400", "403", "404")
_LOST_RACE = ("412", "PreconditionFailed", "409", "ConditionalRequestConflict")
_NO_CONDITIONS = ("501", "NotImplemented", "XNotImplemented")


@cache
def s3_client(options: S3Options) -> "S3Client":
    """Make the client for these options, once: making one takes a tenth of a second and asks for credentials."""
    session = boto3.Session(profile_name=options.profile, region_name=options.region)
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        tcp_keepalive=True,
        retries={"mode": "standard", "total_max_attempts": options.max_attempts},
    )
    try:
        return session.client("s3", endpoint_url=options.endpoint_url, config=config)
    except ValueError as error:
        endpoint = without_password(options.endpoint_url or "from the AWS settings")
        raise UsageError(f"the S3 endpoint {endpoint} is not a URL; expected like http://host:9000") from error


def download(uri: str, options: S3Options) -> tuple[InputIdentity, BinaryIO]:
    """Fetch an object, in parallel ranges when it is large, into a temporary file; the caller closes it.

    Raises:
        InputError: the object was replaced meanwhile; versions are never mixed.
        StorageError: the object is missing or cannot be fetched, or there is no room for it.
    """
    with s3_faults(uri):
        client = s3_client(options)
        identity = identify(client, uri)
        if identity is None:
            raise StorageError(f"{uri}: no such object; check the key")
        return identity, _fetch(client, identity)


def _fetch(client: "S3Client", identity: InputIdentity) -> BinaryIO:
    bucket, key = parse_s3_uri(identity.uri)
    try:
        file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        try:
            pinned = _conditional(client, ("get_object",), IfMatch=f'"{identity.etag}"')
            with TransferManager(pinned, _TRANSFER) as transfers:
                transfers.download(bucket, key, file).result()
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
        if error_code(error) in (*_LOST_RACE, *_MISSING):
            raise _changed(identity.uri) from error
        raise
    return file


def _changed(uri: str) -> InputError:
    return InputError(f"{uri}: changed while being read; run again when nothing writes to it any more")


def identify(client: "S3Client", uri: str) -> InputIdentity | None:
    """Return which version of an object is there, None where there is no object.

    Raises:
        ClientError: there is no bucket, or S3 refuses to say.
    """
    bucket, key = parse_s3_uri(uri)
    try:
        head = client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error_code(error) in _WITHOUT_REASON:
            # A reply to HEAD has no body. A listing of that key is refused for the same reason, and says it.
            client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        if error_code(error) in _MISSING:
            return None
        raise
    return InputIdentity(uri, size_bytes=head["ContentLength"], etag=head["ETag"].strip('"'))


def object_exists(uri: str, options: S3Options) -> bool:
    """Say whether there is an object; a missing bucket is an error."""
    with s3_faults(uri):
        return identify(s3_client(options), uri) is not None


def check_object_writable(uri: str, options: S3Options) -> None:
    """Prove that the object could be written, by beginning an upload and giving it up.

    Raises:
        StorageError: S3 refuses either.
    """
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        client = s3_client(options)
        upload = client.create_multipart_upload(Bucket=bucket, Key=key)
        client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload["UploadId"])


class S3Sink:
    """An object that appears whole: kept in a temporary file first, uploaded in `commit`."""

    def __init__(self, uri: str, options: S3Options, *, overwrite: bool) -> None:
        self.uri = uri
        self._bucket, self._key = parse_s3_uri(uri)
        self._overwrite = overwrite
        with s3_faults(uri):
            self._client = s3_client(options)
        self._encoder = make_encoder(uri)
        self._spool = Spool()
        self._finished = False

    def write(self, data: bytes) -> None:
        """Add bytes, before compression."""
        self._spool.append(self._encoder.compress(data))

    def finish(self) -> None:
        """End the content; only `commit` and `abort` may follow."""
        if not self._finished:
            self._spool.append(self._encoder.flush())
            self._finished = True

    def commit(self) -> None:
        """Upload the content; a failed upload is given up with all its parts.

        Raises:
            StorageError: S3 refuses, or the object exists by now and must not be replaced.
        """
        self.finish()
        with s3_faults(self.uri):
            if self._overwrite:
                self._upload(self._client)
            elif identify(self._client, self.uri) is not None:
                raise _appeared(self.uri)
            else:
                self._upload_if_absent()
        self._spool.close()

    def abort(self) -> None:
        """Drop the content; harmless after `commit`."""
        self._spool.close()

    def _upload_if_absent(self) -> None:
        writes = ("put_object", "complete_multipart_upload")
        try:
            self._upload(_conditional(self._client, writes, IfNoneMatch="*"))
        except ClientError as error:
            if error_code(error) in _LOST_RACE:
                raise _appeared(self.uri) from error
            if error_code(error) not in _NO_CONDITIONS:
                raise
            self._upload(self._client)

    def _upload(self, client: BaseClient) -> None:
        mark = uuid.uuid4().hex
        try:
            with self._spool.rewound() as content, TransferManager(client, _TRANSFER) as transfers:
                extra = {"Metadata": {_UPLOAD_MARK: mark}}
                transfers.upload(content, self._bucket, self._key, extra).result()
        except ClientError:
            # When only the reply got lost, the repeated request is refused for what the first one did.
            if not self._has_mark(mark):
                raise

    def _has_mark(self, mark: str) -> bool:
        try:
            head = self._client.head_object(Bucket=self._bucket, Key=self._key)
        except ClientError:
            return False
        return head["Metadata"].get(_UPLOAD_MARK) == mark


def _appeared(uri: str) -> StorageError:
    return StorageError(f"{uri}: exists by now, written by someone else; pass --overwrite to replace it")


def _conditional(client: "S3Client", methods: tuple[str, ...], **condition: str) -> BaseClient:
    return cast(BaseClient, _Conditional(client, methods, condition))


class _Conditional:
    """A client whose requests of some kinds carry a condition, as the transfer manager can be given none."""

    def __init__(self, client: "S3Client", methods: tuple[str, ...], condition: dict[str, str]) -> None:
        self._client = client
        self._methods = methods
        self._condition = condition

    def __getattr__(self, name: str) -> object:
        method = getattr(self._client, name)
        if name not in self._methods:
            return method
        return lambda **arguments: method(**{**arguments, **self._condition})
