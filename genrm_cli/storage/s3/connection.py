"""The S3 client, and requests about single objects."""

from functools import cache
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.storage.formats.location import InputIdentity, S3Options, parse_s3_uri
from genrm_cli.storage.s3.faults import MISSING, error_code, refuse_other_replies, s3_faults, without_password

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_CONNECTIONS = 64  # several files at once with ten requests each; beyond this number each request reconnects
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 60
_WITHOUT_REASON = ("400", "403", "404")


@cache
def s3_client(options: S3Options) -> "S3Client":
    """Return the cached client for these options; creating one takes 0.1 s and resolves the credentials."""
    session = boto3.Session(profile_name=options.profile, region_name=options.region)
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        tcp_keepalive=True,
        max_pool_connections=_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": options.max_attempts},
    )
    try:
        client = session.client("s3", endpoint_url=options.endpoint_url, config=config)
    except ValueError as error:
        endpoint = without_password(options.endpoint_url or "from the AWS settings")
        raise UsageError(f"the S3 endpoint {endpoint} is not a URL; expected, for example, http://host:9000") from error
    client.meta.events.register("after-call.s3", refuse_other_replies)
    return client


def identify(client: "S3Client", uri: str, *, sure_of_bucket: bool = False) -> InputIdentity | None:
    """Return the current version of an object, or None if it does not exist; see `describe`."""
    found = describe(client, uri, sure_of_bucket=sure_of_bucket)
    return found[0] if found else None


def describe(
    client: "S3Client", uri: str, *, sure_of_bucket: bool = False
) -> tuple[InputIdentity, dict[str, str]] | None:
    """Return the current version of an object with its metadata, names in lower case; None if it does not exist.

    Raises `ClientError` if the bucket does not exist; assuming that it does (`sure_of_bucket`) saves a request.
    """
    bucket, key = parse_s3_uri(uri)
    try:
        head = client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        is_missing = error_code(error) in MISSING
        if error_code(error) in _WITHOUT_REASON and not (is_missing and sure_of_bucket):
            # A reply to HEAD has no body, but a failed listing of the key gives the reason. If the listing succeeds,
            # the object does not exist, and the store only hid that.
            listing = client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
            is_missing = is_missing or key not in [entry["Key"] for entry in listing.get("Contents", [])]
        if is_missing:
            return None
        raise
    identity = InputIdentity(uri, size_bytes=head["ContentLength"], etag=head["ETag"].strip('"'))
    return identity, {name.lower(): value for name, value in head["Metadata"].items()}


def identify_object(uri: str, options: S3Options) -> InputIdentity:
    """Return the current version of an object, or raise `StorageError`."""
    with s3_faults(uri):
        identity = identify(s3_client(options), uri)
    if identity is None:
        raise StorageError(f"{uri}: no such object; check the key (a prefix ends in /)")
    return identity


def object_exists(uri: str, options: S3Options) -> bool:
    """Return whether an object exists; assumes the bucket exists."""
    with s3_faults(uri):
        return identify(s3_client(options), uri, sure_of_bucket=True) is not None


def check_object_writable(uri: str, options: S3Options) -> None:
    """Check that an object can be written, by starting and aborting an upload."""
    bucket, key = parse_s3_uri(uri)
    with s3_faults(uri):
        client = s3_client(options)
        upload = client.create_multipart_upload(Bucket=bucket, Key=key)
        try:
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload["UploadId"])
        except ClientError as error:
            if error_code(error) != "NoSuchUpload":  # boto3 repeats an abort whose reply was lost
                raise
