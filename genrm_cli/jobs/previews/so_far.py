"""Look at a run before its end: the rewards that follow from what its journal holds so far.

A run notes in its journal what it is to do. With that, anybody can take the last step of the run:
conclude from the verdicts, without calls. The journal is only read, and the lines go to a folder of
their own, so that the run is not disturbed.
"""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from genrm_cli.errors import InputError, UsageError, naming
from genrm_cli.jobs.context import new_run
from genrm_cli.jobs.input_batch import BatchReport, score_inputs
from genrm_cli.jobs.journals import Job, iter_jobs, open_running_journal, whole_journal
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.journal_lock import is_held
from genrm_cli.scored.files import ScoredInput
from genrm_cli.settings import Settings, changed
from genrm_cli.storage.location import is_remote, is_stream
from genrm_cli.storage.patterns import names_many
from genrm_cli.storage.places import is_same_place
from genrm_cli.storage.store import Store

_SQLITE = b"SQLite format 3\0"


class UnfinishedRun(Struct, frozen=True):
    """A run that has not ended, with its open journal; `settings` are those of the reader."""

    job: Job
    journal: Journal
    settings: Settings


class SoFar(Struct, frozen=True):
    """The lines that a run would write now.

    Attributes:
        settings: with which to read them.
        inputs: files that the run reads, its journal among them.
    """

    scored: ScoredInput
    settings: Settings
    inputs: tuple[str, ...]


@contextmanager
def open_unfinished(uri: str, settings: Settings) -> Iterator[UnfinishedRun | str]:
    """Open the run that records in a journal, or writes an output that does not exist yet; without
    one, yield what to read: the output of a journal whose run has ended, or else the URI.

    Raises:
        GenrmError: the journal cannot be read, or does not say what to conclude.
    """
    if _is_journal(uri):
        path = whole_journal(uri)
        with Journal(uri, read_only=True) as journal:
            outputs = {job.output for job in iter_jobs(journal)}
        if not outputs:
            raise InputError(
                f"{uri}: no run of `genrm score` has recorded a result in this journal yet; try "
                "again once it has"
            )
        if len(outputs) > 1:
            raise UsageError(
                f"{uri} is the journal of {len(outputs)} outputs: name one of them, such as "
                f"{min(outputs)}, and ",
                naming("pass $journal.", journal=path),
            )
        [output] = outputs
        settings = changed(settings, journal=path)
        if not is_held(path) and Store(settings.storage).at(output).exists():
            yield output
            return
    elif is_stream(uri) or names_many(uri) or Store(settings.storage).at(uri).exists():
        yield uri
        return
    else:
        output = uri
    with open_running_journal(output, settings) as found:
        jobs = [] if found is None else list(iter_jobs(found))
        job = next((job for job in jobs if is_same_place(job.output, output)), None)
        if found is None or job is None:
            yield uri
        else:
            yield UnfinishedRun(job, found, settings)


async def conclude_so_far(run: UnfinishedRun, folder: str) -> SoFar:
    """Write the lines of a run, as they would be without further verdicts, into an empty folder.

    Raises:
        GenrmError: an input cannot be read again.
    """
    job = run.job
    if any(map(is_stream, job.inputs)):
        raise InputError(
            f"{job.output}: its rollouts came from stdin, which cannot be read again; score a file"
        )
    read = replace(job.settings, storage=run.settings.storage)
    settings = changed(
        read,
        conclude=True,
        max_unscored=1.0,
        keep_replies=True,  # recalled a group at a time, so that the reader asks for none
        output_template=f"{folder}/{{stem}}.scored.jsonl",
        any_prefix=True,
    )
    report = BatchReport(alone=True)
    await score_inputs(job.inputs, replace(new_run(settings), known=run.journal), report=report)
    if report.last is None or report.last.record is None:
        raise report.only_error or InputError(
            f"{job.output}: nothing to conclude yet; try again later"
        )
    files = sorted(map(str, Path(folder).glob("*.scored.jsonl")))
    scored = ScoredInput(report.last.record.output, tuple(files), unfinished=job.output)
    used = changed(replace(run.settings, input=read.input), journal=run.journal.path)
    # Lines that were recognised once need not be recognised again.
    formats = list(report.last.record.formats)
    if len(formats) == 1 and read.input.response_field is None:
        used = changed(used, format=formats[0])
    return SoFar(scored, used, (*job.inputs, run.journal.path))


def _is_journal(uri: str) -> bool:
    if is_stream(uri) or is_remote(uri):
        return False
    with contextlib.suppress(OSError, ValueError), Path(uri).open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
    return False
