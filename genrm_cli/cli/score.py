"""`genrm score`: rewards for stored rollouts."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from genrm_cli.cli.console import say, say_warning, show, showing_progress, stderr_console
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import ALL_PANELS, Invocation, with_settings
from genrm_cli.errors import UsageError
from genrm_cli.summary import Tally

STAND_IN_NOTICE = "judged by the embedded lexical stand-in, not by a reward model: do not train on these rewards."
_MAX_GROUP_WIDTH, _NUMBERS_WIDTH = 24, 28


@with_settings(*ALL_PANELS)
def score(
    rollouts: Annotated[
        str,
        typer.Argument(metavar="ROLLOUTS", help="A JSONL file (.gz, .zst too), s3://bucket/key, or - for stdin."),
    ],
    invocation: Invocation,
) -> int:
    """Score rollouts: compare those of each group in pairs and write every line back with its reward.

    Beside the scored lines come <stem>.metrics.json, <stem>.comparisons.jsonl and <stem>.rejects.jsonl; all of
    them appear together at the end, or none.

    Example: genrm score rollouts.jsonl --base-url http://localhost:8000/v1 --model my-genrm
    """
    from genrm_cli.scoring.context import Run
    from genrm_cli.scoring.run import output_places, refuse_unscored, score_input

    settings = invocation.settings
    places = output_places(rollouts, settings)
    if settings.json_output and places.metrics is None:
        raise UsageError("--json and scored lines both want stdout; name an output file with -o.")
    tally = Tally()
    with (
        Events(settings.log_json, quiet=settings.quiet) as events,
        showing_progress(tally, events, quiet=settings.quiet),
    ):
        report = score_input(rollouts, Run(settings, invocation.api_key, tally, events))
    if not settings.quiet:
        _show_samples(report.samples, report.metrics["groups"])
        _show_summary(report.metrics, places)
    if settings.json_output:
        from genrm_cli.storage.records import render_record

        typer.echo(render_record(report.metrics), nl=False)
    refuse_unscored(tally, settings)
    return 0


def _show_samples(samples: list[dict[str, Any]], groups: int) -> None:
    """Show the rewards of the first groups."""
    if not samples:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("group", no_wrap=True)
    for name in ("reward", "rank", "advantage"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("answer", no_wrap=True)
    # Cut by hand: Rich would rather squeeze the numbers out than the texts.
    group_width = min(_MAX_GROUP_WIDTH, max(len(sample["group"]) for sample in samples))
    width = max(20, stderr_console().width - group_width - _NUMBERS_WIDTH)
    previous = None
    for sample in samples:
        key = sample["group"] if sample["group"] != previous else ""
        if key and previous is not None:
            table.add_row()
        previous = sample["group"]
        numbers = ["-", "-", "-"]
        if sample["reward"] is not None:
            numbers = [f"{sample['reward']:.3f}", str(sample["rank"]), f"{sample['advantage']:+.2f}"]
        shown = Text(sample["reason"] or sample["answer"])
        shown.truncate(width, overflow="ellipsis")
        group = Text(key)
        group.truncate(group_width, overflow="ellipsis")
        table.add_row(group, *numbers, shown)
    show(table)
    shown_groups = len({sample["group"] for sample in samples})
    if groups > shown_groups:
        say(f"... and {groups - shown_groups} more groups")


def _show_summary(metrics: dict[str, Any], places: Any) -> None:
    """Say what was done, what to look out for, and where the files are."""
    reward = metrics["reward"]
    say(
        f"{metrics['rollouts']} rollouts in {metrics['groups']} groups: {metrics['scored']} scored, "
        f"{metrics['single']} single, {metrics['unscored']} unscored, {metrics['rejected_lines']} rejected lines"
    )
    say(
        f"{metrics['verdicts']} verdicts, {metrics['journal_hits']} more from the journal, "
        f"{metrics['failures']} failures of {metrics['comparisons_planned']} comparisons in "
        f"{metrics['wall_time_s']:.1f} s; {metrics['calls']} calls, {metrics['retries']} retries, "
        f"{metrics['prompt_tokens'] + metrics['completion_tokens']} tokens"
    )
    if reward["count"]:
        say(
            f"reward mean {reward['mean']:.3f}, std {reward['std']:.3f}, min {reward['min']:.3f}, "
            f"max {reward['max']:.3f}; {metrics['groups_without_spread']} groups without spread"
        )
    for warning in _warnings(metrics):
        say_warning(warning)
    if places.metrics is not None:
        say(f"scored lines  {places.scored}")
        say(f"metrics       {places.metrics}")
        say(f"comparisons   {places.comparisons}")
        if metrics["journal"] is not None:
            say(f"journal       {metrics['journal']}")
        if metrics["rejected_lines"]:
            say(f"rejects       {places.rejects}")


def _warnings(metrics: dict[str, Any]) -> list[str]:
    warnings = []
    if metrics["judge"]["stand_in"]:
        warnings.append(STAND_IN_NOTICE)
    if not metrics["rollouts"]:
        warnings.append("the input holds no rollouts.")
    elif not metrics["comparisons_planned"]:
        warnings.append("nothing could be compared: no group has two rollouts with a response to one prompt.")
    for kind, count in metrics["failures_by_kind"].items():
        warnings.append(f"{count} comparisons " + ("were not asked." if kind == "not_asked" else f"failed: {kind}."))
    for reason, count in metrics["unscored_reasons"].items():
        warnings.append(f"{count} rollouts unscored: {reason}.")
    if metrics["duplicate_rollouts"]:
        warnings.append(f"{metrics['duplicate_rollouts']} rollouts are there twice (same group and rollout index).")
    if metrics["rewards_on_defaults"]:
        warnings.append(f"{metrics['rewards_on_defaults']} rewards rest on default scores (--compat nemo-gym).")
    return warnings
