"""`genrm validate`: what is in an input and what a run would ask, without calling a judge."""

from typing import Annotated, Any

import typer

from genrm_cli.cli.console import showing_progress
from genrm_cli.cli.events import Events, plan_text
from genrm_cli.cli.options import Invocation, with_settings
from genrm_cli.errors import InputError
from genrm_cli.metrics.progress import RunProgress

_SHOWN_PROBLEMS = 20


_NOT_FOR_A_LOOK = (
    *("min_age", "parallel_files", "segment_calls", "segment_age", "overwrite", "dry_run", "keep_replies"),
    *("leases", "lease_expiry", "lock"),
)


@with_settings("Input", "Pairs", "Judge", "Limits", "Journal", "Output", "Storage", leave_out=_NOT_FOR_A_LOOK)
def validate(
    rollouts: Annotated[
        str,
        typer.Argument(metavar="ROLLOUTS", help="A JSONL file (.gz, .zst too), s3://bucket/key, or - for stdin."),
    ],
    invocation: Invocation,
) -> int:
    """Look at rollouts without calling a judge: dialects, groups and their sizes, problems, comparisons.

    Exit code 0 even if there are problems, unless --strict is given.

    Example: genrm validate rollouts.jsonl --strategy all_pairs
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.validate import validate_input

    settings = invocation.settings
    progress = RunProgress()
    with (
        Events(settings.output.log_json, quiet=settings.output.quiet) as events,
        showing_progress(progress, events, quiet=settings.output.quiet),
    ):
        report = validate_input(rollouts, new_run(settings, progress=progress, on_event=events))
    if settings.output.json_output:
        from genrm_cli.storage.formats.records import render_record

        typer.echo(render_record(report), nl=False)
    else:
        _print_report(report)
    # `genrm score --strict` refuses these; groups with mixed prompts are unscored, not refused.
    bad, duplicates = report["rejected_lines"], report["duplicate_rollouts"]
    if settings.input.strict and (bad or duplicates):
        raise InputError(f"{rollouts}: {bad} bad lines and {duplicates} duplicate rollouts, refused by --strict.")
    return 0


def _print_report(report: dict[str, Any]) -> None:
    sizes = ", ".join(f"{count} of {size}" for size, count in report["group_sizes"].items()) or "none"
    dialects = ", ".join(f"{name} ({count} lines)" for name, count in report["dialects"].items()) or "none"
    typer.echo(f"input        {report['input']}")
    typer.echo(f"lines        {report['lines']}, {report['rejected_lines']} of them rejected")
    typer.echo(f"dialects     {dialects}")
    typer.echo(f"rollouts     {report['rollouts']}, {report['rollouts_without_response']} of them without a response")
    typer.echo(f"groups       {report['groups']} (by size: {sizes})")
    typer.echo(f"comparisons  {report['comparisons']} with {report['strategy']} × {report['repeats']}")
    typer.echo(f"plan         {plan_text(report['plan'])}")
    typer.echo(f"requests     {report['requests_max']} at most, if every reply had to be asked for again")
    typer.echo(f"problems     {report['problem_count']}")
    for problem in report["problems"][:_SHOWN_PROBLEMS]:
        typer.echo(f"  {problem}")
    if report["problem_count"] > _SHOWN_PROBLEMS:
        typer.echo(f"  and {report['problem_count'] - _SHOWN_PROBLEMS} more")
