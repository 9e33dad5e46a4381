"""`genrm serve`: rewards over HTTP."""

import os

from genrm_cli.cli.console import say
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import Invocation, run_to_end, say_endpoint_source, with_settings
from genrm_cli.errors import UsageError

_OMITTED = (
    *("output", "output_template", "overwrite", "dry_run", "unscored", "max_unscored", "parallel_files"),
    *("deadline", "budget", "only_components", "only_failed", "json_output", "limit", "segment_calls", "segment_age"),
)


@with_settings("Server", "Pairs", "Judge", "Limits", "Journal", "Rewards", "Output", "Storage", omit=_OMITTED)
def serve(invocation: Invocation) -> int:
    """Serve rewards to running trainers over HTTP.

    Example: genrm serve --base-url http://localhost:8000/v1 --model my-genrm

    Example: genrm serve --offline --listen 127.0.0.1:8330
    """
    try:
        from genrm_cli.serve.run import serve as serve_until_stopped
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "prometheus_client"):
            raise
        raise UsageError(f"genrm serve needs {error.name}: pip install 'genrm-cli[serve]'.") from error
    settings = invocation.settings
    say_endpoint_source(invocation)
    with Events(settings.output.log_json, quiet=settings.output.quiet) as events:

        def say_ready(url: str) -> None:
            events("listening", {"url": url, "pid": os.getpid()})
            if not settings.output.quiet:
                say(f"genrm: listening on {url}")

        run_to_end(serve_until_stopped(settings, invocation.api_keys, events, say_ready))
    return 0
