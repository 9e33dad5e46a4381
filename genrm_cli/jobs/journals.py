"""Locate and open the journal of each output."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from genrm_cli.errors import InputError
from genrm_cli.groups.compile import asks_for_verdicts
from genrm_cli.jobs.context import RunContext, s3_options
from genrm_cli.jobs.replica import JournalReplica, take_in_segments
from genrm_cli.judging.journal import Journal
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import graders_of
from genrm_cli.settings.resolve import state_folder
from genrm_cli.storage.formats.location import is_s3, is_stream, require_rl_prefix, sibling, stem_of
from genrm_cli.storage.sink import goes_out_at_once


def asks_anybody(settings: Settings) -> bool:
    """Whether any judge may have to be asked over HTTP."""
    return (asks_for_verdicts(settings) and settings.judge.judge is None) or bool(graders_of(settings))


def journal_path(scored_uri: str, settings: Settings) -> str | None:
    """Return the journal file of an output; None if no journal is kept, or no judge is asked.

    It lies beside a local output, and in the user's state folder for S3 objects and streams.
    """
    return _place_of(scored_uri, settings) if settings.journal.use_journal and asks_anybody(settings) else None


def _place_of(scored_uri: str, settings: Settings) -> str:
    if settings.journal.journal is not None and not is_s3(settings.journal.journal):
        return settings.journal.journal
    if settings.journal.journal is not None or is_s3(scored_uri) or goes_out_at_once(scored_uri):
        return str(state_folder() / f"{_digest(scored_uri)}.journal.sqlite")
    return sibling(scored_uri, ".journal.sqlite")


def check_journal_place(settings: Settings) -> None:
    """Refuse a journal on S3 outside `rl/`: it holds the judge's replies.

    Raises:
        UsageError: the journal is outside `rl/` without `any_prefix`, or its URI is not valid.
    """
    if settings.journal.journal is not None and is_s3(settings.journal.journal):
        require_rl_prefix(settings.journal.journal.rstrip("/") + "/segments", settings.storage.any_prefix)


def segments_folder(scored_uri: str, settings: Settings) -> str | None:
    """Return the folder of the journal's replica, ending in a slash; None without a journal on S3."""
    if settings.journal.journal is None or not is_s3(settings.journal.journal):
        return None
    name = stem_of(scored_uri).rpartition("/")[2]
    return f"{settings.journal.journal.rstrip('/')}/{name}-{_digest(scored_uri)}/"


@asynccontextmanager
async def open_journal(scored_uri: str, run: RunContext) -> AsyncIterator[Journal | None]:
    """Open the journal of an output, with the segments of other machines; None if no journal is kept.

    Raises:
        StorageError: it cannot be opened, or its segments cannot be read or written.
    """
    path = journal_path(scored_uri, run.settings)
    if path is None:
        yield None
        return
    folder = segments_folder(scored_uri, run.settings)
    if folder is None:
        with Journal(path) as journal:
            yield journal
    else:
        async with JournalReplica(folder, run) as segments:
            with Journal(path, segments) as journal:
                await run.in_thread(lambda: segments.exchange(journal))
                yield journal
    if journal.damaged:
        run.on_event("journal_damaged", {"journal": path, "verdicts": len(journal.damaged)})


@contextmanager
def open_known_journal(scored_uri: str, settings: Settings) -> Iterator[Journal | None]:
    """Open the journal of an output for reading, on S3 with the segments of all machines; None if there is none.

    Raises:
        InputError: the journal that the settings name does not exist.
        StorageError: it cannot be read.
    """
    if not settings.journal.use_journal or is_stream(scored_uri):
        yield None
        return
    named, path = settings.journal.journal, _place_of(scored_uri, settings)
    folder = segments_folder(scored_uri, settings)
    if folder is not None:
        with TemporaryDirectory() as temporary, Journal(f"{temporary}/journal.sqlite") as journal:
            take_in_segments(folder, journal, s3_options(settings))
            yield journal
    elif Path(path).exists():
        with Journal(path, read_only=True) as journal:
            yield journal
    elif named is not None:
        raise InputError(f"{path}: no such journal; pass another with --journal, or --no-journal to do without replies")
    else:
        yield None


def known_journal(scored_uri: str, settings: Settings) -> Path | None:
    """Return the journal file of an output, if it exists."""
    path = journal_path(scored_uri, settings)
    return Path(path) if path is not None and Path(path).exists() else None


def _digest(scored_uri: str) -> str:
    return hashlib.sha256(scored_uri.encode()).hexdigest()[:16]
