"""Fill a bucket of the S3 server of a test, look into it, and answer as S3 does."""

from typing import Any

UPLOAD = b"<InitiateMultipartUploadResult><UploadId>U1</UploadId></InitiateMultipartUploadResult>"


def refusal(status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    """Return the reply of S3 to what it refuses."""
    said = f"<Error><Code>{code}</Code><Message>said by the server</Message></Error>"
    return status, {}, said.encode()


def keys_in(bucket: Any) -> set[str]:
    """Name all objects of a bucket; an upload that was left open counts as one."""
    found = {
        item["Key"]
        for item in bucket.client.list_objects_v2(Bucket=bucket.name).get("Contents", [])
    }
    uploads = bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
    return found | {f"unfinished {upload['Key']}" for upload in uploads}


def put(bucket: Any, key: str, content: bytes) -> None:
    """Make an object."""
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=content)


def get(bucket: Any, key: str) -> bytes:
    """Fetch an object."""
    content: bytes = bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read()
    return content
