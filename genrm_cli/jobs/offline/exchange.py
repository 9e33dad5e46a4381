"""The exchange of a run without calls: its requests in files, and replies from files."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext

from genrm_cli.errors import InputError, UsageError, naming
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.offline.replies import Replies
from genrm_cli.jobs.offline.request_files import RequestFiles, part_opener
from genrm_cli.judging.offline import ReplyStore, Wanted
from genrm_cli.judging.profiles.profile import count_turns
from genrm_cli.settings import Settings
from genrm_cli.storage.listing import iter_found, names_many, would_find
from genrm_cli.storage.location import is_rollout_file, is_stream, require_rl_prefix
from genrm_cli.storage.outputs import Outputs
from genrm_cli.storage.sink import Sink, check_writable, is_same_place, make_folder, place_of
from genrm_cli.verdicts import FailureKind, StoppedBy

_MODE = 0o600  # requests hold rollouts, as a journal does
_LIMITS = ("max_calls", "max_total_tokens", "max_cost", "deadline")


class FileStore:
    """The replies of a run from files, and its requests in files.

    Attributes:
        requests: None if the run makes no requests, so that those without a reply are not asked.
        is_used: whether any input was judged.
        has_waited: whether any lacked replies.
        failures: why replies give no verdict, by kind: how many, and the first reason.
    """

    stopped_by = StoppedBy.REPLIES_FROM

    def __init__(
        self, replies: Replies, requests: RequestFiles[Sink] | None, turns: int, reask: int
    ) -> None:
        self.replies = replies
        self.requests = requests
        self.replies_to = replies.of
        self.failures: dict[FailureKind, tuple[int, str]] = {}
        self.is_used = self.has_waited = False
        self._turns = turns
        self._reask = reask
        self._later = self._later_turns = self._used = 0

    def want(self, wanted: Wanted) -> bool:
        """Write a request into its file, unless the server refused it or it had all its replies.

        Replies of all rounds count, or a judge that answers only where a response wins would be
        asked until it does.
        """
        if self.requests is None or wanted.is_refused or wanted.reasks > self._reask:
            return False
        self.requests.add(wanted)
        if wanted.failure is not None:
            count, example = self.failures.get(wanted.failure.kind, (0, wanted.failure.detail))
            self.failures[wanted.failure.kind] = count + 1, example
        self._later_turns = max(self._later_turns, wanted.turns_left)
        return True

    def note_later(self, stages: int) -> None:
        """Note that a group needs this many stages of requests after those that it waits for."""
        self._later = max(self._later, stages * self._turns)

    def end_input(self, waiting: int) -> None:
        """Note that an input was read, and how many of its groups wait for replies.

        Raises:
            InputError: no reply answers a request about this input, whose outputs would be
                written.
        """
        used = self.replies.used
        before = self._used
        self._used = used
        self.is_used = True
        self.has_waited = self.has_waited or waiting > 0
        if waiting and self.requests is None and used == before:
            raise self.foreign_error

    @property
    def foreign_error(self) -> InputError:
        """The error that no reply is to a request of this run."""
        reasons = [f"{places}: {reason}" for _, places, reason in self.replies.refused()]
        return InputError(
            f"{', '.join(self.replies.uris)}: no reply to a request about this input ",
            f"({'; '.join(reasons) or 'no lines'}). ",
            naming(
                "Pass the options with which $requests_to wrote the requests, and the file of "
                "their replies."
            ),
        )

    @property
    def is_waiting(self) -> bool:
        """Whether the requests without a reply are in a file."""
        return self.requests is not None

    @property
    def rounds_left(self) -> int:
        """Number of rounds of requests that follow those written, at least."""
        return self._later + self._later_turns


def check_offline(settings: Settings, inputs: Iterable[str] = ()) -> None:
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
    for name in _LIMITS:
        if getattr(settings.limits, name) is not None:
            raise UsageError(
                naming("this run makes no calls that a limit could stop; omit "),
                naming(f"${name}."),
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
    folders = list(filter(names_many, inputs))
    for uri in (*given.replies_from, *filter(None, [given.requests_to])):
        file = (
            f"{uri.rstrip('/')}/replies.jsonl"
            if names_many(uri) and not is_rollout_file(uri)
            else uri
        )
        for folder in folders if is_rollout_file(file) else ():
            if would_find(folder, place_of(file)):
                raise UsageError(
                    f"{uri}: a run over {folder} would read it as rollouts; choose a place outside."
                )


def open_exchange(run: RunContext) -> AbstractAsyncContextManager[ReplyStore | None]:
    """Open the files of a run; None for a run that calls its judges."""
    return _exchanging(run) if run.settings.offline.is_used else nullcontext(None)


@asynccontextmanager
async def _exchanging(run: RunContext) -> AsyncIterator[ReplyStore]:
    """Read the replies that the settings name, and in the end publish the requests that are still
    needed.

    Raises:
        GenrmError: a file cannot be read or written.
    """
    given = run.settings.offline
    async with AsyncExitStack() as opened:
        replies = opened.enter_context(Replies())
        outputs = opened.enter_context(
            Outputs(run.s3, overwrite=run.settings.output.force, mode=_MODE)
        )
        specs = run.judge_specs()
        requests = None
        if given.requests_to is not None:
            models = [spec.config.judge.model or "" for spec in specs if spec.profile is not None]
            if is_stream(given.requests_to) and len(set(models)) > 1:
                raise UsageError(
                    naming("$requests_to writes a file for each model; name a file, not -.")
                )
            make_folder(given.requests_to)
            await run.in_thread(lambda: check_writable(given.requests_to or "", run.s3))
            most = None if is_stream(given.requests_to) else given.requests_per_file
            requests = RequestFiles(most, part_opener(given.requests_to, models, outputs))
        await run.in_thread(lambda: _read(replies, run))
        turns = max(
            (count_turns(spec.profile) for spec in specs if spec.profile is not None), default=1
        )
        store = FileStore(replies, requests, turns, run.settings.limits.reask)
        yield store
        if given.replies_from and store.is_used:
            told = {"replies": len(replies), "used": replies.used, "refused": replies.refused()}
            run.on_event("replies", told)
            if store.has_waited and not replies.used:
                raise store.foreign_error
        # Requests without a file: it could not be opened, which is an error of each input.
        if requests is not None and store.is_used and (requests.files or not len(requests)):
            await run.in_thread(outputs.commit)
            written = [
                {"uri": file.content.uri, "model": file.model, "requests": file.requests}
                for file in requests.files
            ]
            told = {"files": written, "rounds_left": store.rounds_left, "failures": store.failures}
            run.on_event("requests", told)


def _read(replies: Replies, run: RunContext) -> None:
    """Read files of replies, those in folders, and those of patterns."""
    for uri in run.settings.offline.replies_from:
        uris = [each.identity.uri for each in iter_found(uri, run.s3)] if names_many(uri) else [uri]
        if not uris:
            raise InputError(f"{uri}: no such files of replies; check the path")
        for each in uris:
            with run.open_source(each) as source:
                replies.add(source)
