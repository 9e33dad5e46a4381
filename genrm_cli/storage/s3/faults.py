"""Errors of S3 and its credentials, turned into one line each: where, what happened, what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from boto3.exceptions import Boto3Error
from botocore import exceptions as boto
from botocore.awsrequest import AWSResponse
from botocore.model import OperationModel
from botocore.parsers import ResponseParserError
from s3transfer import exceptions as transfer

from genrm_cli.errors import StorageError, UsageError

_ADVICE = {
    "NoSuchBucket": "no such bucket; check its name, the account and the S3 endpoint",
    "NoSuchKey": "no such object; check the key (a prefix ends in /)",
    "404": "no such object; check the key (a prefix ends in /)",
    "ExpiredToken": "the AWS session token has expired; sign in again",
    "ExpiredTokenException": "the AWS session token has expired; sign in again",
    "InvalidToken": "the AWS session token is not valid; sign in again",
    "InvalidAccessKeyId": "S3 does not know this access key; check the AWS credentials and the S3 endpoint",
    "SignatureDoesNotMatch": "S3 refuses the signature; check the AWS secret key, the region and the clock",
    "RequestTimeTooSkewed": "the clock of this machine is too far off; correct it",
    "SlowDown": "S3 still asks to slow down after all retries; run again later",
    "503": "S3 is still unavailable after all retries; run again later",
    "PermanentRedirect": "the bucket is in another region; name its region",
    "301": "the bucket is in another region; name its region",
    "EntityTooLarge": "S3 refuses an object of this size",
    "QuotaExceeded": "the bucket's quota is used up; free some space",
    "NoSuchUpload": "the upload was ended from outside; run again",
}
MISSING = ("404", "NoSuchKey")
REFUSED_CONDITION = ("412", "PreconditionFailed", "409", "ConditionalRequestConflict")
NO_CONDITIONS = ("501", "NotImplemented", "XNotImplemented")
_DENIED = ("AccessDenied", "403", "Forbidden", "AllAccessDisabled")
_PERMISSIONS = {
    "HeadObject": "s3:GetObject, and s3:ListBucket to see whether an object exists",
    "GetObject": "s3:GetObject, and s3:ListBucket to see whether an object exists",
    "DeleteObject": "s3:DeleteObject",
    "ListObjectsV2": "s3:GetObject, and s3:ListBucket to find objects and to see whether one exists",
    "AbortMultipartUpload": "s3:AbortMultipartUpload, so that a failed upload leaves nothing behind",
}
_TRANSFER_FAULTS = (
    transfer.RetriesExceededError,
    transfer.S3DownloadFailedError,
    getattr(transfer, "S3ValidationError", transfer.RetriesExceededError),  # not in older versions
)
# Headers that a reply of S3 has and a web page lacks.
_REQUIRED_FIELDS = {
    "HeadObject": "ETag",
    "GetObject": "ETag",
    "PutObject": "ETag",
    "UploadPart": "ETag",
    "CreateMultipartUpload": "UploadId",
    "CompleteMultipartUpload": "ETag",
}
_LISTING_ROOT = re.compile(rb"<(\w+:)?ListBucketResult\b")
_DETAIL_CHARS = 300
_PASSWORD_IN_URL = re.compile(r"(?<=//)[^/\s]*@")


class _OtherReplyError(boto.BotoCoreError):
    """The reply is not from S3, for example a login page of a proxy."""

    fmt = "the reply to {operation} is not from S3 (content type {content_type}); check the S3 endpoint"


def refuse_other_replies(
    http_response: AWSResponse, parsed: dict[str, Any], model: OperationModel, **_: object
) -> None:
    """Raise an error for a successful reply that S3 would not send; registered with each client."""
    if http_response.status_code >= 300:
        return
    required = _REQUIRED_FIELDS.get(model.name)
    is_page = required is not None and required not in parsed
    if is_page or (model.name == "ListObjectsV2" and not _LISTING_ROOT.search(http_response.content)):
        content_type = http_response.headers.get("content-type", "unknown")
        raise _OtherReplyError(operation=model.name, content_type=content_type)


@contextmanager
def s3_faults(uri: str) -> Iterator[None]:
    """Turn exceptions of boto3 into `StorageError`; an invalid profile, bucket name or endpoint into `UsageError`."""
    try:
        yield
    except boto.ClientError as error:
        raise StorageError(f"{uri}: {_explain_refusal(error)}") from error
    except (boto.ProfileNotFound, boto.ParamValidationError, boto.InvalidRegionError) as error:
        raise UsageError(f"{uri}: {_brief(error)}; check the bucket's name and the AWS settings") from error
    except (boto.BotoCoreError, Boto3Error, ResponseParserError, *_TRANSFER_FAULTS) as error:
        raise StorageError(f"{uri}: {_explain_fault(error)}") from error


def error_code(error: boto.ClientError) -> str:
    """Return the S3 error code; for replies without a body the status, such as `404`."""
    return error.response.get("Error", {}).get("Code", "")


def without_password(text: str) -> str:
    """Remove user names and passwords from the URLs in a text."""
    return _PASSWORD_IN_URL.sub("", text)


def _explain_refusal(error: boto.ClientError) -> str:
    code = error_code(error)
    if code in _DENIED:
        permission = _PERMISSIONS.get(error.operation_name, "s3:PutObject")
        return f"access denied ({error.operation_name}); these credentials need {permission}"
    if code in _ADVICE:
        return _ADVICE[code]
    return f"S3 refused {error.operation_name}: {_brief(error)}"


def _explain_fault(error: Exception) -> str:
    """Explain an error without a complete reply from S3."""
    if isinstance(error, boto.NoCredentialsError):
        return (
            "no AWS credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or run with "
            "a role that provides them"
        )
    if isinstance(error, boto.PartialCredentialsError):
        return "the AWS credentials are incomplete; set both the access key and the secret key"
    if isinstance(error, boto.HTTPClientError | boto.ConnectionError):
        endpoint = without_password(str(error.kwargs.get("endpoint_url") or ""))
        server = "{}://{}".format(*urlsplit(endpoint)[:2]) if endpoint else "S3"
        # The text of an SSLError names the refused certificate and contains no secret.
        detail = f" ({_brief(error)})" if isinstance(error, boto.SSLError) else ""
        return f"cannot reach {server}: {type(error).__name__}{detail}; check the S3 endpoint and the network"
    if isinstance(error, ResponseParserError):
        return "the reply is not from S3: it cannot be parsed as XML; check the S3 endpoint"
    if isinstance(error, transfer.RetriesExceededError):
        return f"the connection kept breaking ({_brief(error.last_exception)}); run again later"
    return _brief(error)


def _brief(error: BaseException) -> str:
    return " ".join(without_password(str(error)).split())[:_DETAIL_CHARS]
