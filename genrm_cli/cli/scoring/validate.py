"""`genrm validate`: check an input and show what a run would ask, without calling a judge."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from genrm_cli.cli.console import counted, print_json, print_text
from genrm_cli.cli.events import plan_text, watched
from genrm_cli.cli.options import Invocation, with_settings
from genrm_cli.errors import InputError

_SHOWN_PROBLEMS = 20
_OMITTED = (
    *("min_age", "parallel_files", "segment_calls", "segment_age", "overwrite", "dry_run", "keep_replies"),
    *("leases", "lease_expiry", "lock"),
)


@with_settings("Input", "Pairs", "Judge", "Limits", "Journal", "Output", "Storage", omit=_OMITTED)
def validate(
    rollouts: Annotated[
        str,
        typer.Argument(metavar="ROLLOUTS", help="A JSONL file (.gz, .zst too), s3://bucket/key, or - for stdin."),
    ],
    invocation: Invocation,
) -> int:
    """Check rollouts without calling a judge: input formats, blank and excluded responses, comparisons, problems.

    Exits with code 0 even if there are problems, unless --strict is given.

    Example: genrm validate rollouts.jsonl --strategy all_pairs
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.validate import validate_input

    settings = invocation.settings
    with watched(settings) as (progress, events):
        report = validate_input(rollouts, new_run(settings, progress=progress, on_event=events))
    if settings.output.json_output:
        print_json(report)
    else:
        _print_report(report)
    # `genrm score --strict` refuses these; groups with mixed prompts are unscored, not refused.
    bad, duplicates = report["rejected_lines"], report["duplicate_rollouts"]
    if settings.input.strict and (bad or duplicates):
        raise InputError(f"{rollouts}: {bad} invalid lines and {duplicates} duplicate rollouts, refused by --strict.")
    return 0


def _print_report(report: dict[str, Any]) -> None:
    sizes = ", ".join(f"{count} of {size}" for size, count in report["group_sizes"].items()) or "none"
    formats = ", ".join(f"{name} ({counted(count, 'line')})" for name, count in report["dialects"].items()) or "none"
    rows = {
        "input": report["input"],
        "lines": f"{report['lines']}, {report['rejected_lines']} of them rejected",
        "formats": formats,
        "rollouts": f"{report['rollouts']}, {report['rollouts_without_response']} of them without a response",
        "left out": ", ".join(_left_out(report)),
        "texts": ", ".join(_noted_texts(report)),
        "groups": f"{report['groups']} (by size: {sizes})",
        "view": ", ".join(f"{view} in {counted(count, 'group')}" for view, count in report["views"].items()),
        "comparisons": f"{report['comparisons']} with {report['strategy']} × {report['repeats']}",
        "plan": plan_text(report["plan"]),
        "requests": f"at most {report['requests_max']}, if every reply were unparsable",
        "problems": report["problem_count"],
    }
    for name, value in rows.items():
        if value != "":
            print_text(f"{name:<11}  {value}")
    for problem in report["problems"][:_SHOWN_PROBLEMS]:
        print_text(f"  {problem}")
    if report["problem_count"] > _SHOWN_PROBLEMS:
        print_text(f"  and {report['problem_count'] - _SHOWN_PROBLEMS} more")
    if (example := report["example"]) is not None:
        print_text(f"example      group {example['group']}, rollout {example['index']}, as a judge is shown it:")
        for line in example["text"].split("\n"):
            print_text(f"  | {line}")


def _left_out(report: dict[str, Any]) -> Iterator[str]:
    """Yield what is not compared, and why."""
    if report["blank_responses"]:
        yield counted(report["blank_responses"], "blank response")
    for reason, count in report["excluded_reasons"].items():
        yield f"{count:,} excluded ({reason})"
    if report["rollouts_with_media"]:
        yield f"{report['rollouts_with_media']:,} with media"


def _noted_texts(report: dict[str, Any]) -> Iterator[str]:
    if report["truncated_responses"]:
        yield f"{report['truncated_responses']:,} truncated"
    if report["stripped_tokens"]:
        yield f"{counted(report['stripped_tokens'], 'chat-template token')} stripped"
