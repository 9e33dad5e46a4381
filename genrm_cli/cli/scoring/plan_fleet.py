"""`genrm plan`: what a run would cost, and how long fleets of workers would take, before anything is paid."""

from typing import Annotated, Any

import typer

from genrm_cli.cli.console import add_row, counted, new_table, print_json, print_table, print_text
from genrm_cli.cli.events import Events, plan_text
from genrm_cli.cli.options import Invocation, option, with_settings
from genrm_cli.errors import InputError, UsageError
from genrm_cli.settings import Settings, changed
from genrm_cli.settings.convert import parse_duration_s

_OMITTED = ("min_age", "shard", "conclude", "dry_run", "keep_replies", "lock", "lease_expiry", "leases")
_MAX_WORKERS = 100_000
_MINUTE_S, _HOUR_S = 60, 3_600


@with_settings("Input", "Pairs", "Judge", "Limits", "Journal", "Output", "Storage", omit=_OMITTED)
def plan(
    rollouts: Annotated[
        list[str],
        typer.Argument(
            metavar="ROLLOUTS",
            help="JSONL files (.gz, .zst too), folders, s3://bucket/key, s3://bucket/prefix/, patterns.",
        ),
    ],
    invocation: Invocation,
    workers: Annotated[
        list[int] | None,
        option("N", "Number of workers, as in --shard I/N. Repeatable. Default: 1, 2, 4, 8.", "--workers"),
    ] = None,
    latency: Annotated[str | None, option("DURATION", "Mean latency of a call, for example 4s.", "--latency")] = None,
    measured: Annotated[
        str | None,
        option("FILE", "Metrics (*.metrics.json) of an earlier run, for its latency and pace.", "--measured"),
    ] = None,
) -> int:
    """Show calls, tokens, cost, slots and time of a run for different numbers of workers.

    Example: genrm plan rollouts.jsonl --base-url http://localhost:8000/v1 --model my-genrm --measured last.metrics.json
    """
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.preview.fleet import LatencyEstimate, latency_of, plan_fleets, slots_of

    settings = changed(invocation.settings, min_age=0.0)  # nothing is read for good
    sizes = sorted(set(workers or (1, 2, 4, 8)))
    if not 0 < sizes[0] <= sizes[-1] <= _MAX_WORKERS:
        raise UsageError(f"--workers: a fleet has 1 to {_MAX_WORKERS:,} workers.")
    check_settings(settings)
    recorded = None if measured is None else _metrics_in(measured, settings)
    mean_s = None if latency is None else parse_duration_s(latency)
    if mean_s:
        estimate = LatencyEstimate(mean_s)
    elif latency is not None:
        raise UsageError(f"--latency: {latency!r} is not a duration, such as 4s or 800ms.")
    elif recorded is not None:
        estimate = latency_of(recorded, str(measured))
    else:
        raise UsageError("the latency of a call is not known; pass --latency, or --measured with metrics of a run.")
    with Events(settings.output.log_json, quiet=settings.output.quiet) as events:
        run = new_run(settings, invocation.api_keys, None, events)
        found = plan_fleets(rollouts, run, sizes, estimate, slots_of(settings, recorded, estimate))
    if settings.output.json_output:
        print_json(found)
    else:
        _print_plan(found)
    return 0


def _metrics_in(uri: str, settings: Settings) -> dict[str, Any]:
    from genrm_cli.storage.encoding.records import BadLineError, parse_record
    from genrm_cli.storage.location import S3Options
    from genrm_cli.storage.objects import read_object

    storage = settings.storage
    content = read_object(uri, S3Options(storage.s3_endpoint_url, storage.s3_profile, storage.s3_region))
    if content is None:
        raise InputError(f"{uri}: no such file; --measured takes the *.metrics.json of a run.")
    try:
        return parse_record(content)
    except BadLineError as error:
        raise InputError(f"{uri}: {error}; --measured takes the *.metrics.json of a run.") from error


def _print_plan(found: dict[str, Any]) -> None:
    print_text(f"{counted(found['rollouts'], 'rollout')}; {plan_text(found)}")
    print_text(
        f"{counted(found['slots'], 'slot')} in all, {found['latency_s']:g} s a call ({found['latency_from']}); "
        f"reading the input takes {_time_text(found['read_s'])} here, and as long to conclude shards"
    )
    table = new_table("workers", "largest shard", "asking", "in all", texts=0)
    for fleet in found["fleets"]:
        cells = (f"{fleet['workers']:,}", f"{fleet['largest_shard_calls']:,} calls")
        add_row(table, *cells, _time_text(fleet["ask_s"]), _time_text(fleet["total_s"]))
    print_table(table)


def _time_text(time_s: float) -> str:
    if time_s < _MINUTE_S:
        return f"{time_s:.1f} s"
    return f"{time_s / _MINUTE_S:.1f} min" if time_s < _HOUR_S else f"{time_s / _HOUR_S:.1f} h"
