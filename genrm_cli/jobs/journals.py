"""Locate and open the journal of each output.

A journal is a SQLite file beside a local output, or in the user's state folder if the output is a
stream or on S3. A journal on S3 is the same local file, and segments of it that all machines read
and write (`replica.py`). Shards may run at once, so each has a file of its own beside the main one,
into which the run that concludes imports them.
"""

import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from glob import escape, glob
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, to_builtins

from genrm_cli.errors import InputError, StoppedError, UsageError, naming
from genrm_cli.groups.compile import asks_for_verdicts
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.replica import JournalReplica, import_segments
from genrm_cli.jobs.shards import shard_of
from genrm_cli.json_types import Record
from genrm_cli.judging.journal import Journal
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.settings import Settings
from genrm_cli.settings.panel import graders_of
from genrm_cli.settings.resolve import state_folder
from genrm_cli.storage.local.sinks import is_streamed
from genrm_cli.storage.location import is_remote, is_stream, require_rl_prefix, sibling, stem_of
from genrm_cli.storage.places import place_of
from genrm_cli.storage.store import Store
from genrm_cli.typed_json import from_json

_SUFFIX = ".journal.sqlite"
_IMPORTED_AT_ONCE = 10_000  # entries of one transaction; an interrupted run stops in between


class JournalDamagedEvent(Event, frozen=True):
    """A journal holds verdicts that cannot be read."""

    severity = Severity.WARNING
    journal: str
    verdicts: int

    def text(self) -> str:
        """Name the journal."""
        return (
            f"journal {self.journal}: ignoring {self.verdicts} damaged verdicts; the judge is "
            "asked again"
        )


def has_remote_judge(settings: Settings) -> bool:
    """Whether the run may call a judge over HTTP."""
    return (asks_for_verdicts(settings) and settings.judge.judge is None) or bool(
        graders_of(settings)
    )


def journal_path(scored_uri: str, settings: Settings) -> str | None:
    """Return the journal file of an output; None if no journal is kept, or no judge is asked.

    It is next to a local output, or in the user's state folder for S3 objects and streams. A shard
    has its own next to the main journal."""
    if not settings.journal.use_journal or not has_remote_judge(settings):
        return None
    path = _path_of_whole(scored_uri, settings)
    shard = shard_of(settings)
    if shard is None:
        return path
    return f"{path.removesuffix(_SUFFIX)}.shard-{shard.number}-of-{shard.count}{_SUFFIX}"


def _path_of_whole(output_uri: str, settings: Settings, suffix: str = _SUFFIX) -> str:
    given = settings.journal.journal
    if given is not None and not is_remote(given):
        # Not a Path: it would raise an error below an unreadable folder.
        is_folder = given.endswith("/") or os.path.isdir(given)  # noqa: PTH112
        return str(Path(given) / f"{_name_of(output_uri)}{suffix}") if is_folder else given
    # SQLite needs a local disk, also for outputs and journals on S3.
    if given is not None or is_remote(output_uri) or is_streamed(output_uri):
        return str(state_folder() / f"{_digest(output_uri)}{suffix}")
    return sibling(output_uri, suffix)


def turns_path(episodes_uri: str, settings: Settings) -> str:
    """Return the journal file of collected episodes. There always is one: it resumes episodes at
    any turn.

    Its name differs from that of the journal of verdicts on these episodes, which is next to it.
    """
    return _path_of_whole(episodes_uri, settings, ".turns.sqlite")


def check_journal_place(settings: Settings) -> None:
    """Refuse a journal on S3 outside `rl/`: it holds the judge's replies."""
    if settings.journal.journal is not None and is_remote(settings.journal.journal):
        require_rl_prefix(
            settings.journal.journal.rstrip("/") + "/segments", settings.storage.any_prefix
        )


def check_shard_journal(scored_uri: str, settings: Settings) -> None:
    """Refuse a shard whose journal would stay on its machine, where no other run finds it."""
    is_elsewhere = is_remote(scored_uri) or is_streamed(scored_uri)
    if settings.journal.journal is None and is_elsewhere and has_remote_judge(settings):
        raise UsageError(
            f"{scored_uri}: the shards of this output need a journal that the last run can read; ",
            naming("set $journal to s3://bucket/rl/... or to a folder that all machines share."),
        )


def segments_folder(scored_uri: str, settings: Settings) -> str | None:
    """Return the folder of the journal's replica, ending in a slash; None without a journal on
    S3.
    """
    if settings.journal.journal is None or not is_remote(settings.journal.journal):
        return None
    return f"{settings.journal.journal.rstrip('/')}/{_name_of(scored_uri)}/"


@asynccontextmanager
async def open_journal(scored_uri: str, run: RunContext) -> AsyncIterator[Journal | None]:
    """Open the journal of an output, with the segments of other machines; None if no journal is
    kept.
    """
    path = journal_path(scored_uri, run.settings)
    if path is None or run.known is not None:
        yield run.known
        return
    async with open_journal_at(path, scored_uri, run) as journal:
        if segments_folder(scored_uri, run.settings) is None:
            await run.in_thread(lambda: _import_others(journal, scored_uri, run))
        yield journal


@asynccontextmanager
async def open_journal_at(path: str, output_uri: str, run: RunContext) -> AsyncIterator[Journal]:
    """Open the journal file of an output, with the segments of other machines."""
    if run.settings.journal.journal is not None:
        run.store.at(path).make_folder()
    folder = segments_folder(output_uri, run.settings)
    if folder is None:
        with Journal(path) as journal:
            yield journal
    else:
        # The journal closes first: what it commits at the end is copied, too.
        async with JournalReplica(folder, run) as segments:
            with Journal(path, segments) as journal:
                await run.in_thread(lambda: segments.exchange(journal))
                yield journal
    if journal.damaged:
        run.on_event(JournalDamagedEvent(path, len(journal.damaged)))


def _import_others(journal: Journal, scored_uri: str, run: RunContext) -> None:
    """Import the journals of all shards into the journal of a run that concludes, or all others
    into that of a new shard: an earlier run may have had other shards.
    """
    # A shard that has verdicts was imported before; its own answers come to the journal anyway.
    is_new_shard = run.shard is not None and not journal.has_verdicts
    if not run.settings.journal.conclude and not is_new_shard:
        return
    whole = _path_of_whole(scored_uri, run.settings)
    for path in (whole, *_paths_of_shards(whole)):
        if path == journal.path or not Path(path).exists():
            continue
        with Journal(path, read_only=True) as other:
            for batch in _iter_batches(other):
                if run.stop.is_set():
                    raise StoppedError
                journal.import_entries(batch, path)


def _paths_of_shards(whole: str) -> list[str]:
    return sorted(glob(f"{escape(whole.removesuffix(_SUFFIX))}.shard-*{_SUFFIX}"))  # noqa: PTH207


def _iter_batches(journal: Journal) -> Iterator[list[Record]]:
    entries = chain(journal.iter_entries(), journal.iter_notes())
    while batch := list(islice(entries, _IMPORTED_AT_ONCE)):
        yield batch


@contextmanager
def open_known_journal(scored_uri: str, settings: Settings) -> Iterator[Journal | None]:
    """Open the journal of an output for reading, on S3 with the segments of all machines; None if
    there is none.
    """
    if not settings.journal.use_journal or is_stream(scored_uri):
        yield None
        return
    named = settings.journal.journal
    path = _path_of_whole(scored_uri, settings)
    folder = segments_folder(scored_uri, settings)
    if folder is not None:
        with TemporaryDirectory() as temporary, Journal(f"{temporary}/journal.sqlite") as journal:
            import_segments(folder, journal, Store(settings.storage))
            yield journal
    elif Path(path).exists():
        with Journal(path, read_only=True) as journal:
            yield journal
    elif named is not None:
        raise InputError(
            f"{path}: no such journal; name another with ",
            naming("$journal, or use $use_journal to do without replies", use_journal=False),
        )
    else:
        yield None


@contextmanager
def open_running_journal(scored_uri: str, settings: Settings) -> Iterator[Journal | None]:
    """Open for reading what all shards and machines have recorded so far for an output; None if
    there is nothing.
    """
    whole = _path_of_whole(scored_uri, settings)
    of_shards = _paths_of_shards(whole)
    if not of_shards or segments_folder(scored_uri, settings) is not None:
        with open_known_journal(scored_uri, settings) as journal:
            yield journal
        return
    with TemporaryDirectory() as temporary, Journal(f"{temporary}/journal.sqlite") as journal:
        for path in filter(os.path.exists, (whole, *of_shards)):
            with Journal(path, read_only=True) as other:
                for batch in _iter_batches(other):
                    journal.import_entries(batch, path)
        yield journal


def whole_journal(path: str) -> str:
    """Return the main journal of that of a shard; any other journal itself."""
    return re.sub(rf"\.shard-\d+-of-\d+{re.escape(_SUFFIX)}$", _SUFFIX, path)


class Job(Struct, frozen=True):
    """The task of a run, as its journal records it.

    Attributes:
        output: its scored lines.
        inputs: a file, or those of a set.
        settings: without those that only say where it stores, shows or serves something, which may
            hold keys.
    """

    output: str
    inputs: tuple[str, ...]
    settings: Settings


_OF_JOB = ("input", "pairing", "judge", "panel", "limits", "rewards")


def note_job(journal: Journal | None, output: str, inputs: Sequence[str], run: RunContext) -> None:
    """Note in the journal of a run what it is to do."""
    if journal is None or run.known is not None:
        return
    kept = {name: getattr(run.settings, name) for name in _OF_JOB}
    job = Job(place_of(output), tuple(map(place_of, inputs)), Settings(**kept))
    # Escaped: a path may hold bytes that are no text.
    journal.note_job(job.output, json.dumps(to_builtins(job)))


def iter_jobs(journal: Journal) -> Iterator[Job]:
    """Yield what the runs that recorded in a journal are to do, the latest first."""
    for job in journal.iter_jobs():
        try:
            yield from_json(Job, json.loads(job))
        except ValueError:
            continue  # of another version


def known_journal(scored_uri: str, settings: Settings) -> Path | None:
    """Return the journal file of an output, if it exists."""
    path = journal_path(scored_uri, settings)
    return Path(path) if path is not None and Path(path).exists() else None


def _name_of(scored_uri: str) -> str:
    return f"{stem_of(scored_uri).rpartition('/')[2]}-{_digest(scored_uri)}"


def _digest(scored_uri: str) -> str:
    return hashlib.sha256(scored_uri.encode()).hexdigest()[:16]
