"""Check and open the files of a run without calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from genrm_cli.errors import UsageError, naming
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.sources import find_files
from genrm_cli.jobs.offline.exchange import FileExchange
from genrm_cli.jobs.offline.replies import Replies, RepliesEvent
from genrm_cli.jobs.offline.request_files import RequestFiles, RequestsEvent
from genrm_cli.settings import Settings
from genrm_cli.storage.location import is_stream, require_json_lines, require_rl_prefix
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.places import is_same_place

_MODE = 0o600  # requests hold rollouts, as a journal does


def check_offline(settings: Settings) -> None:
    """Refuse a file of requests that must not be written.

    Raises:
        UsageError: the message says what to change.
    """
    given = settings.offline
    if given.requests_to is not None:
        require_rl_prefix(given.requests_to, settings.storage.any_prefix)
        require_json_lines(given.requests_to)
        if any(is_same_place(uri, given.requests_to) for uri in given.replies_from):
            raise UsageError(naming("$requests_to names a file of replies; choose another file."))


@asynccontextmanager
async def open_exchange(run: RunContext) -> AsyncIterator[FileExchange | None]:
    """Read the replies that the settings name, and in the end publish the requests that are still
    needed; None for a run that calls its judges.

    Raises:
        GenrmError: a file cannot be read or written.
    """
    settings = run.settings
    offline = settings.offline
    if not offline.is_used:
        yield None
        return
    with (
        Replies() as replies,
        Outputs(run.store, overwrite=settings.output.force, mode=_MODE) as outputs,
    ):
        requests = None
        if offline.requests_to is not None:
            requests = await _open_requests(offline.requests_to, run, outputs)
        await run.in_thread(lambda: _read_replies(replies, run))
        exchange = FileExchange(replies, requests)
        yield exchange
        if offline.replies_from and exchange.is_used:
            run.on_event(RepliesEvent(len(replies), replies.used, replies.refused()))
            if exchange.has_pending and not replies.used:
                raise exchange.foreign_error
        # Requests without a file: it could not be opened, which is an error of each input.
        if requests is not None and exchange.is_used and (requests.files or not len(requests)):
            await run.in_thread(outputs.commit)
            run.on_event(RequestsEvent(requests.files, exchange.failures))


async def _open_requests(uri: str, run: RunContext, outputs: Outputs) -> RequestFiles:
    models = [
        spec.config.judge.model or "" for spec in run.judge_specs() if spec.profile is not None
    ]
    if is_stream(uri) and len(set(models)) > 1:
        raise UsageError(naming("$requests_to writes a file for each model; name a file, not -."))
    # Checked before the replies are read, which may take minutes.
    run.store.at(uri).make_folder()
    await run.in_thread(run.store.at(uri).check_writable)
    return RequestFiles(uri, models, outputs)


def _read_replies(replies: Replies, run: RunContext) -> None:
    """Read files of replies, those in folders, and those of patterns."""
    for uri in find_files(run.settings.offline.replies_from, run):
        with run.open_source(uri) as source:
            replies.add(source)
