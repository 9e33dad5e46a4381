"""Check and open the files of a run without calls."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from genrm_cli.errors import SettingRef, UsageError, naming
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.sources import find_files
from genrm_cli.jobs.offline.exchange import FileExchange
from genrm_cli.jobs.offline.exchange_events import RepliesEvent, RequestsEvent, WrittenRequests
from genrm_cli.jobs.offline.replies import Replies
from genrm_cli.jobs.offline.request_files import RequestFiles
from genrm_cli.settings import Settings
from genrm_cli.storage.location import is_rollout_file, is_stream, require_rl_prefix
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.patterns import names_many, would_find
from genrm_cli.storage.places import is_same_place, place_of

_MODE = 0o600  # requests hold rollouts, as a journal does
# no call, nothing to stop
_LIMITS_OF_CALLS = ("max_calls", "max_total_tokens", "max_cost", "deadline")


def check_offline(settings: Settings, inputs: Sequence[str] = ()) -> None:
    """Refuse settings that contradict runs without calls, and files that a later run would read as
    rollouts.

    Raises:
        UsageError: the message says what to change.
    """
    given = settings.offline
    if not given.is_used:
        return
    if not settings.journal.use_journal:
        raise UsageError(
            naming("replies are kept in the journal; omit $use_journal.", use_journal=False)
        )
    for name in _LIMITS_OF_CALLS:
        if getattr(settings.limits, name) is not None:
            raise UsageError(
                "this run makes no calls that a limit could stop; omit ", SettingRef(name), "."
            )
    if settings.journal.conclude or settings.rewards.only_components:
        raise UsageError(
            naming(
                "$conclude and $only_components take verdicts from the journal alone; run them "
                "later."
            )
        )
    if given.requests_to is not None:
        require_rl_prefix(given.requests_to, settings.storage.any_prefix)
        for uri in given.replies_from:
            if is_same_place(uri, given.requests_to):
                raise UsageError(
                    f"{uri} has the replies; choose another file for ", naming("$requests_to.")
                )
    uris = [*given.replies_from]
    if given.requests_to is not None:
        uris.append(given.requests_to)
    for uri in uris:
        file = uri
        if names_many(uri) and not is_rollout_file(uri):
            file = f"{uri.rstrip('/')}/replies.jsonl"
        if not is_rollout_file(file):
            continue
        for folder in filter(names_many, inputs):
            if would_find(folder, place_of(file)):
                raise UsageError(
                    f"{uri}: a run over {folder} would read it as rollouts; choose a place outside."
                )


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
        exchange = FileExchange(replies, requests, settings.limits.reask)
        yield exchange
        if offline.replies_from and exchange.is_used:
            run.on_event(RepliesEvent(len(replies), replies.used, replies.refused()))
            if exchange.has_pending and not replies.used:
                raise exchange.foreign_error
        # Requests without a file: it could not be opened, which is an error of each input.
        if requests is not None and exchange.is_used and (requests.files or not len(requests)):
            await run.in_thread(outputs.commit)
            files = [
                WrittenRequests(file.sink.uri, file.model, file.requests) for file in requests.files
            ]
            run.on_event(RequestsEvent(files, exchange.failures))


async def _open_requests(uri: str, run: RunContext, outputs: Outputs) -> RequestFiles:
    models = [
        spec.config.judge.model or "" for spec in run.judge_specs() if spec.profile is not None
    ]
    if is_stream(uri) and len(set(models)) > 1:
        raise UsageError(naming("$requests_to writes a file for each model; name a file, not -."))
    run.store.at(uri).make_folder()
    await run.in_thread(run.store.at(uri).check_writable)
    return RequestFiles(uri, models, run.settings.offline.requests_per_file, outputs)


def _read_replies(replies: Replies, run: RunContext) -> None:
    """Read files of replies, those in folders, and those of patterns."""
    for uri in find_files(run.settings.offline.replies_from, run):
        with run.open_source(uri) as source:
            replies.add(source)
