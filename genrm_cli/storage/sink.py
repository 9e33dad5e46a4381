"""Outputs: bytes that appear whole or not at all, on disk and on S3."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from genrm_cli.errors import UsageError
from genrm_cli.storage.formats.location import S3Options, is_s3, is_stream, parse_local_path
from genrm_cli.storage.formats.mark import Mark
from genrm_cli.storage.listing import iter_named
from genrm_cli.storage.local import (
    LocalSink,
    StreamSink,
    check_file_writable,
    is_special,
    make_parent,
    mark_of_file,
)


class Sink(Protocol):
    """Where one output's bytes go; nothing is seen of them before `commit`, except on a stream."""

    uri: str

    @property
    def mark(self) -> Mark | None:
        """What tells this output from others, known after `finish`; always None on a stream."""

    def write(self, data: bytes) -> None:
        """Add bytes, before compression."""

    def finish(self) -> None:
        """End the content, so that only giving it its name is left to go wrong; `commit` does it if need be."""

    def commit(self) -> None:
        """Make the output appear; not after `abort`."""

    def abort(self) -> None:
        """Drop what is not committed; harmless after `commit`, and twice."""


class Outputs:
    """The outputs of one run: they appear together, in the order they were opened, or not at all.

    Open last what marks the run as done. Leaving the context without `commit` drops all of them.
    """

    def __init__(self, s3: S3Options, *, overwrite: bool, provenance: Mapping[str, str] = {}) -> None:
        self._s3 = s3
        self._overwrite = overwrite
        self._provenance = provenance
        self._sinks: list[Sink] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as aborts:  # one that fails must not keep the others
            for sink in self._sinks:
                aborts.callback(sink.abort)

    def open(self, uri: str) -> Sink:
        """Open one more output.

        Raises:
            UsageError: two outputs with one name, or one that exists and must not be replaced.
        """
        if any(place_of(sink.uri) == place_of(uri) for sink in self._sinks):
            raise UsageError(f"two outputs would go to {uri}; give each its own name")
        sink = open_sink(uri, self._s3, overwrite=self._overwrite, provenance=self._provenance)
        self._sinks.append(sink)
        return sink

    def commit(self) -> None:
        """Make all outputs appear, in the order they were opened.

        Before the first one does, all content is on disk, or its parts are at S3: a full disk leaves none.

        Raises:
            StorageError: one could not; those before it have appeared, the rest never will.
        """
        for sink in self._sinks:
            sink.finish()
        for sink in self._sinks:
            sink.commit()


def open_sink(uri: str, s3: S3Options, *, overwrite: bool, provenance: Mapping[str, str] = {}) -> Sink:
    """Open an output, compressed as its suffix says. Its folder or bucket must exist.

    Args:
        provenance: where the output comes from, kept in the metadata of an S3 object under `genrm-` and the name,
            percent-encoded, each value cut to 512 characters and all to what S3 takes. Files do not carry it.

    Raises:
        StorageError: it cannot be written.
        UsageError: it exists and `overwrite` is off, or a URI of another kind.
    """
    if goes_out_at_once(uri):
        return StreamSink(uri)
    if not overwrite and exists(uri, s3):
        raise UsageError(f"{uri} exists; pass --force to replace it, or choose another output")
    if is_s3(uri):
        # Here and below, not above: boto3 takes a fifth of a second to import, only users of S3 should pay.
        from genrm_cli.storage.s3.upload import S3Sink

        return S3Sink(uri, s3, overwrite=overwrite, provenance=provenance)
    return LocalSink(uri, overwrite=overwrite)


def exists(uri: str, s3: S3Options) -> bool:
    """Say whether writing to a URI would replace something; a stream, pipe or device has nothing to lose.

    Raises:
        StorageError: S3 cannot be asked.
    """
    if goes_out_at_once(uri):
        return False
    if is_s3(uri):
        from genrm_cli.storage.s3.connection import object_exists

        return object_exists(uri, s3)
    return os.path.lexists(parse_local_path(uri))


def mark_of(uri: str, s3: S3Options) -> Mark | None:
    """Return the mark of what lies at a place now; None where nothing is, or a stream, pipe or device.

    Raises:
        StorageError: it cannot be looked at.
    """
    if goes_out_at_once(uri):
        return None
    if is_s3(uri):
        from genrm_cli.storage.s3.upload import mark_of_object

        return mark_of_object(uri, s3)
    return mark_of_file(uri)


def make_folder(uri: str) -> None:
    """Make the folder of a local output, unless it is there.

    Raises:
        StorageError: it cannot be made.
    """
    if not is_s3(uri) and not goes_out_at_once(uri):
        make_parent(uri)


def which_exist(uris: Sequence[str], s3: S3Options) -> list[str]:
    """Return those of some files beside each other that are there; one listing where they are objects.

    Raises:
        StorageError: S3 cannot be asked, or has no such bucket.
    """
    if not uris or not is_s3(uris[0]):
        return [uri for uri in uris if exists(uri, s3)]
    there = {found.identity.uri for found in iter_named(os.path.commonprefix(uris), s3)}  # noqa: RUF071  (of keys)
    return [uri for uri in uris if uri in there]


def check_writable(uri: str, s3: S3Options) -> None:
    """Prove that an output can be written, leaving nothing behind; for use before anything is paid for.

    Raises:
        StorageError: it cannot.
    """
    if goes_out_at_once(uri):
        return
    if is_s3(uri):
        from genrm_cli.storage.s3.connection import check_object_writable

        check_object_writable(uri, s3)
    else:
        check_file_writable(uri)


def is_same_place(uri: str, other: str) -> bool:
    """Say whether two URIs name one file or object; a stream is never the same as another."""
    return not is_stream(uri) and not is_stream(other) and place_of(uri) == place_of(other)


def place_of(uri: str) -> str:
    """Name where something lies, so that two spellings of one file are found out."""
    return uri if is_s3(uri) or is_stream(uri) else os.path.realpath(uri)


def goes_out_at_once(uri: str) -> bool:
    """Say whether an output is a stream, a pipe or a device: there is no place beside it for other files."""
    return is_stream(uri) or (not is_s3(uri) and is_special(parse_local_path(uri)))
