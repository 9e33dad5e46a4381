"""`genrm score`: rewards for stored rollouts."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from genrm_cli.cli.console import say, say_error, say_warning, show, showing_progress, stderr_console
from genrm_cli.cli.events import Events, file_text
from genrm_cli.cli.options import ALL_PANELS, Invocation, with_settings
from genrm_cli.errors import UsageError
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.storage.formats.location import sibling

if TYPE_CHECKING:
    from genrm_cli.jobs.batch import BatchReport
    from genrm_cli.jobs.context import RunContext

STAND_IN_NOTICE = "judged by the embedded lexical stand-in, not by a reward model: do not train on these rewards."
_FEW_FOR_CONSISTENCY = 8
_MAX_GROUP_WIDTH, _NUMBERS_WIDTH = 24, 28


@with_settings(*ALL_PANELS)
def score(
    rollouts: Annotated[
        list[str],
        typer.Argument(
            metavar="ROLLOUTS...",
            help="JSONL files (.gz, .zst too), folders, s3://bucket/key, s3://bucket/prefix/, patterns; - for stdin.",
        ),
    ],
    invocation: Invocation,
) -> int:
    """Score rollouts: compare those of each group in pairs and write every line back with its reward.

    Beside the scored lines come <stem>.metrics.json, <stem>.comparisons.jsonl and <stem>.rejects.jsonl; all of
    them appear together at the end, or none. What was scored before, from the same input with the same settings, is
    up to date and left alone.

    Example: genrm score rollouts.jsonl --base-url http://localhost:8000/v1 --model my-genrm

    Example: genrm score 's3://bucket/rl/env/' --output-template '{dir}/scored/{stem}.scored.jsonl' --dry-run
    """
    from genrm_cli.cli.event_loop import run_to_end
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.batch import score_inputs
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.due.inputs import is_one_input

    settings, alone = invocation.settings, is_one_input(rollouts)
    if alone:
        _refuse_two_products(rollouts[0], invocation)
    progress = RunProgress()
    with contextlib.ExitStack() as stack:
        if settings.storage.lock:
            stack.enter_context(_lock(rollouts, invocation))
        unsaid = ("file",) if alone else ("plan",)
        events = stack.enter_context(Events(settings.output.log_json, quiet=settings.output.quiet, unsaid=unsaid))
        run = new_run(settings, invocation.api_keys, progress, events)
        if settings.output.dry_run:
            check_settings(settings)
            return _show_plan(rollouts, run)
        with showing_progress(progress, events, quiet=settings.output.quiet):
            report = run_to_end(score_inputs(rollouts, run))
        show_report = _show_one if alone else _show_all
        return show_report(report, progress.total(), invocation)


def _refuse_two_products(uri: str, invocation: Invocation) -> None:
    from genrm_cli.jobs.due.inputs import output_places

    if invocation.settings.output.json_output and output_places(uri, invocation.settings).metrics is None:
        raise UsageError("--json and scored lines both want stdout; name an output file with -o.")


def _lock(rollouts: Sequence[str], invocation: Invocation) -> contextlib.AbstractContextManager[None]:
    from genrm_cli.settings.resolve import state_folder
    from genrm_cli.storage.lock import locked

    settings = invocation.settings
    return locked(state_folder(), [*rollouts, settings.output.output or settings.output.output_template])


def _show_plan(rollouts: Sequence[str], run: "RunContext") -> int:
    """Print what would be done with each input, as it is found."""
    from genrm_cli.jobs.batch import BatchReport
    from genrm_cli.jobs.due.planning import plan_inputs

    plan = BatchReport()
    for result in plan_inputs(rollouts, run):
        plan.enter(result, keep=run.settings.output.json_output)
        if not run.settings.output.json_output:
            typer.echo(file_text(result.as_dict()))
    plan.is_listed = True
    if run.settings.output.json_output:
        _print_json(plan.as_dict())
    if not run.settings.output.quiet:
        say(f"genrm: dry run: {_counts_text(plan)}")
    return plan.exit_code


def _show_one(report: "BatchReport", metrics: RunMetrics, invocation: Invocation) -> int:
    """Show what became of the only input; what stopped it is raised."""
    settings, result = invocation.settings, report.last
    if report.fatal is not None:
        raise report.fatal
    if result is None:
        raise UsageError("there is no input.")
    if result.error is not None and result.report is None:
        raise result.error
    if not settings.output.quiet:
        if result.report is not None:
            _show_samples(result.report.samples, result.report.metrics["groups"])
            _show_summary(result.report.metrics)
        else:
            say(f"{result.uri} is up to date ({result.reason}): {result.output}; --force scores it again")
        say(_done_text(report, metrics))
    if settings.output.json_output:
        _print_json(result.metrics or {})
    if result.error is not None:
        raise result.error
    return 0


def _show_all(report: "BatchReport", metrics: RunMetrics, invocation: Invocation) -> int:
    """Show what became of many inputs; each has had its line already."""
    settings = invocation.settings
    if settings.output.json_output:
        _print_json(report.as_dict())
    if report.fatal is not None:
        say_error(str(report.fatal))
    if not settings.output.quiet:
        if settings.judge.judge is not None and metrics.groups_done:
            say_warning(STAND_IN_NOTICE)
        say(_done_text(report, metrics))
    return report.exit_code


def _done_text(report: "BatchReport", metrics: RunMetrics) -> str:
    """Say in one line, that a search in a log finds, how a run ended."""
    not_asked = metrics.failures["not_asked"]
    parts = [
        f"{metrics.verdicts} verdicts",
        f"{metrics.journal_hits} more from the journal",
        f"{metrics.failed - not_asked} failures",
        *([f"{not_asked} not asked"] if not_asked else []),
        f"{metrics.calls} calls",
    ]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"genrm: done: {_counts_text(report)}; {', '.join(parts)}; {now}; exit {report.exit_code}"


def _counts_text(report: "BatchReport") -> str:
    counts = [f"{count} {status}" for status, count in report.counts.items()]
    files = report.counts.total()
    unfinished = " (more were not looked for)" if report.fatal is not None and not report.is_listed else ""
    return f"{files} file{'' if files == 1 else 's'}: {', '.join(counts) or 'nothing to do'}{unfinished}"


def _print_json(value: dict[str, Any]) -> None:
    from genrm_cli.storage.formats.records import render_record

    typer.echo(render_record(value), nl=False)


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


def _show_summary(metrics: dict[str, Any]) -> None:
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
    if metrics["reliability"]["count"]:
        say(
            f"reliability mean {metrics['reliability']['mean']:.2f}: {metrics['groups_noisy']} of "
            f"{metrics['reliability']['count']} groups are more noise than signal"
        )
    if metrics["pairs_in_both_orders"]:
        say(f"{metrics['pairs_in_both_orders']} pairs in both orders, flip rate {metrics['flip_rate']:.1%}")
    if metrics["repeat_agreement"] is not None:
        say(f"repeats agree in {metrics['repeat_agreement']:.1%} of their pairs")
    if metrics["components"]:
        _show_components(metrics)
    for warning in _warnings(metrics):
        say_warning(warning)
    if metrics["output_mark"] is not None:
        say(f"scored lines  {metrics['output']}")
        say(f"metrics       {sibling(metrics['output'], '.metrics.json')}")
        say(f"comparisons   {sibling(metrics['output'], '.comparisons.jsonl')}")
        if metrics["journal"] is not None:
            say(f"journal       {metrics['journal']}")
        if metrics["rejected_lines"]:
            say(f"rejects       {sibling(metrics['output'], '.rejects.jsonl')}")


def _show_components(metrics: dict[str, Any]) -> None:
    """Show what each component is like, in how many groups it tells rollouts apart, and where rewards come from."""
    table = Table(box=None, pad_edge=False)
    table.add_column("component", no_wrap=True, overflow="ellipsis")
    for name in ("mean", "std", "least", "most", "missing", "varies", "corr."):
        table.add_column(name, justify="right", no_wrap=True, min_width=max(6, len(name)))
    for name, figures in metrics["components"].items():
        numbers = [_number(figures[key]) for key in ("mean", "std", "min", "max")]
        share, with_reward = figures["discriminating_share"], _number(figures["correlation_with_total"])
        varies = "-" if share is None else f"{share:.0%}"
        table.add_row(Text(name[:_MAX_GROUP_WIDTH]), *numbers, str(figures["missing"]), varies, with_reward)
    show(table)
    if "win_rate" in metrics["components"] and metrics["strategy"] != "all_pairs":
        say(f"win_rate is wins / comparisons judged, which with --strategy {metrics['strategy']} are not all pairs")
    if metrics["reward_sources"]:
        parts = ", ".join(f"{share:.0%} {source}" for source, share in metrics["reward_sources"].items())
        gated = f"; {metrics['gated']} rewards are 0 by a gate" if metrics["gated"] else ""
        say(f"rewards come from: {parts}{gated}; judgements are advisory")


def _small_for_consistency(metrics: dict[str, Any]) -> str | None:
    """Say that a share of agreeing responses means little where there are few of them; None if it does not."""
    sources = (metrics["reward_made_of"] or {}).get("components", {})
    names = [name for name, source in sources.items() if source == "responses"]
    small = sum(count for size, count in metrics["group_sizes"].items() if 1 < int(size) < _FEW_FOR_CONSISTENCY)
    if not names or not small:
        return None
    return f"{names[0]} means little in groups of fewer than {_FEW_FOR_CONSISTENCY} rollouts; {small} are that small."


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _warnings(metrics: dict[str, Any]) -> list[str]:
    warnings = []
    if metrics["judge"]["stand_in"]:
        warnings.append(STAND_IN_NOTICE)
    if not metrics["rollouts"]:
        warnings.append("the input holds no rollouts.")
    elif not metrics["comparisons_planned"] and not metrics["components"]:
        warnings.append("nothing could be compared: no group has two rollouts with a response to one prompt.")
    for kind, count in metrics["failures_by_kind"].items():
        example = metrics["failure_examples"].get(kind, "")
        failed = f"failed: {kind} (for instance: {example})."
        warnings.append(f"{count} comparisons " + ("were not asked." if kind == "not_asked" else failed))
    for reason, count in metrics["unscored_reasons"].items():
        warnings.append(f"{count} rollouts unscored: {reason}.")
    empty = [name for name, figures in (metrics["components"] or {}).items() if not figures["count"]]
    warnings += [f"the component {name} has no value in any rollout; check its table." for name in empty]
    if metrics["gated"] and metrics["gated"] == metrics["reward"]["count"]:
        warnings.append("every reward is 0 by a gate; check what its component can reach.")
    for name, count in metrics["component_failures"].items():
        warnings.append(f"the component {name} failed in {count} groups; lines say why (component_failures).")
    if (small := _small_for_consistency(metrics)) is not None:
        warnings.append(small)
    if metrics["min_reliability"] is not None and metrics["groups_of_unknown_reliability"]:
        unknown = metrics["groups_of_unknown_reliability"]
        warnings.append(f"--min-reliability kept {unknown} groups: too little is known to tell signal from noise.")
    if metrics["estimator"] == "combined_fitted" and not metrics["weights_fitted"]:
        warnings.append("too few groups to fit weights to the judge: combined_fitted used those of combined.")
    if metrics["groups_not_converged"]:
        warnings.append(f"the estimator did not converge in {metrics['groups_not_converged']} groups.")
    for name, count in metrics["redactions"].items():
        warnings.append(f"{count} matches of {name} were masked before texts went to the judge.")
    if metrics["duplicate_rollouts"]:
        warnings.append(f"{metrics['duplicate_rollouts']} rollouts are there twice (same group and rollout index).")
    if metrics["rewards_on_defaults"]:
        warnings.append(f"{metrics['rewards_on_defaults']} rewards rest on default scores (--compat nemo-gym).")
    return warnings
