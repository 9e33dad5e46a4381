"""Find outputs of `genrm score`, and open their companion files."""

import hashlib
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from genrm_cli.errors import InputError, SettingRef, UsageError, naming
from genrm_cli.scored.run_record import FileRecord, RunRecord
from genrm_cli.settings import Settings
from genrm_cli.storage.contract import Mark
from genrm_cli.storage.location import (
    folder_of,
    is_scored_file,
    is_stream,
    name_below,
    sibling,
    stem_of,
    stem_of_set,
)
from genrm_cli.storage.patterns import names_many
from genrm_cli.storage.places import place_of
from genrm_cli.storage.source import Source, open_source
from genrm_cli.storage.store import Store
from genrm_cli.typed_json import parse_json

REMEDY = (
    "; it is not a file of `genrm score`, or torn; score the rollouts again with ",
    SettingRef("force", True),
    ", or move it away",
)
"""The remedy for a file of the wrong kind."""


class ScoredInput(Struct, frozen=True):
    """One output of `genrm score`.

    Attributes:
        uri: URI of the scored lines. A set of files (`together`) has several; their companion files
            are named as if all lines were in this one.
        files: the files with the scored lines.
        unfinished: the output of a run that has not ended, of which these are the lines so far;
            None for an output.
    """

    uri: str
    files: tuple[str, ...]
    unfinished: str | None = None

    @property
    def name(self) -> str:
        """The file, or the name and the size of the set."""
        uri = self.unfinished or self.uri
        return uri if len(self.files) == 1 else f"{stem_of(uri)} ({len(self.files):,} files)"

    def open_beside(self, suffix: str, store: Store, settings: Settings) -> Source | None:
        """Open a companion file of the scored lines; None if there is none."""
        if is_stream(self.uri):
            return None
        beside = sibling(self.uri, suffix)
        return open_source(beside, store, settings.input) if store.at(beside).exists() else None


def find_scored(inputs: Sequence[str], settings: Settings, store: Store) -> list[ScoredInput]:
    """Return the scored files that a command line names, each once; in folders and prefixes those
    named `.scored`.

    With the setting `together`, they are one set.

    Raises:
        InputError: a folder, prefix or pattern without scored files.
        UsageError: stdin and others; files that were scored as a set are read alone, or others as a
            set.
    """
    # Two spellings of one file would show each of its rollouts twice.
    by_place: dict[str, str] = {}
    for uri in inputs:
        if not names_many(uri):
            by_place.setdefault(place_of(uri), uri)
            continue
        listed = (file.identity.uri for file in store.at(uri).iter_found())
        scored = list(filter(is_scored_file, listed))
        if not scored:
            raise InputError(f"{uri}: no scored files (*.scored.jsonl); run `genrm score` first")
        for each in scored:
            by_place.setdefault(place_of(each), each)
    uris = list(by_place.values())
    if len(uris) > 1 and any(map(is_stream, uris)):
        raise UsageError("'-' cannot be combined with other inputs; name files, or pass - alone.")
    if settings.input.together and len(uris) > 1:
        return [_set_of(sorted(uris), store)]
    _refuse_parts_of_sets(uris, store)
    return [ScoredInput(uri, (uri,)) for uri in uris]


def read_run_record(uri: str, store: Store) -> RunRecord | None:
    """Read a metrics file; None if it is missing.

    Raises:
        InputError: it is not a metrics file.
    """
    content = store.at(uri).look()
    try:
        return None if content is None else parse_json(RunRecord, content)
    except ValueError as error:
        raise InputError(f"{uri}: {error}", *REMEDY) from error


def find_run_record(uri: str, store: Store) -> RunRecord | None:
    """Read the metrics file of an earlier run; None if it is missing or another kind of file."""
    try:
        return read_run_record(uri, store)
    except InputError:
        return None


def is_marked(uri: str, recorded: Mark | None, store: Store) -> bool:
    """Return whether an output is the one recorded, or a copy, which has another time."""
    mark = store.at(uri).mark()
    if mark is None or recorded is None or mark.size_bytes != recorded.size_bytes:
        return False
    if (mark.upload, mark.mtime_ns) == (recorded.upload, recorded.mtime_ns):
        return True
    if mark.upload is not None:  # another output: copies of an object keep its id
        return False
    with store.at(uri).open_input().content as file:
        digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
    return digest.hexdigest() == recorded.sha256


def _set_of(uris: Sequence[str], store: Store) -> ScoredInput:
    """Return scored files as one set; refuse it if some were not scored together or changed since,
    or are missing.
    """
    stem = stem_of_set(uris)
    parts = _parts_of(stem, store)
    for uri in uris:
        record = parts.get(name_below(folder_of(stem), uri))
        if not store.at(uri).exists():
            raise InputError(f"{uri}: no such file; check the path")
        if record is None:
            raise UsageError(
                f"{uri}: {stem}.metrics.json does not name it, so it was not scored with the "
                "others. ",
                naming("Remove $together, or name only the files of the set."),
            )
        if not is_marked(uri, record.output_mark, store):
            raise UsageError(
                f"{uri} was changed or scored alone since the set was scored: score the set again."
            )
    # Without one of its files, groups that span it would be shorter than they were judged.
    if missing := parts.keys() - {name_below(folder_of(stem), uri) for uri in uris}:
        raise UsageError(
            f"{min(missing)} belongs to the set {stem}, too: name all of its {len(parts)} files."
        )
    return ScoredInput(f"{stem}.scored.jsonl", tuple(uris))


def _refuse_parts_of_sets(uris: Sequence[str], store: Store) -> None:
    # Read once for each folder, which may hold many files.
    parts_of = cache(lambda folder: _parts_of(stem_of_set([f"{folder}/-"]), store))
    for uri in uris:
        record = None if is_stream(uri) else parts_of(folder_of(uri)).get(uri.rpartition("/")[2])
        if record is not None and is_marked(uri, record.output_mark, store):
            raise UsageError(
                f"{uri} was scored with other files, and its groups may span them: ",
                naming("name them all and pass $together."),
            )


def _parts_of(stem: str, store: Store) -> dict[str, FileRecord]:
    """Return the files of a set by the names of their scored lines; empty without its metrics."""
    record = find_run_record(f"{stem}.metrics.json", store)
    return {} if record is None else record.parts
