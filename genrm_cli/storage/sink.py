"""Outputs that appear whole or not at all, on disk and on S3."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from genrm_cli.errors import UsageError, naming
from genrm_cli.storage.listing import iter_named
from genrm_cli.storage.local import LocalSink, StreamSink, is_special, mark_of_file, unwritable
from genrm_cli.storage.location import Mark, S3Options, is_s3, is_stream, parse_local_path


class Sink(Protocol):
    """One output. Except for streams, nothing is visible before `commit`."""

    uri: str
    mark: Mark | None
    """Identity of this output, known after `finish`; always None for a stream."""
    staged: str | None
    """Hidden name from which another process can publish a finished local file; None for other
    outputs.
    """

    def write(self, data: bytes) -> None:
        """Add uncompressed bytes."""

    def finish(self) -> None:
        """Store all content, so that only publishing can still fail; `commit` calls this if
        needed.
        """

    def commit(self) -> None:
        """Publish the output; not after `abort`."""

    def abort(self) -> None:
        """Discard uncommitted content; harmless after `commit`, and twice."""


def open_sink(uri: str, s3: S3Options, *, overwrite: bool, mode: int = 0o666) -> Sink:
    """Open an output in an existing folder or bucket, compressed by its suffix, a new local file
    with `mode`.
    """
    if is_streamed(uri):
        return StreamSink(uri)
    if not overwrite and exists(uri, s3):
        raise UsageError(
            f"{uri} exists; ", naming("use $force to replace it, or choose another output")
        )
    if is_s3(uri):
        # Imported here and below, as boto3 takes a fifth of a second to import.
        from genrm_cli.storage.s3.upload import S3Sink

        return S3Sink(uri, s3, overwrite=overwrite)
    return LocalSink(uri, overwrite=overwrite, mode=mode)


def exists(uri: str, s3: S3Options) -> bool:
    """Return whether writing to a URI would replace something; False for streams, pipes and
    devices.
    """
    if is_streamed(uri):
        return False
    if is_s3(uri):
        from genrm_cli.storage.s3.connection import object_exists

        return object_exists(uri, s3)
    return os.path.lexists(parse_local_path(uri))


def mark_of(uri: str, s3: S3Options) -> Mark | None:
    """Return the mark of a stored output; None for missing ones, streams, pipes and devices."""
    if is_s3(uri):
        from genrm_cli.storage.s3.upload import mark_of_object

        return mark_of_object(uri, s3)
    return None if is_stream(uri) else mark_of_file(parse_local_path(uri))


def make_folder(uri: str) -> None:
    """Create the folder of a local output if it is missing."""
    if is_s3(uri) or is_streamed(uri):
        return
    try:
        Path(parse_local_path(uri)).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(uri, error) from error


def which_exist(uris: Sequence[str], s3: S3Options) -> list[str]:
    """Return which of some sibling files exist; S3 needs a single listing."""
    if not uris or not is_s3(uris[0]):
        return [uri for uri in uris if exists(uri, s3)]
    existing = {found.identity.uri for found in iter_named(os.path.commonprefix(uris), s3)}  # noqa: RUF071  (of keys)
    return [uri for uri in uris if uri in existing]


def check_writable(uri: str, s3: S3Options) -> None:
    """Check that an output can be written, leaving nothing behind, before any paid call is made."""
    if is_streamed(uri):
        return
    if is_s3(uri):
        from genrm_cli.storage.s3.connection import check_object_writable

        check_object_writable(uri, s3)
    else:
        LocalSink(uri, overwrite=True).abort()  # creates and removes a file in the same folder


def is_same_place(uri: str, other: str) -> bool:
    """Return whether two URIs name one file or object; False for streams."""
    return not is_stream(uri) and not is_stream(other) and place_of(uri) == place_of(other)


def place_of(uri: str) -> str:
    """Return a canonical name, equal for two spellings of one file."""
    return uri if is_s3(uri) or is_stream(uri) else os.path.realpath(parse_local_path(uri))


def is_streamed(uri: str) -> bool:
    """Return whether an output is a stream, a pipe or a device, so that no file can be stored next
    to it.
    """
    return is_stream(uri) or (not is_s3(uri) and is_special(parse_local_path(uri)))
