"""The summary of a run of `genrm score`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from genrm_cli.cli.console import rate_text, render_flag, say, say_warning
from genrm_cli.cli.scoring.run_warnings import iter_warnings
from genrm_cli.errors import SettingRef, TooManyUnscoredError, WatchError, counted
from genrm_cli.judging.pacing.judge_events import describe_judge
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.group_measures import reliability_word
from genrm_cli.metrics.plan_reliability import remedy_text, unmeasured_text
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.storage.location import folder_of, sibling

if TYPE_CHECKING:
    from genrm_cli.jobs.input_batch import BatchReport
    from genrm_cli.scored.run_record import RunTotals
    from genrm_cli.settings import Settings

# Exit codes of runs whose outputs are all there.
_DONE = (0, TooManyUnscoredError.exit_code, WatchError.exit_code)
# The longest label, `comparisons`, and a gap.
_LABEL_WIDTH = 13


def show_summary(metrics: "RunTotals", settings: "Settings") -> None:
    """Show the results of a run over one input, or over many."""
    lines = list(_iter_lines(metrics))
    if cost := _cost_text(metrics, settings):
        lines.append(("cost", cost))
    say(*(f"{label:<{_LABEL_WIDTH}} {text}" for label, text in lines))
    for warning in iter_warnings(metrics):
        say_warning(warning)
    say(*(f"{label:<{_LABEL_WIDTH}} {path}" for label, path in _iter_files(metrics)))


def _cost_text(metrics: "RunTotals", settings: "Settings") -> str:
    """Return the cost of this run's tokens; empty without prices."""
    limits = settings.limits
    if not limits.price_in and not limits.price_out:
        return ""
    cost = cost_of(
        metrics.prompt_tokens, metrics.completion_tokens, limits.price_in, limits.price_out
    )
    return f"{cost:,.2f}"


def _iter_lines(metrics: "RunTotals") -> Iterator[tuple[str, str]]:
    judges = [
        describe_judge(
            judge.name,
            judge.profile,
            judge.profile_from,
            judge.base_urls,
            (),
            judge.probe,
        )
        for judge in metrics.judge.judges
    ]
    named = judges[0] if len(judges) == 1 else f"panel of {len(judges)}: {'; '.join(judges)}"
    yield "judge", "none: no reward uses comparisons" if metrics.judge.name is None else named
    yield "rollouts", _rollouts_text(metrics)
    if metrics.comparisons_planned:
        yield "comparisons", _comparisons_text(metrics)
    kinds = {kind: count for kind, count in metrics.failures_by_kind.items() if kind != "not_asked"}
    if kinds:
        examples = metrics.failure_examples
        texts = (
            f"{count:,} {kind} (for example: {examples.get(kind, '')})"
            for kind, count in kinds.items()
        )
        yield "failures", "; ".join(texts)
    reward = metrics.reward
    if reward.count:
        flat = metrics.groups_without_spread
        same = f"; all equal in {counted(flat, 'group')}" if flat else ""
        spread = f"from {reward.min:.3f} to {reward.max:.3f}"
        gated = f"; {counted(metrics.gated, 'reward')} set to 0 by a gate" if metrics.gated else ""
        yield "rewards", f"mean {reward.mean:.3f}, std {reward.std:.3f}, {spread}{same}{gated}"
    if metrics.reward_sources:
        parts = ", ".join(
            f"{share:.0%} {source}" for source, share in metrics.reward_sources.items()
        )
        yield "made of", f"{parts}; judgements are advisory"
    if metrics.length_effect.mean is not None:
        interval = interval_text(metrics.length_effect_interval, "{:+.2f}")
        yield (
            "length",
            f"correlates with the reward by {metrics.length_effect.mean:+.2f}{interval} within "
            "groups",
        )
    if metrics.judge.name is not None and metrics.verdicts + metrics.journal_hits:
        yield "reliability", _reliability_text(metrics)
    if (watch := getattr(metrics, "watch", None)) is not None:
        spent = f"; watching took {counted(watch.calls, 'call')}" if watch.calls else ""
        yield "judge state", f"{'; '.join((watch.state, *watch.reasons))}{spent}"


def _rollouts_text(metrics: "RunTotals") -> str:
    parts = [f"{metrics.scored:,} scored"]
    if metrics.single:
        parts.append(f"{metrics.single:,} alone with --default-score")
    parts.append(f"{metrics.unscored:,} unscored")
    if metrics.copies:
        parts.append(f"{metrics.copies:,} equal to another")
    if metrics.rejected_lines:
        parts.append(counted(metrics.rejected_lines, "rejected line"))
    return f"{metrics.rollouts:,} in {counted(metrics.groups, 'group')}: {', '.join(parts)}"


def _comparisons_text(metrics: "RunTotals") -> str:
    not_asked = metrics.failures_by_kind.get("not_asked", 0)
    results = verdicts_text(metrics.verdicts, metrics.journal_hits, metrics.failures, not_asked)
    if aside := metrics.verdicts_set_aside:
        results += f", {counted(aside, 'verdict')} set aside as suspicious"
    retries = f" ({counted(metrics.retries, 'retry', 'retries')})" if metrics.retries else ""
    tokens = metrics.prompt_tokens + metrics.completion_tokens
    spent = (
        f"{counted(metrics.calls, 'call')}{retries}, {counted(tokens, 'token')}, "
        f"{metrics.wall_time_s:.1f} s"
    )
    return f"{metrics.comparisons_planned:,}: {results}; {spent}"


def verdicts_text(verdicts: int, reused: int, failures: int, not_asked: int) -> str:
    """Return the results of comparisons. A comparison that was not asked is not shown as a
    failure.
    """
    parts = [counted(verdicts, "verdict")]
    if reused:
        parts.append(f"{reused:,} reused from an earlier run")
    parts.append(counted(failures - not_asked, "failure"))
    if not_asked:
        parts.append(f"{not_asked:,} not asked")
    return ", ".join(parts)


# Words follow the lower end of the interval, so a small run is never praised for its mean.
_RELIABILITY_MEANS = {
    "high": "high: reward differences are mostly real, not judge noise",
    "fair": "fair: reward differences are more real than judge noise",
    "low": "low: reward differences may be mostly judge noise",
    "unknown": "unknown: it may be low or high; score more groups together",
}


def _flag_of(setting: str) -> str:
    return render_flag(SettingRef(setting))


def _reliability_text(metrics: "RunTotals") -> str:
    mean = metrics.reliability.mean
    parts = []
    if metrics.goal != "rewards":
        parts.append(f"unknown: verdicts chose the pairs (--goal {metrics.goal})")
    elif mean is None:
        why = unmeasured_text(
            map(int, metrics.group_sizes), metrics.strategy, metrics.repeats, _flag_of
        )
        parts.append(f"unknown: {why}")
    else:
        word = reliability_word(metrics.reliability_interval)
        interval = interval_text(metrics.reliability_interval, "{:.2f}")
        parts.append(f"{mean:.2f}{interval}, {_RELIABILITY_MEANS[word]}")
        if word in ("low", "fair"):
            is_panel = metrics.panel is not None
            parts.append(remedy_text(metrics.rings_needed, mean, _flag_of, is_panel=is_panel))
    if metrics.groups_noisy:
        parts.append(
            f"mostly noise in {metrics.groups_noisy:,} of {counted(metrics.groups, 'group')}"
        )
    if metrics.flip_rate is not None:
        flips = rate_text(metrics.flip_rate, metrics.pairs_in_both_orders, "pair")
        parts.append(f"{flips} flip when swapped")
    return "; ".join(parts)


def interval_text(interval: tuple[float, ...] | None, shape: str) -> str:
    """Return an interval in brackets, after a space; empty without one."""
    return "" if interval is None else f" ({' to '.join(map(shape.format, interval))})"


def _iter_files(metrics: "RunTotals") -> Iterator[tuple[str, str]]:
    """Yield the files to look at next; none for a stream, or for many inputs, whose files were
    printed one by one.
    """
    from genrm_cli.scored.run_record import RunRecord

    if not isinstance(metrics, RunRecord) or (metrics.output_mark is None and not metrics.files):
        return
    output = metrics.output
    files = metrics.files
    yield "output", f"{len(files):,} files in {folder_of(output)}" if files else output
    others = [sibling(output, ".comparisons.jsonl")]
    if metrics.rejected_lines:
        others.append(sibling(output, ".rejects.jsonl"))
    if metrics.journal == sibling(output, ".journal.sqlite"):
        others.append(metrics.journal)
    elif metrics.journal is not None:
        yield "journal", metrics.journal
    yield (
        "details",
        ", ".join([sibling(output, ".metrics.json"), *(uri.rpartition("/")[2] for uri in others)]),
    )


def outcome_text(report: "BatchReport", metrics: RunMetrics) -> str:
    """Return the outcome of a run as one line that is easy to find in a log; it is done only if all
    outputs are there.
    """
    word = "done" if report.exit_code in _DONE else "failed"
    verdicts = verdicts_text(
        metrics.verdicts,
        metrics.journal_hits,
        metrics.failures,
        metrics.failures_by_kind["not_asked"],
    )
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    calls = counted(metrics.calls, "call")
    word = "interrupted" if report.is_interrupted else word
    counts = counts_text(report)
    return f"genrm: {word}: {counts}; {verdicts}, {calls}; {now}; exit {report.exit_code}"


def counts_text(report: "BatchReport") -> str:
    """Return the number of inputs with each status."""
    counts = ", ".join(f"{count} {status}" for status, count in report.counts.items())
    is_cut = report.fatal is not None or report.is_interrupted
    more = " (stopped before listing all)" if counts and is_cut and not report.is_listed else ""
    nothing = "stopped before any file was scored" if is_cut else "nothing to do"
    last = report.last
    inputs = counted(report.counts.total(), "file")
    if last is not None and last.task.members:
        inputs = f"a set of {len(last.task.members):,} files"
    return f"{inputs}: {counts or nothing}{more}"
