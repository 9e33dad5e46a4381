"""`genrm score`: compute rewards for stored rollouts."""

import functools
import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from genrm_cli.cli.console import (
    nothing_on_stdout,
    print_json,
    say,
    say_error,
    showing_progress,
    text_of,
)
from genrm_cli.cli.events import Events
from genrm_cli.cli.options import INTERRUPTED_TEXT, ROLLOUTS, Invocation, run_to_end
from genrm_cli.cli.served_models import with_served_models
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import GenrmError, UsageError, how_to_install
from genrm_cli.json_types import Record
from genrm_cli.settings import changed
from genrm_cli.settings.declare import setting
from genrm_cli.settings.resolve import Origin

# A refused flag imports this module, too: what a run needs is imported when it begins.
if TYPE_CHECKING:
    from genrm_cli.jobs.context import RunContext
    from genrm_cli.jobs.input_batch import BatchReport
    from genrm_cli.metrics.progress import RunProgress
    from genrm_cli.scored.run_record import RunTotals
    from genrm_cli.settings import Settings

# By default, Ray sends usage statistics to its developers each hour, prints notices, and tries for
# 15 minutes to join a cluster that is gone.
_QUIET_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_NUM_REDIS_GET_RETRIES": "3",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Where to score, if not in this process."""

    ray: str | None = setting(
        "Run on a Ray cluster. auto: join this machine's cluster, or start one; local: start one; "
        "HOST:PORT: join another. Requires the extra ray.",
        panel="Cluster",
        metavar="ADDRESS",
        only_with="use_journal, !shard",
    )
    ray_workers: int | None = setting(
        "Workers, each with a shard. Default: one on each node.",
        panel="Cluster",
        low=1,
        only_with="ray",
    )


def _scoring(cluster: ClusterOptions) -> "Callable[..., Coroutine[Any, Any, Any]]":
    """Return the function that scores inputs: in this process, or on a Ray cluster."""
    from genrm_cli.jobs.input_batch import score_inputs

    ray = cluster.ray
    if ray is None:
        return score_inputs
    os.environ.update({name: value for name, value in _QUIET_RAY.items() if name not in os.environ})
    try:
        from genrm_cli.products.cluster.score_on_cluster import score_on_cluster
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        raise UsageError(f"--ray requires the ray extra: {how_to_install('ray')}.") from error
    address = os.environ.get("RAY_ADDRESS") or "auto" if ray == "auto" else ray
    return functools.partial(score_on_cluster, address=address, workers=cluster.ray_workers)


def score(
    invocation: Invocation,
    cluster: ClusterOptions,
    rollouts: list[str] = ROLLOUTS,
    quick: bool = setting(
        "Score up to 30 groups as a trial. It recommends the mode, rings or repeats for the whole "
        "run, with its expected reliability and cost.",
        False,
        panel="Limits",
        only_with="!dry_run",
    ),
) -> int:
    """Score rollouts: compare the rollouts of each group in pairs, and write every line back with
    its reward.

    Also writes <stem>.metrics.json, <stem>.comparisons.jsonl and, if any line is bad,
    <stem>.rejects.jsonl, all of them at the end. Skips inputs that are up to date.

    Example: genrm score rollouts.jsonl --model my-genrm \\
      --base-url http://localhost:8000/v1

    Example: genrm score s3://bucket/rl/env/ --model judge --dry-run \\
      --base-url http://judge:8000/v1
    """
    from genrm_cli.cli.scoring.summary import outcome_text
    from genrm_cli.jobs.due.inputs import is_one_input
    from genrm_cli.jobs.input_batch import BatchReport
    from genrm_cli.metrics.progress import RunProgress

    whole = invocation.settings
    output = whole.output
    if quick and not is_one_input(rollouts):
        raise UsageError("--quick takes one file; name one.")
    settings = whole
    if quick:
        from genrm_cli.cli.scoring.trial import recommend, trial_settings

        settings = trial_settings(whole)
    if settings.input.min_age is None and sys.stderr.isatty():
        settings = changed(settings, min_age=0.0)  # a user is waiting, and sees what happens
    settings = _as_sessions(rollouts, settings)
    invocation = replace(invocation, settings=settings)
    report = BatchReport(
        alone=is_one_input(rollouts) or whole.input.together, keeps=output.json_output
    )
    progress = RunProgress()
    more: Record = {}
    recommended: dict[str, str] | None = None
    given = invocation.given
    if cluster.ray is not None:
        given.append(Origin("ray", cluster.ray, "flag"))
    try:
        if output.dry_run:
            more["plan"] = _show_plan(rollouts, report, invocation)
        else:
            _score(rollouts, report, progress, invocation, _scoring(cluster))
        if quick and report.last is not None and report.last.record is not None:
            record = report.last.record
            recommended = recommend(record, rollouts[0], whole, given, invocation.api_keys)
            more["recommendation"] = recommended
    except BrokenPipeError:
        say("genrm: done: stdout was closed before all lines were written; exit 0")
        raise
    except GenrmError as error:
        explained = with_served_models(error, settings.judge)
        report.end(explained)
        say_error(explained)
    except KeyboardInterrupt:
        report.interrupt()
        say_error(INTERRUPTED_TEXT)
    if output.json_output:
        print_json(report.as_dict() | more)
    is_watched = sys.stderr.isatty()
    # On a terminal, the last line is the command to paste; in a log, it is the outcome.
    if recommended is not None and not is_watched:
        say(recommended["next"])
    if "plan" not in more:
        say(outcome_text(report, progress.total()))
    written = None if report.last is None else report.last.record
    if recommended is not None and is_watched:
        say(recommended["next"])
    elif is_watched and report.alone and written is not None and not quick:
        from genrm_cli.cli.scoring.next_command import next_command

        say(*next_command(written, rollouts[0], given))
    return report.exit_code


def _as_sessions(rollouts: Sequence[str], settings: "Settings") -> "Settings":
    """Return the settings with those of `genrm collect` for what makes the reward, if the first
    line is a session's and the user did not say what makes it.
    """
    from genrm_cli.jobs.previews.first_line import format_of_first

    rewards = settings.rewards
    if rewards.components or rewards.total is not None or settings.input.response_field is not None:
        return settings
    if format_of_first(rollouts, settings) != "episode":
        return settings
    from genrm_cli.products.sessions.session_judge import judge_settings

    judged = judge_settings(settings, of_groups=True)
    if judged is None:
        return settings
    say(
        "sessions: compared in both orders, graded three times, and gated by the judge's grades of "
        "safety and constraints; [components] and [total] replace this"
    )
    return judged


def _score(
    rollouts: Sequence[str],
    report: "BatchReport",
    progress: "RunProgress",
    invocation: Invocation,
    scoring: "Callable[..., Coroutine[Any, Any, Any]]",
) -> None:
    """Score all inputs and show their summary. Raise the error that ended the run early, or that of
    a single input.
    """
    from genrm_cli.cli.scoring.summary import show_summary
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.due.decisions import Status
    from genrm_cli.jobs.due.inputs import is_one_input, output_places
    from genrm_cli.jobs.input_batch import FileEvent
    from genrm_cli.jobs.judging_session import PlanEvent
    from genrm_cli.products.tracking.log_run import RunLog, load_trackers, run_name, tracked_run

    settings = invocation.settings
    output = settings.output
    trackers = load_trackers(settings.tracking)
    is_streamed = is_one_input(rollouts) and output_places(rollouts[0], settings).metrics is None
    if is_streamed and output.json_output:
        raise UsageError(
            "--json and the scored lines both write to stdout; name an output file with -o."
        )
    with Events(output.log_json, FileEvent if report.alone else PlanEvent) as events:
        run = new_run(settings, invocation.api_keys, progress, events)
        with showing_progress(progress, events):
            run_to_end(scoring(rollouts, run, report=report))
        last = report.last
        if report.alone:
            if last is not None and last.status is not Status.CURRENT:
                report.totals = last.record
        elif report.counts[Status.SCORED]:
            report.totals = _totals(report, run)
        if report.totals is not None:
            show_summary(report.totals, settings)
        elif not report.alone or last is None:
            pass
        elif last.status is Status.CURRENT:
            say(
                f"{last.uri} is up to date ({text_of(last.reason)}): {last.output}; use --force to "
                "score it again"
            )
        elif report.fatal is None and last.status in (Status.ASKED, Status.SKIPPED):
            say(last.text())
        if trackers and report.totals is not None and report.counts[Status.SCORED]:
            with nothing_on_stdout():
                log = RunLog(trackers, events)
                log.log(tracked_run(run_name(rollouts), report.totals, settings))
                log.close()
        if (error := report.only_error) is not None:
            raise error


def _totals(report: "BatchReport", run: "RunContext") -> "RunTotals":
    from genrm_cli.scored.describe_run import run_totals

    elapsed_s = time.monotonic() - run.started_s
    return run_totals(run.settings, run.progress.total(), run.plan, report.judges, elapsed_s)


def _show_plan(rollouts: Sequence[str], report: "BatchReport", invocation: Invocation) -> Record:
    """Print the plan of each input as it is listed, and the total; return the total."""
    from genrm_cli.cli.scoring.preview_text import preview_lines, short_lines
    from genrm_cli.cli.scoring.summary import counts_text
    from genrm_cli.groups.check import check_settings
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.estimate import total_of
    from genrm_cli.jobs.previews.preview import iter_dry_run
    from genrm_cli.jobs.shards import shard_of

    settings = invocation.settings
    plans = []
    with Events(settings.output.log_json) as events:
        run = new_run(settings, invocation.api_keys, None, events)
        check_settings(settings)
        shard_of(settings)  # refuses a shard that does not exist
        for result, preview in iter_dry_run(rollouts, run):
            report.enter(result)
            parts = [text_of(result.text())]
            if preview is not None:
                plans.append(preview.plan)
                parts += preview_lines(preview) if report.alone else short_lines(preview)
            if not settings.output.json_output:
                print_parts(*parts)
    report.is_listed = True
    total = total_of(plans)
    in_total = f"; in total {total.text()}" if len(plans) > 1 else ""
    say(f"genrm: dry run: {counts_text(report)}{in_total}")
    return total.as_dict()
