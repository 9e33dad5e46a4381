"""The manifest of a commit, with which the next run completes the commit of a killed run.

Several outputs cannot appear in one step. `x.commit` is written before the first of them appears,
and removed after the last. It lists all of them: while it exists, the outputs next to it may be a
mixture of old and new. The next run publishes the files that are still hidden. If it cannot, as on
S3, where an upload ends with its process, it writes the outputs again."""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from genrm_cli.errors import StorageError, UsageError
from genrm_cli.json_types import Record
from genrm_cli.storage.contract import ANY_MODE, Mark, Sink
from genrm_cli.storage.local.files import LocalFile
from genrm_cli.storage.local.sinks import sync_folder, unwritable
from genrm_cli.storage.location import (
    folder_of,
    is_remote,
    is_rollout_file,
    is_unfinished_name,
    name_below,
)
from genrm_cli.storage.places import place_of
from genrm_cli.storage.store import Store

MANIFEST_SUFFIX = ".commit"
_FORMAT = 1  # of the manifest; one of another format is not read


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """One output of a commit.

    Attributes:
        name: its name relative to the folder of the manifest; it is in that folder or below it.
        staged: hidden name of the new local file, in the folder of the output; None on S3.
        replaced: mark of the local file that it replaces, if any.
    """

    name: str
    mark: Mark
    staged: str | None = None
    replaced: Mark | None = None


def write_manifest(uri: str, entries: Iterable[CommitEntry], store: Store) -> None:
    """Write the manifest of a commit before it begins."""
    manifest = {"format": _FORMAT, "outputs": [asdict(entry) for entry in entries]}
    store.at(uri).replace(json.dumps(manifest, indent=1).encode() + b"\n")


def remove_manifest(uri: str, store: Store) -> None:
    """Remove the manifest of a finished commit, unless deleting is forbidden."""
    with suppress(StorageError):  # the outputs are complete, whether or not the manifest remains
        store.at(uri).remove()


def finish_commit(uri: str, store: Store) -> bool:
    """Publish the hidden files of an interrupted commit. No other run may be writing these outputs.

    Returns False if the commit cannot be finished: an output is missing, or has changed since.
    """
    entries = _read_manifest(uri, store)
    if entries is None:
        return True
    if is_remote(uri):
        is_done = all(
            store.at(f"{folder_of(uri)}/{entry.name}").mark() == entry.mark for entry in entries
        )
    else:
        is_done = _publish_staged(Path(uri).parent, entries)
    if is_done:
        remove_manifest(uri, store)
    return is_done


def was_interrupted(uri: str, outputs: Sequence[str], store: Store) -> bool:
    """Whether an interrupted commit accounts for these outputs: each is a new one, or one to be
    replaced.
    """
    entries = {entry.name: entry for entry in _read_manifest(uri, store) or ()}
    if not entries:
        return False
    for output in outputs:
        entry = entries.get(name_below(folder_of(uri), output))
        if entry is None or store.at(output).mark() not in (entry.mark, entry.replaced):
            return False
    return True


def _read_manifest(uri: str, store: Store) -> list[CommitEntry] | None:
    """Return the entries of a manifest; None if there is none, or it is not ours."""
    content = store.at(uri).read()
    try:
        manifest = {} if content is None else json.loads(content)
        return (
            [_parse_entry(entry) for entry in manifest["outputs"]]
            if manifest.get("format") == _FORMAT
            else None
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _parse_entry(entry: Record) -> CommitEntry:
    """Return an entry; ValueError if it names anything other than an output and its hidden file."""
    name = entry["name"]
    staged = entry["staged"]
    replaced = entry["replaced"]
    if is_rollout_file(name) or not (staged is None or is_unfinished_name(staged)):
        raise ValueError(name)
    if {"", ".", ".."} & {*name.split("/")} or "\0" in name or {"/", "\0"} & {*(staged or "")}:
        raise ValueError(name)
    os.fsencode(name + (staged or ""))  # lone surrogates raise an error
    return CommitEntry(
        name, Mark(**entry["mark"]), staged, None if replaced is None else Mark(**replaced)
    )


def _publish_staged(folder: Path, entries: list[CommitEntry]) -> bool:
    """Give the hidden files their names, in order, unless one is missing or would replace a file
    written since.
    """
    hidden: list[tuple[Path, Path]] = []
    for entry in entries:
        target = Path(os.path.realpath(folder / entry.name))
        staged = target.parent / (entry.staged or "")
        if not _holds(staged, entry.mark):
            if not _holds(target, entry.mark):
                return False
        elif _holds(target, entry.mark) or LocalFile(str(target)).mark() in (None, entry.replaced):
            hidden.append((staged, target))
        else:
            return False
    for staged, target in hidden:
        try:
            staged.replace(target)
            staged.unlink(missing_ok=True)  # still there if both names were links to one file
        except OSError as error:
            raise unwritable(str(target), error) from error
        sync_folder(target.parent)
    return True


def _holds(path: Path, mark: Mark) -> bool:
    """Whether a regular file has the size and the digest of an output."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size != mark.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == mark.sha256
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error


@dataclass(eq=False)
class Outputs(AbstractContextManager["Outputs"]):
    """The outputs of one run, which appear in the order they were opened, all of them or none.

    Open the output that readers wait for last. Leaving the context without `commit` discards all of
    them. The manifest of the commit is in the folder of the outputs or above it; None for a single
    output or streams."""

    store: Store
    overwrite: bool
    manifest_uri: str | None = None
    mode: int = ANY_MODE
    _sinks: list[Sink] = field(default_factory=list, init=False)
    _places: set[str] = field(default_factory=set, init=False)

    def __exit__(self, *_: object) -> None:
        with ExitStack() as aborts:  # a failing abort must not prevent the others
            for sink in self._sinks:
                aborts.callback(sink.abort)

    def open(self, uri: str, *, mode: int | None = None) -> Sink:
        """Open another output, with a name of its own; `mode` is that of this new local file
        instead of that of all.
        """
        place = place_of(uri)
        if place in self._places:
            raise UsageError(f"two outputs would go to {uri}; give each its own name")
        sink = self.store.open_sink(
            uri, overwrite=self.overwrite, mode=self.mode if mode is None else mode
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

        The content of all outputs is stored before the first one is published, so a full disk
        publishes none. If publishing one fails or the process is killed, earlier outputs are
        published and later ones are not; the manifest then remains, and the next run calls
        `finish_commit`."""
        for sink in self._sinks:
            sink.finish()
        if self.manifest_uri is None:
            self._publish()
            return
        folder = folder_of(self.manifest_uri)
        entries: list[CommitEntry] = []
        for sink in self._sinks:
            if sink.mark is None:
                continue
            replaced = None
            if self.overwrite and sink.staged is not None:
                replaced = self.store.at(sink.uri).mark()
            name = name_below(folder, sink.uri)
            entries.append(CommitEntry(name, sink.mark, sink.staged, replaced))
        write_manifest(self.manifest_uri, entries, self.store)
        self._publish()
        remove_manifest(self.manifest_uri, self.store)

    def _publish(self) -> None:
        for sink in self._sinks:
            sink.commit()
