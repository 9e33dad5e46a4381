"""Events of a run, printed to stderr as they happen and, with `--log-json`, appended to a log."""

import contextlib
import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

from genrm_cli.cli.console import say, say_error, say_warning, showing_progress, text_of
from genrm_cli.errors import Message, StorageError, counted
from genrm_cli.jobs.offline.replies import RepliesEvent
from genrm_cli.jobs.offline.request_files import RequestsEvent
from genrm_cli.judging.pacing.judge_events import JudgeEvent
from genrm_cli.metrics.event import Event, Severity
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.settings import Settings

_PRINTERS: dict[Severity, Callable[[str | Message], None]] = {
    Severity.INFO: say,
    Severity.WARNING: say_warning,
    Severity.ERROR: say_error,
}


@dataclass(frozen=True, slots=True)
class EndEvent(Event):
    """The command has ended, by an error if there is one."""

    error: str | None


class Events:
    """Print and log the events of a run; safe to call from several threads."""

    def __init__(
        self, log_path: str | None, *, quiet: bool, log_only: tuple[type[Event], ...] = ()
    ) -> None:
        """Open the log, if any. With `quiet`, print failures only; events in `log_only` are only
        logged.
        """
        self._quiet = quiet
        self._log_only = set(log_only)
        self._lock = threading.Lock()
        self._log: TextIO | None = None
        if log_path is not None:
            try:
                # Closed by `__exit__`.
                self._log = open(log_path, "a", encoding="utf-8")  # noqa: SIM115, PTH123
            except OSError as error:
                raise StorageError(
                    f"--log-json {log_path}: cannot be opened: {error.strerror}."
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
        is_wanted = event.is_failure or not self._quiet
        if is_wanted and type(event) not in self._log_only:
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
    if isinstance(event, RequestsEvent):
        _say_requests(event)
    elif isinstance(event, RepliesEvent):
        _say_replies(event)
    elif (text := event.text()) is not None:
        _PRINTERS[event.level](text)


@contextlib.contextmanager
def watched(settings: Settings) -> Iterator[tuple[RunProgress, Events]]:
    """Print and log the events and the progress of a run."""
    progress = RunProgress()
    quiet = settings.output.quiet
    # The result of `eval` names the judge.
    log_only = (JudgeEvent,) if settings.output.json_output else ()
    with (
        Events(settings.output.log_json, quiet=quiet, log_only=log_only) as events,
        showing_progress(progress, events, quiet=quiet),
    ):
        yield progress, events


def _say_requests(event: RequestsEvent) -> None:
    from genrm_cli.jobs.offline.request_files import replies_of

    if not event.files:
        say("no requests are outstanding")
        return
    for file in event.files:
        say(f"requests      {file.requests:,} to {file.model} in {file.uri}")
    for kind, (count, example) in event.failures.items():
        say(f"again         {count:,} {kind} (for example: {example})")
    say("next, for each file, with vLLM or through a batch API:")
    for file in event.files:
        replies = replies_of(file.uri)
        vllm = ["vllm", "run-batch", "-i", file.uri, "-o", replies, "--model", file.model]
        say(
            f"  {shlex.join(vllm)}",
            f"  {shlex.join(['genrm', 'batch', file.uri])} --base-url URL",
            f"then this command again, with --replies-from {shlex.quote(replies)}",
        )


def _say_replies(event: RepliesEvent) -> None:
    say(f"replies       {event.replies:,} read, {event.used:,} to requests of this run")
    for count, places, reason in event.refused:
        more = ", ..." if count > places.count(",") + 1 else ""
        say_warning(f"{counted(count, 'reply', 'replies')} refused ({places}{more}): {reason}.")
