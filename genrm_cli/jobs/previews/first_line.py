"""Tell the format of the rollouts from the first line of the first input."""

from collections.abc import Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path

from genrm_cli.errors import GenrmError
from genrm_cli.jobs.due.inputs import iter_files
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.parse_lines import format_of
from genrm_cli.settings import Settings
from genrm_cli.storage.contract import InputIdentity, never
from genrm_cli.storage.encoding.codec import iter_decoded
from genrm_cli.storage.encoding.containers import HEAD_BYTES
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import is_remote
from genrm_cli.storage.source import Source, open_source
from genrm_cli.storage.spool import Spool
from genrm_cli.storage.store import Store


def format_of_first(inputs: Sequence[str], settings: Settings) -> str | None:
    """Return the format that is set, else that of the first line; None if it cannot be told, as of
    a stream. The job that reads the input reports what is wrong with it.
    """
    if settings.input.format is not None:
        return settings.input.format
    try:
        first = next(iter_files(inputs, settings), None)
        if first is None or first.problem is not None:
            return None
        # A stream can be read once.
        if not is_remote(first.uri) and not Path(first.uri).is_file():
            return None
        raw = _first_record(first.uri, settings)
        return None if raw is None else format_of(parse_record(raw), settings.input).name
    except (GenrmError, BadLineError, UnreadableRecordError):
        return None


def _first_record(uri: str, settings: Settings) -> bytes | None:
    """Return the first record; of large inputs, from their first bytes if these are lines."""
    store = Store(settings.storage)
    stored = store.at(uri).beginning(HEAD_BYTES)
    # A second chunk says that there is more, if the first bytes are not themselves cut off.
    is_cut = len(stored) == HEAD_BYTES
    chunks = list(islice(iter_decoded(BytesIO(stored), uri), 1 if is_cut else 2))
    is_whole = not is_cut and len(chunks) < 2
    head = b"".join(chunks)
    with Spool() as spool:
        spool.write(head)
        source = Source(InputIdentity(uri), spool.flush(), True, settings.input, never)
        if is_whole or (source.unit == "line" and b"\n" in head.lstrip()):
            return _first_of(source)
    with open_source(uri, store, settings.input) as source:
        return _first_of(source)


def _first_of(source: Source) -> bytes | None:
    return next((line.raw for line in source.iter_lines()), None)
