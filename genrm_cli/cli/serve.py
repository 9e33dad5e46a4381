"""`genrm serve`: rewards over HTTP."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from genrm_cli.cli.console import nothing_on_stdout, say
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import Invocation, run_to_end
from genrm_cli.cli.sessions.host import ClientOptions, HostOptions, host
from genrm_cli.errors import UsageError, how_to_install
from genrm_cli.judging.pacing.judge_events import JudgeEvent
from genrm_cli.metrics.event import Event
from genrm_cli.settings import Settings
from genrm_cli.settings.sources.keys import find_token

if TYPE_CHECKING:
    from genrm_cli.products.serve.steps import LogStep

# What a tracker that hangs may delay the end of the server.
_LOGGED_WITHIN_S = 30.0


class ListeningEvent(Event, frozen=True):
    """The server takes requests."""

    url: str
    pid: int


def serve(invocation: Invocation, client: ClientOptions, hosted: HostOptions) -> None:
    """Serve rewards to running trainers over HTTP.

    Example: genrm serve --base-url http://localhost:8000/v1 --model my-genrm

    Example: genrm serve --offline --listen 127.0.0.1:8330

    Example: genrm serve --environment therapeutic_session
    """
    try:
        from genrm_cli.products.serve.run import serve as serve_until_stopped
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "prometheus_client"):
            raise
        raise UsageError(f"genrm serve needs {error.name}: {how_to_install('serve')}.") from error
    settings = invocation.settings
    token = find_token()
    log_only = () if hosted.environment is None else (JudgeEvent,)
    with Events(settings.output.log_json, *log_only) as events:

        def say_ready(url: str) -> None:
            events(ListeningEvent(url, os.getpid()))
            say(f"genrm: listening on {url}")

        if hosted.environment is not None:
            host(settings, hosted, client, token, events, say_ready)
            return
        with _logging(settings, events) as log_step:
            run_to_end(
                serve_until_stopped(
                    settings, invocation.api_keys, token, events, say_ready, log_step
                )
            )


@contextmanager
def _logging(settings: Settings, events: Events) -> "Iterator[LogStep | None]":
    """Yield what logs a step to the trackers; None without one."""
    from genrm_cli.products.tracking.log_run import RunLog, load_trackers, tracked_run

    trackers = load_trackers(settings.tracking)
    if not trackers:
        yield None
        return
    log = RunLog(trackers, events)
    with nothing_on_stdout():
        try:
            yield lambda number, totals, more: log.log(
                tracked_run("serve", totals, settings, number, more)
            )
        finally:
            log.close(_LOGGED_WITHIN_S)
