"""Small objects such as leases and journal segments: local files or S3 objects, read and written in
one piece.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genrm_cli.errors import StorageError
from genrm_cli.storage.local import publish_new, sync_folder, unfinished_path, unwritable
from genrm_cli.storage.location import S3Options, is_s3, parse_local_path


def read_object(uri: str, s3: S3Options) -> bytes | None:
    """Return the content of an object, or None if it does not exist."""
    if is_s3(uri):
        # Imported here and below, as boto3 takes a fifth of a second to import.
        from genrm_cli.storage.s3 import whole_objects

        return whole_objects.read(uri, s3)
    try:
        return Path(parse_local_path(uri)).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"{uri}: cannot be read: {error.strerror or error}") from error


def create_object(uri: str, s3: S3Options, data: bytes) -> bool:
    """Create an object and missing local folders; return False if it exists already.

    Of several concurrent callers at most one succeeds, unless an S3 store ignores `If-None-Match`.
    After a `StorageError` from S3, the object may exist anyway, if the last reply was lost."""
    if is_s3(uri):
        from genrm_cli.storage.s3 import whole_objects

        return whole_objects.create(uri, s3, data)
    target = Path(parse_local_path(uri))
    with _written_beside(target, uri, data) as temp:
        try:
            publish_new(temp, target)
        except FileExistsError:
            return False
    return True


def replace_object(uri: str, s3: S3Options, data: bytes) -> None:
    """Create or replace an object atomically, with missing local folders."""
    if is_s3(uri):
        from genrm_cli.storage.s3 import whole_objects

        whole_objects.replace(uri, s3, data)
        return
    target = Path(parse_local_path(uri))
    with _written_beside(target, uri, data) as temp:
        temp.replace(target)


def remove_object(uri: str, s3: S3Options) -> None:
    """Remove an object if it exists."""
    if is_s3(uri):
        from genrm_cli.storage.s3 import whole_objects

        whole_objects.remove(uri, s3)
        return
    try:
        Path(parse_local_path(uri)).unlink(missing_ok=True)
    except NotADirectoryError:
        return
    except OSError as error:
        raise StorageError(f"{uri}: cannot be removed: {error.strerror or error}") from error


@contextmanager
def _written_beside(target: Path, uri: str, data: bytes) -> Iterator[Path]:
    """Write a hidden file in the target's folder, to be renamed or linked in the context; remove it
    if it remains.
    """
    temp = unfinished_path(
        target.with_suffix("")
    )  # of `x`, for its leases `x.lease-N` and its manifest `x.commit`
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temp.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temp
        finally:
            temp.unlink(missing_ok=True)
        sync_folder(target.parent)
    except OSError as error:
        raise unwritable(uri, error) from error
