"""`genrm serve`: rewards over HTTP."""

import os
from typing import Annotated

import typer

from genrm_cli.cli.console import say
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import Invocation, run_to_end, say_endpoint_source, with_settings
from genrm_cli.errors import UsageError
from genrm_cli.settings.sources.keys import find_token

_OMITTED = (
    *("output", "output_template", "overwrite", "dry_run", "unscored", "max_unscored", "parallel_files"),
    *("deadline", "budget", "only_components", "only_failed", "json_output", "limit", "segment_calls", "segment_age"),
)
_SEVERAL_WORKERS = (
    "{source}: genrm serve runs as one process, because one process owns the cohorts. To use more, start several "
    "servers on ports of their own, and send all requests of a group to one of them: by a hash of the group id, in the "
    "client or in the proxy (nginx: `hash $group_id consistent;`)."
)


@with_settings("Server", "Pairs", "Judge", "Limits", "Journal", "Rewards", "Output", "Storage", omit=_OMITTED)
def serve(
    invocation: Invocation,
    workers: Annotated[int, typer.Option("--workers", hidden=True)] = 1,
) -> int:
    """Serve rewards to running trainers over HTTP.

    Example: genrm serve --base-url http://localhost:8000/v1 --model my-genrm

    Example: genrm serve --offline --listen 127.0.0.1:8330
    """
    _refuse_several_workers(workers)
    try:
        from genrm_cli.serve.run import serve as serve_until_stopped
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "prometheus_client"):
            raise
        raise UsageError(f"genrm serve needs {error.name}: pip install 'genrm-cli[serve]'.") from error
    settings = invocation.settings
    token = find_token(settings.serve.token_env)
    say_endpoint_source(invocation)
    with Events(settings.output.log_json, quiet=settings.output.quiet) as events:

        def say_ready(url: str) -> None:
            events("listening", {"url": url, "pid": os.getpid()})
            if not settings.output.quiet:
                say(f"genrm: listening on {url}")

        run_to_end(serve_until_stopped(settings, invocation.api_keys, token, events, say_ready))
    return 0


def _refuse_several_workers(workers: int) -> None:
    """Refuse what would split cohorts among processes."""
    concurrency = os.environ.get("WEB_CONCURRENCY", "1")
    if workers != 1:
        raise UsageError(_SEVERAL_WORKERS.format(source="--workers"))
    if concurrency.strip() not in ("", "0", "1"):
        raise UsageError(_SEVERAL_WORKERS.format(source="WEB_CONCURRENCY"))
