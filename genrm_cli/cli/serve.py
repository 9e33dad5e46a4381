"""`genrm serve`: rewards over HTTP."""

import os
from collections.abc import Callable
from typing import Annotated

from genrm_cli.catalog import SELF_TESTS
from genrm_cli.cli.console import say
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import (
    ALL_PANELS,
    Invocation,
    option,
    run_to_end,
    say_endpoint_source,
    with_settings,
)
from genrm_cli.cli.sessions.host import ClientOptions, HostOptions, host
from genrm_cli.errors import UsageError, naming
from genrm_cli.settings.sources.keys import find_token

Tell = Callable[[str], None]

_ALL = "all"

_OMITTED = (
    *(
        "format",
        "group_by",
        "prompt_field",
        "response_field",
        "id_field",
        "max_line_bytes",
        "max_unpacked",
        "strict",
    ),
    *("min_age", "require_metadata", "leases", "lease_expiry"),
    *("requests_to", "requests_per_file", "replies_from", "batch", "batch_wait", "batch_discount"),
    *("output", "output_template", "force", "dry_run", "max_unscored", "parallel_files"),
    *(
        "deadline",
        "budget",
        "only_components",
        "only_failed",
        "json_output",
        "limit",
        "segment_calls",
        "segment_age",
    ),
)


@with_settings(*ALL_PANELS, omit=_OMITTED)
def serve(
    invocation: Invocation,
    client: ClientOptions,
    hosted: HostOptions,
    self_test: Annotated[
        list[str] | None,
        option(
            "|".join((*SELF_TESTS, _ALL)),
            "Send a made-up cohort through the shape of this trainer, check the replies, and "
            "exit; repeatable.",
        ),
    ] = None,
    self_test_url: Annotated[
        str | None,
        option(
            "URL",
            "Test the server that runs here. Default: start one on a free port, and keep nothing.",
        ),
    ] = None,
) -> int:
    """Serve rewards to running trainers over HTTP.

    Example: genrm serve --base-url http://localhost:8000/v1 --model my-genrm

    Example: genrm serve --base-url http://localhost:8000/v1 --model my-genrm --self-test all

    Example: genrm serve --offline --listen 127.0.0.1:8330

    Example: genrm serve --environment therapeutic_session
    """
    try:
        from genrm_cli.serve.run import serve as serve_until_stopped
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "prometheus_client"):
            raise
        raise UsageError(
            f"genrm serve needs {error.name}: pip install 'genrm-cli[serve]'."
        ) from error
    settings = invocation.settings
    keys = invocation.api_keys
    tell = (lambda text: None) if settings.output.quiet else say
    token = find_token()
    is_tested = bool(self_test) or self_test_url is not None
    log_only = ("judge",) if hosted.environment is not None else ()
    with Events(settings.output.log_json, quiet=settings.output.quiet, log_only=log_only) as events:

        def say_ready(url: str) -> None:
            events("listening", {"url": url, "pid": os.getpid()})
            tell(f"genrm: listening on {url}")

        if is_tested:
            _test_itself(invocation, self_test, self_test_url, token, events, tell)
        elif hosted.environment is not None:
            host(settings, hosted, client, token, events, say_ready)
        else:
            given = (client.client_base_url, client.client_model, hosted.max_turns)
            if any(given) or hosted.scenarios != "samples":
                raise UsageError(
                    naming(
                        "$scenarios, $client_base_url, $client_model and $max_turns need "
                        "$environment."
                    )
                )
            say_endpoint_source(invocation)
            run_to_end(serve_until_stopped(settings, keys, token, events, say_ready))
    return 0


def _test_itself(
    invocation: Invocation,
    named: list[str] | None,
    url: str | None,
    token: str | None,
    events: Events,
    tell: Tell,
) -> None:
    from genrm_cli.serve.self_test import probe_own_server, probe_server

    if unknown := sorted({*(named or ["(not given)"])} - {*SELF_TESTS, _ALL}):
        raise UsageError(
            f"--self-test {unknown[0]}: expected one of {', '.join((*SELF_TESTS, _ALL))}."
        )
    trainers = [each for each in SELF_TESTS if {each, _ALL} & {*(named or ())}]

    def say_check(claim: str) -> None:
        tell(f"ok  {claim}")

    if url is not None:
        run_to_end(probe_server(trainers, url, token, say_check))
    else:
        run_to_end(
            probe_own_server(
                trainers, invocation.settings, invocation.api_keys, token, events, say_check
            )
        )
    tell(f"genrm: rewards reach {', '.join(trainers)} as needed")
