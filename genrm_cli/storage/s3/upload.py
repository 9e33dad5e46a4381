"""Atomic S3 outputs.

The content waits in a temporary file. A small object is sent by `commit`, in one conditional put.
Of a larger one `finish` sends the parts, so that only joining them can still fail, and `commit`
joins them."""

import hashlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.storage.contract import Mark
from genrm_cli.storage.encoding.codec import make_encoder
from genrm_cli.storage.local.sinks import appeared
from genrm_cli.storage.s3.connection import (
    NOT_IMPLEMENTED,
    REFUSED_CONDITION,
    describe,
    error_code,
    object_at,
    put_object,
    s3_faults,
)
from genrm_cli.storage.spool import Spool

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

# S3 takes parts from 5 MiB to 5 GiB, 10,000 of an object; some stores require equal sizes.
_LEAST_PART_BYTES = 8 << 20
_MOST_PARTS = 10_000
_PARTS_AT_ONCE = 4  # of 8 MiB, which memory holds
_UPLOAD_KEY = "genrm-upload"


class S3Sink:
    """An object that appears whole. Not thread-safe."""

    def __init__(self, uri: str, client: "S3Client", *, overwrite: bool) -> None:
        self.uri = uri
        self._object = object_at(uri)
        self._overwrite = overwrite
        self._client = client
        self._encoder = make_encoder(uri)
        self._spool = Spool()
        self._digest = hashlib.sha256()
        self._mark_id = uuid.uuid4().hex
        self._metadata = {_UPLOAD_KEY: self._mark_id}
        self._is_done = False
        self._upload_id: Any = None
        self._parts: list[dict[str, object]] = []
        self.mark: Mark | None = None

    def write(self, data: bytes) -> None:
        """Add uncompressed bytes."""
        self._append(self._encoder.compress(data))

    def finish(self) -> None:
        """Upload content of more than one part; only `commit` and `abort` may follow."""
        if self.mark is not None:
            return
        self._append(self._encoder.flush())
        size_bytes = len(self._spool)
        if size_bytes > _LEAST_PART_BYTES:
            self._send_parts(size_bytes)
            self._spool.close()
        self.mark = Mark(size_bytes, self._mark_id, sha256=self._digest.hexdigest())

    def _send_parts(self, size_bytes: int) -> None:
        self._spool.flush()
        part_bytes = max(_LEAST_PART_BYTES, -(-size_bytes // _MOST_PARTS))
        with s3_faults(self.uri):
            self._upload_id = self._client.create_multipart_upload(
                **self._object, Metadata=self._metadata
            )["UploadId"]
            threads = ThreadPoolExecutor(_PARTS_AT_ONCE, thread_name_prefix="genrm-upload")
            try:
                sent = [
                    threads.submit(self._send, number, offset, part_bytes)
                    for number, offset in enumerate(range(0, size_bytes, part_bytes), 1)
                ]
                self._parts = [part.result() for part in sent]
            finally:
                # A part that arrives after the upload is aborted would be stored, and billed.
                threads.shutdown(cancel_futures=True)

    def commit(self) -> None:
        """Publish the object; a second call does nothing."""
        self.finish()
        if self._is_done:
            return
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
        self._spool.close()
        self._upload_id = None
        self._is_done = True

    def abort(self) -> None:
        """Abort the upload; harmless after `commit`, and twice."""
        self._spool.close()
        if self._upload_id is not None:
            with suppress(StorageError, UsageError), s3_faults(self.uri):
                self._client.abort_multipart_upload(**self._object, UploadId=self._upload_id)
            self._upload_id = None

    def _append(self, data: bytes) -> None:
        self._spool.write(data)
        self._digest.update(data)

    def _send(self, number: int, offset: int, size_bytes: int) -> dict[str, object]:
        reply = self._client.upload_part(
            **self._object,
            UploadId=self._upload_id,
            PartNumber=number,
            Body=self._spool.read(offset, size_bytes),
        )
        part: dict[str, object] = {"PartNumber": number, "ETag": reply["ETag"]}
        if "ChecksumCRC32" in reply:  # not every store sends it
            part["ChecksumCRC32"] = reply["ChecksumCRC32"]
        return part

    def _publish(self) -> None:
        if self._overwrite:
            self._make_appear()
            return
        try:
            self._make_appear(IfNoneMatch="*")
        except ClientError as error:
            if error_code(error) not in NOT_IMPLEMENTED:
                raise
            if describe(self._client, self.uri, is_output=True) is not None:
                raise appeared(self.uri) from error
            self._make_appear()

    def _make_appear(self, **condition: Any) -> None:
        if self._upload_id is None:
            content = self._spool.read(0, len(self._spool))
            put_object(self._client, self.uri, content, Metadata=self._metadata, **condition)
            return
        parts: Any = {"Parts": self._parts}
        self._client.complete_multipart_upload(
            **self._object, UploadId=self._upload_id, MultipartUpload=parts, **condition
        )

    def _is_published(self) -> bool:
        try:
            found = mark_of(self._client, self.uri)
        except (ClientError, BotoCoreError):
            return False
        return found is not None and found.upload == self._mark_id


def mark_of(client: "S3Client", uri: str) -> Mark | None:
    """Return the mark of an object; None if the object or its bucket does not exist."""
    described = describe(client, uri, is_output=True)
    if described is None:
        return None
    found, metadata = described
    return Mark(found.identity.size_bytes or 0, metadata.get(_UPLOAD_KEY))
