"""The S3 client, requests about single objects, and one-line errors with location, cause and
remedy.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
import botocore.session
from boto3.exceptions import Boto3Error
from botocore import exceptions as boto
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.model import OperationModel
from botocore.parsers import ResponseParserError
from botocore.utils import parse_timestamp

from genrm_cli import __version__
from genrm_cli.errors import StoppedError, StorageError, UsageError
from genrm_cli.json_types import Record
from genrm_cli.storage.contract import Found, InputIdentity, ListingDeniedError, Stop, never
from genrm_cli.storage.location import parse_object_uri
from genrm_cli.texts.late_pattern import late_pattern

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

NO_OBJECT = "no such object; check the key (a prefix ends in /)"
_ADVICE = {
    "NoSuchBucket": "no such bucket; check its name, the account and the S3 endpoint",
    "NoSuchKey": NO_OBJECT,
    "404": NO_OBJECT,
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException"),
        "the AWS session token has expired; sign in again",
    ),
    "InvalidAccessKeyId": "S3 does not know this access key; check the AWS credentials and the S3 "
    "endpoint",
    "SignatureDoesNotMatch": "S3 refuses the signature; check the AWS secret key, the region and "
    "the clock",
    **dict.fromkeys(
        ("PermanentRedirect", "301"), "the bucket is in another region; name its region"
    ),
}
# What stores lack, with a word that a refusal has if it names the cause.
_CHECKSUMS = (
    "checksum",
    "the checksums of newer AWS clients: set AWS_REQUEST_CHECKSUM_CALCULATION=when_required and "
    "AWS_RESPONSE_CHECKSUM_VALIDATION=when_required",
)
_CONDITIONS = (
    "none-match",
    "conditional puts (If-None-Match), without which two runs could write one output: use another "
    "store, or a local folder",
)
_MULTIPART = (
    "multipart",
    "multipart uploads: write to a local folder, and copy it",
)
_LACKING = {
    "PutObject": (_CHECKSUMS, _CONDITIONS),
    **dict.fromkeys(
        ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"),
        (_CHECKSUMS, _MULTIPART),
    ),
}
MISSING = ("404", "NoSuchKey")
REFUSED_CONDITION = ("412", "PreconditionFailed", "409", "ConditionalRequestConflict")
NOT_IMPLEMENTED = ("501", "NotImplemented")
_DENIED = ("AccessDenied", "403", "Forbidden", "AllAccessDisabled")
# A store says "no such object" only to those who may list.
_PERMISSIONS = {
    "HeadObject": "s3:GetObject, and s3:ListBucket to learn that an object is missing",
    "GetObject": "s3:GetObject, and s3:ListBucket to learn that an object is missing",
    "ListObjectsV2": "s3:ListBucket",
    "DeleteObject": "s3:DeleteObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
}
# Headers that a reply of S3 has and a web page lacks.
_REQUIRED_FIELDS = {
    **dict.fromkeys(
        ("HeadObject", "GetObject", "PutObject", "UploadPart", "CompleteMultipartUpload"), "ETag"
    ),
    "CreateMultipartUpload": "UploadId",
}
_LISTING_ROOT = late_pattern(rb"<(\w+:)?ListBucketResult\b")
# Of a message of S3 in an error, which is one line.
_DETAIL_CHARS = 300
_PASSWORD_IN_URL = late_pattern(r"(?<=//)[^/\s]*@")


class _OtherReplyError(boto.BotoCoreError):
    """The reply is not from S3, for example a login page of a proxy."""

    fmt = (
        "the reply to {operation} is not from S3 (content type {content_type}); check the S3 "
        "endpoint"
    )


def refuse_other_replies(
    http_response: AWSResponse, parsed: Record, model: OperationModel, **_: object
) -> None:
    """Raise an error for a successful reply that S3 would not send; registered with each client."""
    if http_response.status_code >= 300:
        return
    required = _REQUIRED_FIELDS.get(model.name)
    is_page = required is not None and required not in parsed
    if is_page or (
        model.name == "ListObjectsV2" and not _LISTING_ROOT.search(http_response.content)
    ):
        if "Body" in parsed:  # an unread stream holds its connection
            parsed["Body"].close()
        content_type = http_response.headers.get("content-type", "unknown")
        raise _OtherReplyError(operation=model.name, content_type=content_type)


@contextmanager
def s3_faults(uri: str) -> Iterator[None]:
    """Turn exceptions of boto3 into `StorageError`; an invalid profile, bucket name or endpoint
    into `UsageError`.
    """
    try:
        yield
    except boto.ClientError as error:
        kind = ListingDeniedError if _is_denied_listing(error) else StorageError
        raise kind(f"{uri}: {_explain_refusal(error)}") from error
    except (boto.ProfileNotFound, boto.ParamValidationError, boto.InvalidRegionError) as error:
        raise UsageError(
            f"{uri}: {_brief(error)}; check the bucket's name and the AWS settings"
        ) from error
    except (boto.BotoCoreError, Boto3Error, ResponseParserError) as error:
        raise StorageError(f"{uri}: {_explain_fault(error)}") from error


def error_code(error: boto.ClientError) -> str:
    """Return the S3 error code; for replies without a body the status, such as `404`."""
    return error.response.get("Error", {}).get("Code", "")


def _is_denied_listing(error: boto.ClientError) -> bool:
    return error.operation_name == "ListObjectsV2" and error_code(error) in _DENIED


def without_password(text: str) -> str:
    """Remove user names and passwords from the URLs in a text."""
    return _PASSWORD_IN_URL.sub("", text)


def _explain_refusal(error: boto.ClientError) -> str:
    code = error_code(error)
    if code in _DENIED:
        permission = _PERMISSIONS.get(error.operation_name, "s3:PutObject")
        return (
            f"access denied ({error.operation_name}): {_brief(error)}; these credentials need "
            f"{permission}. If they have it, the bucket may demand an argument: RequestPayer, "
            "ServerSideEncryption, SSEKMSKeyId or StorageClass of [s3] in the settings file, and "
            "its KMS key kms:GenerateDataKey and kms:Decrypt"
        )
    if code in NOT_IMPLEMENTED:
        return _explain_lack(error)
    if code in _ADVICE:
        return _ADVICE[code]
    return (
        f"S3 refused {error.operation_name}: {_brief(error)}; check the bucket and the AWS settings"
    )


def _explain_lack(error: boto.ClientError) -> str:
    """Return what a store lacks: what its refusal names, or all that the request would need."""
    operation = error.operation_name
    known = _LACKING.get(operation, (_CHECKSUMS,))
    said = " ".join(str(value).lower() for value in error.response["Error"].values())
    named = [advice for word, advice in (*known, _CONDITIONS) if word in said]
    advice = named[:1] or [advice for _, advice in known]
    return f"the store does not implement {operation} as it is sent (501); it may lack " + (
        "; or ".join(advice)
    )


def _explain_fault(error: Exception) -> str:
    if isinstance(error, boto.NoCredentialsError):
        return (
            "no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a "
            "profile, or run with a role that provides them"
        )
    if isinstance(error, (boto.HTTPClientError, boto.ConnectionError)):
        endpoint = without_password(str(error.kwargs.get("endpoint_url") or ""))
        server = "{}://{}".format(*urlsplit(endpoint)[:2]) if endpoint else "S3"
        # The text of an SSLError names the refused certificate and contains no secret.
        detail = f" ({_brief(error)})" if isinstance(error, boto.SSLError) else ""
        return (
            f"cannot reach {server}: {type(error).__name__}{detail}; check the S3 endpoint and "
            "the network"
        )
    if isinstance(error, ResponseParserError):
        return "the reply is not from S3: it cannot be parsed as XML; check the S3 endpoint"
    if isinstance(error, (boto.IncompleteReadError, boto.FlexibleChecksumError)):
        return f"the connection kept breaking ({_brief(error)}); run again later"
    return _brief(error)


def _brief(error: BaseException) -> str:
    return " ".join(without_password(str(error)).split())[:_DETAIL_CHARS]


# Several files at once with ten requests each; beyond this number each request reconnects.
_CONNECTIONS = 64
# Shorter than botocore's 60 s: a wrong endpoint is tried `max_attempts` times.
_CONNECT_TIMEOUT_S = 10
_READ_TIMEOUT_S = 60
# A customer's key is a secret, which does not belong in a settings file.
_OUR_ARGUMENTS = ("Bucket", "Key", "Body", "IfMatch", "IfNoneMatch", "Metadata", "ContentLength")
# Statuses of HEAD, whose replies have no body that would say why.
_WITHOUT_REASON = ("400", "403", "404")


@cache
def s3_client(
    endpoint_url: str | None, max_attempts: int, arguments: tuple[tuple[str, str | bool], ...] = ()
) -> "S3Client":
    """Return the cached client for these settings; creating one takes 0.1 s and resolves the
    credentials. `endpoint_url` is AWS_ENDPOINT_URL, which boto3 reads; None without it.

    Each request sends those of the `arguments` that its operation has."""
    core = botocore.session.get_session()
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_parse_time)
    config = Config(
        # Named once: boto3 makes up its own for each request, a tenth of what a request costs.
        user_agent=f"genrm/{__version__} boto3/{boto3.__version__}",
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        tcp_keepalive=True,
        max_pool_connections=_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": max_attempts},
    )
    try:
        client = boto3.Session(botocore_session=core).client("s3", config=config)
    except ValueError as error:
        endpoint = without_password(endpoint_url or "from the AWS settings")
        raise UsageError(
            f"the S3 endpoint {endpoint} is not a URL; expected, for example, http://host:9000"
        ) from error
    client.meta.events.register("after-call.s3", refuse_other_replies)
    known = _members(client.meta.service_model.operation_model("PutObject"))
    for name, _ in arguments:
        if name not in known or name in _OUR_ARGUMENTS or "Customer" in name:
            raise UsageError(
                f"[s3]: {name!r} is not an argument of PutObject that a user can set, such as "
                "RequestPayer, ServerSideEncryption, SSEKMSKeyId, StorageClass or Tagging"
            )

    def add_arguments(params: Record, model: OperationModel, **_: object) -> None:
        params.update({name: value for name, value in arguments if name in _members(model)})

    client.meta.events.register("before-parameter-build.s3", add_arguments)
    return client


def _parse_time(text: str) -> datetime:
    """Parse a time of a listing or a header, ten times as fast as boto3; any other as boto3."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError):
            return parse(text)
    return parse_timestamp(text)


def _members(model: OperationModel) -> Collection[str]:
    # A listing of objects takes RequestPayer only.
    return () if model.input_shape is None else model.input_shape.members


def object_at(uri: str) -> Any:
    """Return the arguments of a request that name its object."""
    bucket, key = parse_object_uri(uri)
    return {"Bucket": bucket, "Key": key}


def put_object(client: "S3Client", uri: str, data: bytes, **more: Any) -> None:
    """Put a small object."""
    # boto3 makes a file of `bytes`, and asks before it sends a file: a second round trip.
    body: Any = bytearray(data)
    client.put_object(**object_at(uri), Body=body, **more)


def describe(
    client: "S3Client", uri: str, *, is_output: bool = False
) -> tuple[Found, dict[str, str]] | None:
    """Return the current version of an object with its metadata, names in lower case; None if it
    does not exist.

    Raises `ClientError` if the bucket does not exist; assuming that it does (`is_output`) saves a
    request. An output that these credentials can neither read nor list counts as missing."""
    try:
        head = client.head_object(**object_at(uri))
    except ClientError as error:
        is_missing = error_code(error) in MISSING
        if error_code(error) in _WITHOUT_REASON and not (is_missing and is_output):
            is_missing = _is_hidden(client, uri, error, is_output=is_output) or is_missing
        if is_missing:
            return None
        raise
    identity = InputIdentity(uri, size_bytes=head["ContentLength"], etag=head["ETag"].strip('"'))
    headers = head["ResponseMetadata"]["HTTPHeaders"]
    found = Found(identity, age_s(head["LastModified"], headers))
    return found, {name.lower(): value for name, value in head["Metadata"].items()}


def _is_hidden(client: "S3Client", uri: str, error: ClientError, *, is_output: bool) -> bool:
    """Return whether a refused HEAD, whose reply has no body, hides that the object is missing. A
    failed listing of the key raises the reason.
    """
    bucket, key = parse_object_uri(uri)
    try:
        listing = client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    except ClientError as refusal:
        if not _is_denied_listing(refusal):
            raise
        if is_output:
            return True
        raise error from refusal
    return key not in [entry["Key"] for entry in listing.get("Contents", [])]


def age_s(modified: datetime, headers: Mapping[str, str]) -> float:
    """Return the age of an object by the clock of the store, at least 0."""
    now_s = time.time()
    if "date" in headers:
        now_s = parsedate_to_datetime(headers["date"]).timestamp()
    return max(0.0, now_s - modified.timestamp())


def read_object(
    client: "S3Client",
    uri: str,
    only: Any = MappingProxyType({}),
    stop: Stop = never,
    tries: int = 3,
) -> bytes | None:
    """Return the content of an object, or the part and version that `only` names; None if it does
    not exist. Retry truncated replies.
    """
    if stop():
        raise StoppedError
    try:
        reply = client.get_object(**object_at(uri), **only)
    except ClientError as error:
        if error_code(error) in MISSING:
            return None
        raise
    if only.get("IfMatch") not in (None, reply["ETag"]):  # some stores ignore the condition
        reply["Body"].close()
        return None
    try:
        return reply["Body"].read()
    except (boto.HTTPClientError, boto.IncompleteReadError, boto.FlexibleChecksumError):
        # boto3 does not retry reading the body.
        if tries == 1:
            raise
    return read_object(client, uri, only, stop, tries - 1)
