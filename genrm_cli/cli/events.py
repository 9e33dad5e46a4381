"""Events of a run, printed to stderr as they happen and, with `--log-json`, appended to a log."""

import contextlib
import json
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from genrm_cli.cli.console import say, say_error, say_warning, showing_progress, text_of
from genrm_cli.errors import StorageError, counted
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.settings import Settings

# A refused flag imports this module, too: what a run needs is imported when it begins.
if TYPE_CHECKING:
    from genrm_cli.jobs.context import RunContext
    from genrm_cli.jobs.offline.request_files import RequestsEvent


class EndEvent(Event, frozen=True):
    """The command has ended, by an error if there is one."""

    error: str | None


class Events:
    """Print and log the events of a run; safe to call from several threads."""

    def __init__(self, log_path: str | None, *log_only: type[Event]) -> None:
        """Open the log, if any; events in `log_only` are not printed."""
        self._log_only = set(log_only)
        self._lock = threading.Lock()
        self._log: TextIO | None = None
        if log_path is not None:
            try:
                # Closed by `__exit__`.
                self._log = open(log_path, "a", encoding="utf-8")  # noqa: SIM115, PTH123
            except OSError as error:
                raise StorageError(
                    f"--log-json {log_path}: cannot be opened: {error.strerror}. "
                    "Choose a file in a folder that exists."
                ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self(EndEvent(None if error is None else f"{type(error).__name__}: {text_of(error)}"))
        if self._log is not None:
            self._log.close()

    def __call__(self, event: Event) -> None:
        """Print and log an event."""
        if type(event) not in self._log_only:
            if event.is_printed_once:
                self._log_only.add(type(event))
            _print(event)
        line = {"time": round(time.time(), 3), "event": event.kind(), **event.as_dict()}
        with self._lock:
            if self._log is None:
                return
            try:
                self._log.write(json.dumps(line, default=str) + "\n")
                self._log.flush()
            except OSError as error:  # the run goes on without a log
                say_warning(
                    f"--log-json {self._log.name}: {error.strerror}; no more events are written "
                    "to it."
                )
                with contextlib.suppress(OSError):  # closing flushes again
                    self._log.close()
                self._log = None


def _print(event: Event) -> None:
    from genrm_cli.jobs.offline.replies import RepliesEvent
    from genrm_cli.jobs.offline.request_files import RequestsEvent

    if isinstance(event, RequestsEvent):
        say(*_requests_lines(event))
    elif isinstance(event, RepliesEvent):
        say(f"replies       {event.replies:,} read, {event.used:,} to requests of this run")
        for count, places, reason in event.refused:
            more = ", ..." if count > places.count(",") + 1 else ""
            replies = counted(count, "reply", "replies")
            say_warning(f"{replies} refused ({places}{more}): {reason}.")
    elif (text := event.text()) is None:
        return
    elif event.level is Severity.ERROR:
        say_error(text)
    elif event.level is Severity.WARNING:
        say_warning(text)
    else:
        say(text, even_if_quiet=event.is_failure)


@contextlib.contextmanager
def watched(
    settings: Settings, api_keys: Mapping[str, str] | None = None
) -> Iterator["RunContext"]:
    """Yield a run whose events and progress are printed and logged."""
    from genrm_cli.jobs.context import new_run
    from genrm_cli.judging.pacing.judge_events import JudgeEvent
    from genrm_cli.metrics.progress import RunProgress

    progress = RunProgress()
    # The result of `eval` names the judge.
    log_only = (JudgeEvent,) if settings.output.json_output else ()
    with (
        Events(settings.output.log_json, *log_only) as events,
        showing_progress(progress, events),
    ):
        yield new_run(settings, api_keys, progress, events)


def _requests_lines(event: "RequestsEvent") -> Iterator[str]:
    from genrm_cli.jobs.offline.request_files import replies_of

    if not event.files:
        yield "no requests are outstanding"
        return
    for file in event.files:
        yield f"requests      {file.requests:,} to {file.model} in {file.uri}"
    for kind, (count, example) in event.failures.items():
        yield f"again         {count:,} {kind} (for example: {example})"
    yield "next, for each file, with vLLM or through a batch API:"
    for file in event.files:
        replies = replies_of(file.uri)
        vllm = ["vllm", "run-batch", "-i", file.uri, "-o", replies, "--model", file.model]
        yield f"  {shlex.join(vllm)}"
        yield f"  {shlex.join(['genrm', 'batch', file.uri])} --base-url URL"
        yield f"then this command again, with --replies-from {shlex.quote(replies)}"
