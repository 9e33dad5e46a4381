"""The outputs of one run, published as one commit."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack

from genrm_cli.errors import UsageError
from genrm_cli.storage.commit import CommitEntry, remove_manifest, write_manifest
from genrm_cli.storage.formats.location import Mark, S3Options, folder_of, is_s3, name_below
from genrm_cli.storage.sink import Sink, mark_of, open_sink, place_of


class Outputs(AbstractContextManager["Outputs"]):
    """The outputs of one run, which appear in the order they were opened, all of them or none.

    Open the output that readers wait for last. Leaving the context without `commit` discards all of them.

    Args:
        s3: connection options.
        overwrite: whether existing outputs may be replaced.
        provenance: metadata of S3 objects.
        manifest_uri: URI of the manifest of the commit, in the folder of the outputs or above it; None for a single
            output or streams.
        mode: mode of new local files, subject to the umask.
    """

    def __init__(
        self,
        s3: S3Options,
        *,
        overwrite: bool,
        provenance: Mapping[str, str] = {},
        manifest_uri: str | None = None,
        mode: int = 0o666,
    ) -> None:
        self._s3 = s3
        self._overwrite = overwrite
        self._provenance = provenance
        self._manifest_uri = manifest_uri
        self._mode = mode
        self._sinks: list[Sink] = []
        self._places: set[str] = set()

    def __exit__(self, *_: object) -> None:
        with ExitStack() as aborts:  # a failing abort must not prevent the others
            for sink in self._sinks:
                aborts.callback(sink.abort)

    def open(
        self,
        uri: str,
        *,
        provenance: Mapping[str, str] | None = None,
        mode: int | None = None,
        one_of_many: bool = False,
    ) -> Sink:
        """Open another output.

        Args:
            uri: of the output.
            provenance: metadata of this S3 object, instead of that of all.
            mode: of this new local file, instead of that of all.
            one_of_many: whether many outputs wait to be published together.

        Raises:
            UsageError: two outputs have the same name, or the output exists and must not be replaced.
        """
        place = place_of(uri)
        if place in self._places:
            raise UsageError(f"two outputs would go to {uri}; give each its own name")
        sink = open_sink(
            uri,
            self._s3,
            overwrite=self._overwrite,
            provenance=self._provenance if provenance is None else provenance,
            mode=self._mode if mode is None else mode,
            one_of_many=one_of_many,
        )
        self._sinks.append(sink)
        self._places.add(place)
        return sink

    def discard(self, sink: Sink) -> None:
        """Drop an output, so that it does not appear."""
        self._sinks.remove(sink)
        self._places.discard(place_of(sink.uri))
        sink.abort()

    def commit(self) -> None:
        """Publish all outputs, in the order they were opened.

        The content of all outputs is stored before the first one is published, so a full disk publishes none. If
        publishing one fails or the process is killed, earlier outputs are published and later ones are not; the
        manifest then remains, and the next run calls `finish_commit`.
        """
        for sink in self._sinks:
            sink.finish()
        if self._manifest_uri is None:
            self._publish()
            return
        folder = folder_of(self._manifest_uri)
        entries = [self._entry_of(sink, sink.mark, folder) for sink in self._sinks if sink.mark is not None]
        write_manifest(self._manifest_uri, entries, self._s3)
        self._publish()
        remove_manifest(self._manifest_uri, self._s3)

    def _publish(self) -> None:
        for sink in self._sinks:
            sink.commit()

    def _entry_of(self, sink: Sink, mark: Mark, folder: str) -> CommitEntry:
        replaced = mark_of(sink.uri, self._s3) if self._overwrite and not is_s3(sink.uri) else None
        return CommitEntry(name_below(folder, sink.uri), mark, sink.stage(), replaced)
