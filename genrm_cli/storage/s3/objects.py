"""Objects and prefixes on S3."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from genrm_cli.errors import StorageError
from genrm_cli.settings.file_settings import StorageSettings
from genrm_cli.storage.contract import (
    ANY_MODE,
    Found,
    InputIdentity,
    Location,
    Mark,
    OpenInput,
    Sink,
    Stop,
    never,
)
from genrm_cli.storage.location import split_bucket
from genrm_cli.storage.patterns import is_match, literal_start, parse_pattern, split_pattern
from genrm_cli.storage.s3.connection import (
    MISSING,
    NO_OBJECT,
    REFUSED_CONDITION,
    age_s,
    describe,
    error_code,
    object_at,
    put_object,
    read_object,
    s3_client,
    s3_faults,
)
from genrm_cli.storage.s3.download import download
from genrm_cli.storage.s3.upload import S3Sink, mark_of

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.paginator import ListObjectsV2Paginator

_MARK = "genrm-create"
# A refusal without an object: another put was in progress, and failed. The next try decides.
_CREATE_TRIES = 3


@cache
def _paginator(client: "S3Client") -> "ListObjectsV2Paginator":
    """Return the paginator of a client: boto3 takes as long to make one as for a request."""
    return client.get_paginator("list_objects_v2")


class S3Object(Location):
    """An object, or the prefix or pattern of many."""

    def __init__(self, uri: str, settings: StorageSettings, max_attempts: int) -> None:
        self.uri = uri
        self._settings = settings
        self._max_attempts = max_attempts

    def identify(self) -> InputIdentity:
        """Return the size and the ETag."""
        found = self._described()
        if found is None:
            raise StorageError(f"{self.uri}: {NO_OBJECT}")
        return found.identity

    def open_input(self, stop: Stop = never) -> OpenInput:
        """Download one version of the object."""
        with self._client() as client:
            return OpenInput(*download(client, self.uri, stop), is_copy=True)

    def beginning(self, count: int) -> bytes:
        """Return the first bytes of the object; a connection that has more is closed."""
        with self._client() as client, client.get_object(**object_at(self.uri))["Body"] as body:
            return body.read(count)

    def mode(self) -> int:
        """Return the default: objects have no mode."""
        return ANY_MODE

    def find(self) -> Found | None:
        """Look at the object."""
        return self._described(is_output=True)

    def iter_found(self) -> Iterator[Found]:
        """Yield objects; memory holds one page of keys."""
        root, bucket, text = split_bucket(self.uri)
        folder, rest = split_pattern(text)
        pattern = parse_pattern(rest)
        skipped = len(root + folder)
        is_flat = pattern == (rest,)  # a single name
        for found in self._iter_keys(bucket, folder + literal_start(rest), flat=is_flat):
            uri = found.identity.uri
            # A key with wildcard characters also matches itself.
            if is_match(pattern, uri[skipped:].split("/")) or uri == self.uri:
                yield found

    def iter_named(self) -> Iterator[Found]:
        """Yield the objects whose keys have no other `/` after this one."""
        _, bucket, prefix = split_bucket(self.uri)
        return self._iter_keys(bucket, prefix, flat=True)

    def read(self) -> bytes | None:
        """Get the object."""
        with self._client() as client:
            return read_object(client, self.uri)

    def create(self, data: bytes) -> bool:
        """Put the object with `If-None-Match: *`."""
        mark = uuid.uuid4().hex
        with self._client() as client:
            for _ in range(_CREATE_TRIES):
                try:
                    put_object(client, self.uri, data, IfNoneMatch="*", Metadata={_MARK: mark})
                except ClientError as error:
                    if error_code(error) not in REFUSED_CONDITION:
                        raise
                    found = describe(client, self.uri, is_output=True)
                    if found is None:  # another put was in progress and failed
                        continue
                    # Ours, if the reply was lost and boto3 repeated the put.
                    return found[1].get(_MARK) == mark
                return True
        return False

    def replace(self, data: bytes) -> None:
        """Put the object."""
        with self._client() as client:
            put_object(client, self.uri, data)

    def remove(self) -> None:
        """Delete the object."""
        with self._client() as client:
            try:
                client.delete_object(**object_at(self.uri))
            except ClientError as error:
                # Unlike S3, some stores report a missing object.
                if error_code(error) not in MISSING:
                    raise

    def exists(self) -> bool:
        """Return whether the object exists; assumes that its bucket does."""
        return self.mark() is not None

    def mark(self) -> Mark | None:
        """Return the size and the id of the upload."""
        with self._client() as client:
            return mark_of(client, self.uri)

    def make_folder(self) -> None:
        """Do nothing: a prefix needs no creation."""

    def check_writable(self) -> None:
        """Start and abort an upload."""
        target = object_at(self.uri)
        with self._client() as client:
            upload = client.create_multipart_upload(**target)
            try:
                client.abort_multipart_upload(**target, UploadId=upload["UploadId"])
            except ClientError as error:
                # boto3 repeats an abort whose reply was lost.
                if error_code(error) != "NoSuchUpload":
                    raise

    def open_sink(self, *, overwrite: bool, mode: int) -> Sink:
        """Begin an upload."""
        with self._client() as client:
            return S3Sink(self.uri, client, overwrite=overwrite)

    def _described(self, *, is_output: bool = False) -> Found | None:
        with self._client() as client:
            described = describe(client, self.uri, is_output=is_output)
        return None if described is None else described[0]

    @contextmanager
    def _client(self) -> Iterator["S3Client"]:
        """Provide the client; its exceptions become errors about this object."""
        with s3_faults(self.uri):
            settings = self._settings
            yield s3_client(settings.endpoint_url, self._max_attempts, settings.s3)

    def _iter_keys(self, bucket: str, prefix: str, *, flat: bool) -> Iterator[Found]:
        """Yield each object whose key starts with a prefix, with its age by the clock of S3, page
        by page.

        Keys that end in `/` (folder markers) are skipped. `flat` also skips, without listing them,
        keys with another `/` after the prefix."""
        root = f"s3://{bucket}/"
        listing: Any = {"Bucket": bucket, "Prefix": prefix}
        if flat:
            listing["Delimiter"] = "/"
        with self._client() as client:
            pages = iter(_paginator(client).paginate(**listing))
        while True:
            # Not around the whole loop: errors of the caller are not S3 errors.
            with s3_faults(root + prefix):
                page = next(pages, None)
            if page is None:
                return
            headers = page["ResponseMetadata"]["HTTPHeaders"]
            for entry in page.get("Contents", []):
                if entry["Key"].endswith("/"):
                    continue
                etag = entry["ETag"].strip('"')
                identity = InputIdentity(root + entry["Key"], size_bytes=entry["Size"], etag=etag)
                yield Found(identity, age_s(entry["LastModified"], headers))
