"""Atomic S3 outputs, uploaded in parts while they are written."""

import hashlib
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.storage.contract import Mark
from genrm_cli.storage.encoding.codec import make_encoder
from genrm_cli.storage.local.sinks import appeared
from genrm_cli.storage.location import parse_object_uri
from genrm_cli.storage.s3.connection import (
    NO_CONDITIONS,
    REFUSED_CONDITION,
    describe,
    error_code,
    s3_faults,
)

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

# S3 takes parts from 5 MiB to 5 GiB, 10,000 of an object; `part_bytes` says what these add up to.
_PART_BYTES = 8 << 20
_EVEN_PARTS = 4000
_PARTS_OF_A_SIZE = 1000
# One part is sent while the next one is filled; more would only hold memory.
_OPEN_PARTS = 2
_UPLOAD_KEY = "genrm-upload"


class S3Sink:
    """An object that appears whole: parts of at least 8 MiB are uploaded in the background and
    joined in `commit`.

    Memory holds about three parts: one being filled and two in flight; none once it is finished, as
    many outputs may wait for each other. Not thread-safe."""

    staged: str | None = None

    def __init__(self, uri: str, client: "S3Client", *, overwrite: bool) -> None:
        self.uri = uri
        self._bucket, self._key = parse_object_uri(uri)
        self._overwrite = overwrite
        self._upload = uuid.uuid4().hex
        self._client = client
        self._encoder = make_encoder(uri)
        self._buffer = bytearray()
        self._parts: _Parts | None = None
        self._size_bytes = 0
        self._digest = hashlib.sha256()
        self._ended = self._committed = False
        self.mark: Mark | None = None

    def write(self, data: bytes) -> None:
        """Add uncompressed bytes; blocks while two parts are in flight. After an error only `abort`
        may follow.
        """
        self._append(self._encoder.compress(data))
        self._send_full_parts()

    def finish(self) -> None:
        """Upload the remaining parts; only `commit` and `abort` may follow."""
        if not self._ended:
            self._append(self._encoder.flush())
            self._ended = True
        self._send_full_parts()
        self._parts = self._parts or self._begin_parts()
        if self._buffer or not self._parts.count:
            self._send(self._parts, len(self._buffer))
        with s3_faults(self.uri):
            self._parts.wait(below=1)
        self._parts.threads.shutdown()
        self.mark = Mark(self._size_bytes, self._upload, sha256=self._digest.hexdigest())

    def commit(self) -> None:
        """Publish the object; a second call does nothing."""
        if self._committed:
            return
        self.finish()
        with s3_faults(self.uri):
            try:
                self._publish()
            except (ClientError, BotoCoreError) as error:
                # If only the reply was lost, the retry is refused because the first request
                # succeeded.
                if not self._is_published():
                    if isinstance(error, ClientError) and error_code(error) in REFUSED_CONDITION:
                        raise appeared(self.uri) from error
                    raise
        self._committed = True
        self._buffer.clear()
        self._parts = None

    def abort(self) -> None:
        """Abort the upload; harmless after `commit`, and twice."""
        self._buffer.clear()
        if self._parts is not None:
            with suppress(StorageError, UsageError), s3_faults(self.uri):
                self._parts.abort()
            self._parts = None

    def _append(self, data: bytes) -> None:
        self._buffer += data
        self._digest.update(data)
        self._size_bytes += len(data)

    def _send_full_parts(self) -> None:
        while len(self._buffer) >= (
            size_bytes := part_bytes(self._parts.count + 1 if self._parts else 1)
        ):
            self._parts = self._parts or self._begin_parts()
            self._send(self._parts, size_bytes)

    def _begin_parts(self) -> "_Parts":
        return _Parts(self._client, self._bucket, self._key, {_UPLOAD_KEY: self._upload})

    def _send(self, parts: "_Parts", size_bytes: int) -> None:
        with s3_faults(self.uri):
            parts.wait(below=_OPEN_PARTS)  # before the bytes are copied, to bound memory
        with memoryview(self._buffer) as content:
            body = bytes(content[:size_bytes])
        del self._buffer[:size_bytes]
        parts.send(body)

    def _publish(self) -> None:
        if self._parts is None:
            return None
        if self._overwrite:
            return self._parts.complete()
        self._refuse_existing()  # some stores ignore or refuse conditions
        try:
            return self._parts.complete(IfNoneMatch="*")
        except ClientError as error:
            if error_code(error) not in NO_CONDITIONS:
                raise
        self._refuse_existing()
        return self._parts.complete()

    def _refuse_existing(self) -> None:
        if describe(self._client, self.uri, sure_of_bucket=True) is not None:
            raise appeared(self.uri)

    def _is_published(self) -> bool:
        try:
            found = mark_of(self._client, self.uri)
        except (ClientError, BotoCoreError):
            return False
        return found is not None and found.upload == self._upload


class _Parts:
    """A multipart upload on two background threads; every wait raises the exception of a failed
    request.
    """

    def __init__(self, client: "S3Client", bucket: str, key: str, metadata: dict[str, str]) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self.threads = ThreadPoolExecutor(_OPEN_PARTS, thread_name_prefix="genrm-upload")
        self._open: deque[Future[dict[str, str | int]]] = deque()
        self._done: list[dict[str, str | int]] = []
        # Also on a thread: an interrupt here must not lose the id, which is needed to abort the
        # upload.
        self._upload_id = self.threads.submit(self._begin, metadata)

    @property
    def count(self) -> int:
        """Number of parts sent so far."""
        return len(self._done) + len(self._open)

    def wait(self, below: int) -> None:
        """Wait until fewer parts than this are in flight."""
        while self._open and (len(self._open) >= below or self._open[0].done()):
            self._done.append(self._open[0].result())
            self._open.popleft()

    def send(self, body: bytes) -> None:
        """Upload another part in the background."""
        self._open.append(self.threads.submit(self._send, self.count + 1, body))

    def complete(self, **condition: str) -> None:
        """Join the parts into an object."""
        complete: Callable[..., object] = self._client.complete_multipart_upload
        parts = {"Parts": self._done}
        upload_id = self._upload_id.result()
        complete(
            Bucket=self._bucket,
            Key=self._key,
            UploadId=upload_id,
            MultipartUpload=parts,
            **condition,
        )

    def abort(self) -> None:
        """Abort after the parts in flight: a part that arrives later would be stored, and billed,
        permanently.
        """
        self.threads.shutdown(cancel_futures=True)
        if not self._upload_id.cancelled() and self._upload_id.exception() is None:
            upload_id = self._upload_id.result()
            self._client.abort_multipart_upload(
                Bucket=self._bucket, Key=self._key, UploadId=upload_id
            )

    def _begin(self, metadata: dict[str, str]) -> str:
        return self._client.create_multipart_upload(
            Bucket=self._bucket, Key=self._key, Metadata=metadata
        )["UploadId"]

    def _send(self, number: int, body: bytes) -> dict[str, str | int]:
        upload_id = self._upload_id.result()  # the first request in the queue, so it is running
        reply = self._client.upload_part(
            Bucket=self._bucket, Key=self._key, UploadId=upload_id, PartNumber=number, Body=body
        )
        part: dict[str, str | int] = {"PartNumber": number, "ETag": reply["ETag"]}
        return part | (
            {"ChecksumCRC32": reply["ChecksumCRC32"]} if "ChecksumCRC32" in reply else {}
        )


def part_bytes(number: int) -> int:
    """Return the size of a part, counted from 1: 8 MiB, doubled every thousand parts from 4,001 on.

    The 10,000 parts that S3 allows then hold 1.09 TB. Objects up to 31 GiB have parts of equal
    size, which some stores require."""
    return _PART_BYTES << max(0, -((_EVEN_PARTS - number) // _PARTS_OF_A_SIZE))


def mark_of(client: "S3Client", uri: str) -> Mark | None:
    """Return the mark of an object; None if the object or its bucket does not exist."""
    found = describe(client, uri, sure_of_bucket=True)
    return Mark(found[0].size_bytes or 0, found[1].get(_UPLOAD_KEY)) if found else None
