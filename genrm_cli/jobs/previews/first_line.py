"""Tell the format of the rollouts from the first line of the first input."""

from collections.abc import Sequence
from pathlib import Path

from genrm_cli.errors import GenrmError
from genrm_cli.jobs.due.inputs import iter_files
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.parse_lines import format_of
from genrm_cli.settings import Settings
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import is_remote
from genrm_cli.storage.source import open_source
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
        with open_source(first.uri, Store(settings.storage), settings.input) as source:
            for line in source.iter_lines():
                return format_of(parse_record(line.raw), settings.input).name
    except (GenrmError, BadLineError, UnreadableRecordError):
        return None
    return None
