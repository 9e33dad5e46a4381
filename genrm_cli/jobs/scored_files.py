"""Find outputs of `genrm score`, and open the files beside them."""

from collections.abc import Sequence

from genrm_cli.errors import InputError, UsageError
from genrm_cli.settings import Settings
from genrm_cli.storage.formats.location import S3Options, is_scored_file, is_stream, sibling
from genrm_cli.storage.listing import iter_found, names_many
from genrm_cli.storage.sink import exists, place_of
from genrm_cli.storage.source import Source, open_source


def find_scored(given: Sequence[str], s3: S3Options) -> list[str]:
    """Return the scored files that a command line names, each once; in folders and prefixes those named `.scored`.

    Raises:
        InputError: a folder, prefix or pattern without scored files.
    """
    found: dict[str, str] = {}
    for uri in given:
        if not names_many(uri):
            found.setdefault(place_of(uri), uri)
            continue
        scored = [each.identity.uri for each in iter_found(uri, s3) if is_scored_file(each.identity.uri)]
        if not scored:
            raise InputError(f"{uri}: no scored files (*.scored.jsonl); run `genrm score` first")
        for each in scored:
            found.setdefault(place_of(each), each)
    if len(found) > 1 and any(map(is_stream, found)):
        raise UsageError("'-' cannot be combined with other inputs.")
    return list(found.values())


def source_beside(uri: str, suffix: str, s3: S3Options, settings: Settings) -> Source | None:
    """Open the file beside scored lines; None if there is none."""
    if is_stream(uri):
        return None
    beside = sibling(uri, suffix)
    return open_source(beside, s3, settings.input.max_line_bytes) if exists(beside, s3) else None
