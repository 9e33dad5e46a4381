"""`genrm score`: compute rewards for stored rollouts."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genrm_cli.cli.console import (
    add_row,
    counted,
    cut,
    new_table,
    number_text,
    print_json,
    print_text,
    say,
    say_error,
    say_warning,
    show,
    showing_progress,
    terminal_width,
)
from genrm_cli.cli.events import Events, file_text, plan_text, status_text
from genrm_cli.cli.options import ALL_PANELS, Invocation, run_to_end, say_endpoint_source, with_settings
from genrm_cli.errors import UsageError
from genrm_cli.metrics.progress import RunProgress
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.rollouts.views import BLANK, EXCLUDED, NOT_IN_TRIAL, WITH_MEDIA
from genrm_cli.settings import changed
from genrm_cli.storage.formats.location import sibling

if TYPE_CHECKING:
    from genrm_cli.jobs.batch import BatchReport
    from genrm_cli.jobs.context import RunContext

BASELINE_NOTICE = "judged by the built-in lexical baseline, not by a reward model: do not train on these rewards."
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

    Also writes <stem>.metrics.json, <stem>.comparisons.jsonl and <stem>.rejects.jsonl. All files appear together at
    the end, or none does. Outputs made from the same input with the same settings are up to date and are skipped.

    Example: genrm score rollouts.jsonl --base-url http://localhost:8000/v1 --model my-genrm

    Example: genrm score 's3://bucket/rl/env/' --output-template '{dir}/scored/{stem}.scored.jsonl' --dry-run
    """
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.batch import score_inputs
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.due.inputs import is_one_input

    settings, alone = invocation.settings, is_one_input(rollouts)
    if settings.input.min_age is None and sys.stderr.isatty():  # a person waits, and sees what happens
        settings = changed(settings, min_age=0.0)
    if alone:
        _refuse_two_products(rollouts[0], invocation)
    say_endpoint_source(invocation)
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
        raise UsageError("--json and the scored lines both write to stdout; name an output file with -o.")


def _lock(rollouts: Sequence[str], invocation: Invocation) -> contextlib.AbstractContextManager[None]:
    from genrm_cli.settings.resolve import state_folder
    from genrm_cli.storage.lock import locked

    settings = invocation.settings
    return locked(state_folder(), [*rollouts, settings.output.output or settings.output.output_template])


def _show_plan(rollouts: Sequence[str], run: "RunContext") -> int:
    """Print what a run would do with each input, as it is found."""
    from genrm_cli.jobs.batch import BatchReport
    from genrm_cli.jobs.preview.dry_run import iter_dry_run
    from genrm_cli.jobs.preview.estimate import total_of

    plan, costs = BatchReport(), []
    for result in iter_dry_run(rollouts, run):
        plan.enter(result, keep=run.settings.output.json_output)
        cost = "" if result.plan is None else f"\n  {plan_text(result.plan)}"
        costs += [] if result.plan is None else [result.plan]
        if not run.settings.output.json_output:
            print_text(file_text(result.as_dict()) + cost)
    plan.is_listed = True
    total = total_of(costs)
    if run.settings.output.json_output:
        print_json(plan.as_dict() | {"plan": total})
    if not run.settings.output.quiet:
        say(f"genrm: dry run: {_counts_text(plan)}" + (f"; in total {plan_text(total)}" if len(costs) > 1 else ""))
    return plan.exit_code


def _show_one(report: "BatchReport", metrics: RunMetrics, invocation: Invocation) -> int:
    """Show the result of the only input, or raise its error."""
    quiet, result = invocation.settings.output.quiet, report.last
    if report.fatal is not None:
        raise report.fatal
    if result is None:
        raise UsageError("no input given.")
    if result.error is not None and result.report is None:
        raise result.error
    if not quiet:
        if result.report is not None:
            _show_samples(result.report.samples, result.report.metrics["groups"])
            _show_summary(result.report.metrics)
        else:
            say(f"{result.uri} is up to date ({result.reason}): {result.output}; use --force to score it again")
    if invocation.settings.output.json_output:
        print_json(result.metrics or {})
    done = _done_text(report, metrics)
    if result.error is not None:
        if not quiet:
            result.error.add_note(done)  # printed after the error: the last line says how the run ended
        raise result.error
    if not quiet:
        say(done)
    return 0


def _show_all(report: "BatchReport", metrics: RunMetrics, invocation: Invocation) -> int:
    """Show the result of many inputs, each of which was reported when it was done."""
    settings = invocation.settings
    if settings.output.json_output:
        print_json(report.as_dict())
    if report.fatal is not None:
        say_error(str(report.fatal))
    if not settings.output.quiet:
        if settings.judge.judge is not None and metrics.groups_done:
            say_warning(BASELINE_NOTICE)
        say(_done_text(report, metrics))
    return report.exit_code


def _done_text(report: "BatchReport", metrics: RunMetrics) -> str:
    """Return how a run ended, in one line that is easy to find in a log."""
    verdicts = _verdicts_text(metrics.verdicts, metrics.journal_hits, metrics.failed, metrics.failures["not_asked"])
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    calls = counted(metrics.calls, "call")
    return f"genrm: done: {_counts_text(report)}; {verdicts}, {calls}; {now}; exit {report.exit_code}"


def _verdicts_text(verdicts: int, journal_hits: int, failed: int, not_asked: int) -> str:
    parts = [counted(verdicts, "verdict"), f"{journal_hits:,} from the journal", counted(failed - not_asked, "failure")]
    return ", ".join([*parts, *([f"{not_asked:,} not asked"] if not_asked else [])])


def _counts_text(report: "BatchReport") -> str:
    counts = ", ".join(f"{count} {status_text(status)}" for status, count in report.counts.items())
    more = " (stopped before listing all)" if report.fatal is not None and not report.is_listed else ""
    return f"{counted(report.counts.total(), 'file')}: {counts or 'nothing to do'}{more}"


def _show_samples(samples: list[dict[str, Any]], groups: int) -> None:
    """Show the rewards of the first groups."""
    if not samples:
        return
    table = new_table("group", "reward", "rank", "advantage", "answer")
    table.columns[-1].justify = "left"
    # Cut by hand: Rich would squeeze out the numbers instead of the texts.
    group_width = min(_MAX_GROUP_WIDTH, max(len(sample["group"]) for sample in samples))
    width = max(20, terminal_width() - group_width - _NUMBERS_WIDTH)
    previous = None
    for sample in samples:
        key = sample["group"] if sample["group"] != previous else ""
        if key and previous is not None:
            add_row(table)
        previous = sample["group"]
        numbers = ["-", "-", "-"]
        if sample["reward"] is not None:
            numbers = [f"{sample['reward']:.3f}", str(sample["rank"]), f"{sample['advantage']:+.2f}"]
        add_row(table, cut(key, group_width), *numbers, cut(sample["reason"] or sample["answer"], width))
    show(table)
    shown_groups = len({sample["group"] for sample in samples})
    if groups > shown_groups:
        say(f"... and {counted(groups - shown_groups, 'more group')}")


def _show_summary(metrics: dict[str, Any]) -> None:
    """Show counts, rewards, warnings and the paths of the outputs."""
    for line in _summary_lines(metrics):
        say(line)
    if metrics["components"]:
        _show_components(metrics)
    for warning in _warnings(metrics):
        say_warning(warning)
    if metrics["output_mark"] is None:
        return
    output = metrics["output"]
    say(f"scored lines  {output}")
    say(f"metrics       {sibling(output, '.metrics.json')}")
    say(f"comparisons   {sibling(output, '.comparisons.jsonl')}")
    if metrics["journal"] is not None:
        say(f"journal       {metrics['journal']}")
    if metrics["rejected_lines"]:
        say(f"rejects       {sibling(output, '.rejects.jsonl')}")


def _summary_lines(metrics: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{counted(metrics['rollouts'], 'rollout')} in {counted(metrics['groups'], 'group')}: "
        f"{metrics['scored']} scored, {metrics['single']} single, {metrics['unscored']} unscored, "
        f"{counted(metrics['rejected_lines'], 'rejected line')}"
    )
    not_asked = metrics["failures_by_kind"].get("not_asked", 0)
    verdicts = _verdicts_text(metrics["verdicts"], metrics["journal_hits"], metrics["failures"], not_asked)
    yield (
        f"{verdicts} of {counted(metrics['comparisons_planned'], 'comparison')} in {metrics['wall_time_s']:.1f} s; "
        f"{counted(metrics['calls'], 'call')}, {metrics['retries']} retries, "
        f"{metrics['prompt_tokens'] + metrics['completion_tokens']} tokens"
    )
    reward, reliability = metrics["reward"], metrics["reliability"]
    if reward["count"]:
        yield (
            f"reward mean {reward['mean']:.3f}, std {reward['std']:.3f}, min {reward['min']:.3f}, "
            f"max {reward['max']:.3f}; {counted(metrics['groups_without_spread'], 'group')} without spread"
        )
    if reliability["count"]:
        yield (
            f"reliability mean {reliability['mean']:.2f}; more noise than signal in {metrics['groups_noisy']} of "
            f"{counted(reliability['count'], 'group')}"
        )
    if metrics["pairs_in_both_orders"]:
        yield f"{counted(metrics['pairs_in_both_orders'], 'pair')} in both orders, flip rate {metrics['flip_rate']:.1%}"
    if metrics["repeat_agreement"] is not None:
        yield f"repeats agree in {metrics['repeat_agreement']:.1%} of their pairs"


def _show_components(metrics: dict[str, Any]) -> None:
    """Show the spread of each component, the share of groups in which it varies, and the sources of rewards."""
    table = new_table("component", "mean", "std", "min", "max", "missing", "varies", "corr.")
    for name, component in metrics["components"].items():
        numbers = [number_text(component[key], ".2f") for key in ("mean", "std", "min", "max")]
        varies = number_text(component["discriminating_share"], ".0%")
        correlation = number_text(component["correlation_with_total"], ".2f")
        add_row(table, cut(name, _MAX_GROUP_WIDTH), *numbers, str(component["missing"]), varies, correlation)
    show(table)
    if "win_rate" in metrics["components"] and metrics["strategy"] != "all_pairs":
        say(f"win_rate is wins / comparisons judged; --strategy {metrics['strategy']} does not judge all pairs")
    if metrics["reward_sources"]:
        parts = ", ".join(f"{share:.0%} {source}" for source, share in metrics["reward_sources"].items())
        gated = f"; {counted(metrics['gated'], 'reward')} set to 0 by a gate" if metrics["gated"] else ""
        say(f"rewards come from: {parts}{gated}; judgements are advisory")


def _consistency_warnings(metrics: dict[str, Any]) -> Iterator[str]:
    """Yield a warning if groups are too small for a share of agreeing responses to mean much."""
    sources = (metrics["reward_made_of"] or {}).get("components", {})
    names = [name for name, source in sources.items() if source == "responses"]
    small = sum(count for size, count in metrics["group_sizes"].items() if 1 < int(size) < _FEW_FOR_CONSISTENCY)
    if names and small:
        few = f"fewer than {_FEW_FOR_CONSISTENCY} rollouts"
        yield f"{names[0]} means little in groups of {few}; {counted(small, 'group')} of that size."


def _content_warnings(metrics: dict[str, Any]) -> Iterator[str]:
    """Yield what keeps rollouts from being compared, and what a judge does not see of others."""
    if blank := metrics["blank_responses"]:
        yield f"{counted(blank, 'response')} {_are(blank)} blank: nothing for the judge to see."
    if truncated := metrics["truncated_responses"]:
        yield f"{counted(truncated, 'response')} {_are(truncated)} truncated by a token, turn or time limit."
    if left_out := metrics["groups_left_out"]:
        yield (
            f"a trial (--limit {metrics['limit']}): {counted(left_out, 'group')} not scored. "
            "Run without --limit for the rest; verdicts in the journal are reused."
        )
    for reason, count in metrics["unscored_reasons"].items():
        if reason not in (BLANK, EXCLUDED + NOT_IN_TRIAL):
            yield f"{counted(count, 'rollout')} unscored: {reason}."
    media, reasons = metrics["rollouts_with_media"], metrics["unscored_reasons"]
    if media and not any(reason.startswith(WITH_MEDIA) for reason in reasons):
        yield f"{counted(media, 'rollout')} with media that the judge does not see (--ignore-media)."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _warnings(metrics: dict[str, Any]) -> Iterator[str]:
    if metrics["judge"]["stand_in"]:
        yield BASELINE_NOTICE
    if not metrics["rollouts"]:
        yield "the input holds no rollouts."
    elif not metrics["comparisons_planned"] and not metrics["components"]:
        yield "nothing to compare: no group has two rollouts with a response to the same prompt."
    for kind, count in metrics["failures_by_kind"].items():
        example = metrics["failure_examples"].get(kind, "")
        failed = "not asked." if kind == "not_asked" else f"failed: {kind} (for example: {example})."
        yield f"{counted(count, 'comparison')} {failed}"
    yield from _content_warnings(metrics)
    for name, component in (metrics["components"] or {}).items():
        if not component["count"]:
            yield f"the component {name} has no value in any rollout; check its table."
    if metrics["gated"] and metrics["gated"] == metrics["reward"]["count"]:
        yield "a gate sets every reward to 0; check the range of its component."
    for name, count in metrics["component_failures"].items():
        yield f"the component {name} failed in {counted(count, 'group')}; see component_failures in the scored lines."
    yield from _consistency_warnings(metrics)
    if metrics["min_reliability"] is not None and (unknown := metrics["groups_of_unknown_reliability"]):
        yield f"--min-reliability kept {counted(unknown, 'group')} of unknown reliability: too few verdicts."
    if metrics["estimator"] == "combined_fitted" and not metrics["weights_fitted"]:
        yield "too few groups to fit weights to the judge: combined_fitted used those of combined."
    if metrics["groups_not_converged"]:
        yield f"the estimator did not converge in {counted(metrics['groups_not_converged'], 'group')}."
    for name, count in metrics["redactions"].items():
        yield f"{count:,} matches of {name} masked in texts sent to the judge."
    if metrics["duplicate_rollouts"]:
        yield f"{counted(metrics['duplicate_rollouts'], 'duplicate rollout')} (same group and rollout index)."
    if metrics["rewards_on_defaults"]:
        yield f"{counted(metrics['rewards_on_defaults'], 'reward')} based on default scores (--compat nemo-gym)."
