"""Atomic S3 outputs.

The content waits in a temporary file. `finish` sends its parts, so that only joining them can still
fail, and many outputs can wait for each other without memory; `commit` joins them."""

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
        self._upload_id: Any = None
        self._parts: list[dict[str, object]] = []
        self.mark: Mark | None = None

    def write(self, data: bytes) -> None:
        """Add uncompressed bytes."""
        self._append(self._encoder.compress(data))

    def finish(self) -> None:
        """Upload the content; only `commit` and `abort` may follow."""
        if self.mark is not None:
            return
        self._append(self._encoder.flush())
        self._spool.flush()
        size_bytes = len(self._spool)
        part_bytes = max(_LEAST_PART_BYTES, -(-size_bytes // _MOST_PARTS))
        with s3_faults(self.uri):
            self._upload_id = self._client.create_multipart_upload(
                **self._object, Metadata={_UPLOAD_KEY: self._mark_id}
            )["UploadId"]
            threads = ThreadPoolExecutor(_PARTS_AT_ONCE, thread_name_prefix="genrm-upload")
            try:
                sent = [
                    threads.submit(self._send, number, offset, part_bytes)
                    for number, offset in enumerate(range(0, size_bytes or 1, part_bytes), 1)
                ]
                self._parts = [part.result() for part in sent]
            finally:
                # A part that arrives after the upload is aborted would be stored, and billed.
                threads.shutdown(cancel_futures=True)
        self._spool.close()
        self.mark = Mark(size_bytes, self._mark_id, sha256=self._digest.hexdigest())

    def commit(self) -> None:
        """Publish the object; a second call does nothing."""
        self.finish()
        if self._upload_id is None:
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
        self._upload_id = None

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
            self._complete()
            return
        self._refuse_existing()  # some stores ignore or refuse conditions
        try:
            self._complete(IfNoneMatch="*")
        except ClientError as error:
            if error_code(error) not in NOT_IMPLEMENTED:
                raise
            self._refuse_existing()
            self._complete()

    def _complete(self, **condition: Any) -> None:
        parts: Any = {"Parts": self._parts}
        self._client.complete_multipart_upload(
            **self._object, UploadId=self._upload_id, MultipartUpload=parts, **condition
        )

    def _refuse_existing(self) -> None:
        if describe(self._client, self.uri, sure_of_bucket=True) is not None:
            raise appeared(self.uri)

    def _is_published(self) -> bool:
        try:
            found = mark_of(self._client, self.uri)
        except (ClientError, BotoCoreError):
            return False
        return found is not None and found.upload == self._mark_id


def mark_of(client: "S3Client", uri: str) -> Mark | None:
    """Return the mark of an object; None if the object or its bucket does not exist."""
    found = describe(client, uri, sure_of_bucket=True)
    return Mark(found[0].size_bytes or 0, found[1].get(_UPLOAD_KEY)) if found else None
