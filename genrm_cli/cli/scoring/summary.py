"""The summary of a run of `genrm score`: a dozen lines on a terminal, without that limit in a log."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from genrm_cli.cli.console import add_row, counted, cut, new_table, number_text, say, say_warning, show, stderr_console
from genrm_cli.cli.events import judge_text, status_text
from genrm_cli.cli.scoring.run_warnings import iter_warnings
from genrm_cli.metrics.group_measures import NOISY_BELOW, RELIABLE_FROM
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.json_form import to_json
from genrm_cli.storage.location import folder_of, sibling

if TYPE_CHECKING:
    from genrm_cli.jobs.batch import BatchReport
    from genrm_cli.scored.run_record import JudgeRecord, PanelRecord, RunTotals

_MAX_LINES = 12
_MIN_WARNINGS = 2
_LAST_LINES = 2  # an error, and `genrm: done:`
_LABEL_WIDTH = 13
_NAME_WIDTH = 24
_PROMPT_WIDTH = 54
_COLUMNS = (
    "reward     the number for the trainer; higher is better",
    "rank       1 is the best of the group",
    "advantage  (reward - mean of the group) / standard deviation of the group",
)
_NUMBERS_WIDTH = 27


def show_summary(metrics: "RunTotals", samples: Sequence[dict[str, Any]], *, table: int) -> None:
    """Show the results of a run; with `table`, also the rewards of the first groups and all details.

    Args:
        metrics: metrics of one input, or of many inputs merged.
        samples: rewards of the first groups.
        table: how many of these groups to show, with all components and all warnings.
    """
    if table:
        if samples:
            _show_groups(samples, metrics.groups, table)
        if metrics.components:
            _show_components(metrics)
    is_short = stderr_console.is_terminal and not table
    lines = [f"{label:<{_LABEL_WIDTH}} {text}" for label, text in _iter_lines(metrics)]
    say(*(map(cut, lines) if is_short else lines))
    files = [f"{label:<{_LABEL_WIDTH}} {path}" for label, path in _iter_files(metrics)]
    warnings = list(iter_warnings(metrics))
    room = max(_MIN_WARNINGS, _MAX_LINES - _LAST_LINES - len(lines) - len(files)) if is_short else len(warnings)
    hidden = warnings[room - 1 :] if len(warnings) > room else []
    for warning in warnings[: len(warnings) - len(hidden)]:
        say_warning(warning)
    if hidden:
        say_warning(f"and {len(hidden)} more; --table 1 shows all of them.")
    say(*files)


def show_rewards(metrics: "RunTotals", samples: Sequence[dict[str, Any]], table: int) -> None:
    """Show the judge and the rewards of the first groups, which --table adds to --quiet."""
    say(f"judge: {_judge_text(metrics.judge)}")
    _show_groups(samples, metrics.groups, table)


def _show_groups(samples: Sequence[dict[str, Any]], groups: int, limit: int) -> None:
    """Show the rewards of the first groups, each under its prompt, and the meaning of the columns."""
    members = groupby(samples, key=lambda sample: sample["group"])
    shown = [(key, list(rollouts)) for key, rollouts in islice(members, limit)]
    for key, rollouts in shown:
        size = rollouts[0]["size"]
        prompt = cut(rollouts[0]["prompt"] or "(no prompt)", _PROMPT_WIDTH)
        say(cut(f"“{prompt}” {counted(size, 'rollout')}, {key}"))
        show(_rewards_table(rollouts))
        if size > len(rollouts):
            say(f"... and {counted(size - len(rollouts), 'more rollout')}")
        say("")
    for line in _COLUMNS:
        say(line)
    if groups > len(shown):
        say(f"... and {counted(groups - len(shown), 'more group')}")


def _rewards_table(rollouts: list[dict[str, Any]]) -> Any:
    table = new_table("reward", "rank", "advantage", "answer", texts=0)
    table.columns[-1].justify = "left"
    width = max(20, stderr_console.width - _NUMBERS_WIDTH)  # Rich would shorten the numbers instead of the texts
    for rollout in rollouts:
        numbers = ["-", "-", "-"]
        if rollout["reward"] is not None:
            numbers = [f"{rollout['reward']:.3f}", str(rollout["rank"]), f"{rollout['advantage']:+.2f}"]
        add_row(table, *numbers, cut(rollout["reason_text"] or rollout["answer"], width))
    return table


def _show_components(metrics: "RunTotals") -> None:
    """Show the spread of each component, and the share of groups in which it varies."""
    table = new_table("component", "mean", "std", "min", "max", "missing", "varies", "corr.")
    for name, component in (metrics.components or {}).items():
        numbers = [number_text(each, ".2f") for each in (component.mean, component.std, component.min, component.max)]
        varies = number_text(component.discriminating_share, ".0%")
        correlation = number_text(component.correlation_with_total, ".2f")
        add_row(table, cut(name, _NAME_WIDTH), *numbers, str(component.missing), varies, correlation)
    show(table)


def _iter_lines(metrics: "RunTotals") -> Iterator[tuple[str, str]]:
    yield "judge", _judge_text(metrics.judge)
    yield "rollouts", _rollouts_text(metrics)
    if metrics.comparisons_planned:
        yield "comparisons", _comparisons_text(metrics)
    kinds = {kind: count for kind, count in metrics.failures_by_kind.items() if kind != "not_asked"}
    if kinds:
        examples = metrics.failure_examples
        yield (
            "failures",
            "; ".join(f"{count:,} {kind} (for example: {examples.get(kind, '')})" for kind, count in kinds.items()),
        )
    reward = metrics.reward
    if reward.count:
        flat = metrics.groups_without_spread
        same = f"; all equal in {counted(flat, 'group')}" if flat else ""
        spread = f"from {reward.min:.3f} to {reward.max:.3f}"
        yield "rewards", f"mean {reward.mean:.3f}, std {reward.std:.3f}, {spread}{same}"
    if metrics.reward_sources:
        parts = ", ".join(f"{share:.0%} {source}" for source, share in metrics.reward_sources.items())
        gated = f"; {counted(metrics.gated, 'reward')} set to 0 by a gate" if metrics.gated else ""
        yield "made of", f"{parts}{gated}; judgements are advisory"
    if metrics.judge.name is not None and metrics.verdicts + metrics.journal_hits:
        yield "reliability", _reliability_text(metrics)


def _judge_text(judge: "PanelRecord | JudgeRecord") -> str:
    if judge.name is None:
        return "none: no reward uses comparisons"
    texts = [judge_text(to_json(each)) for each in judge.judges]
    return texts[0] if len(texts) == 1 else f"panel of {len(texts)}: {'; '.join(texts)}"


def _rollouts_text(metrics: "RunTotals") -> str:
    parts = [f"{metrics.scored:,} scored"]
    if metrics.single:
        parts.append(f"{metrics.single:,} alone with --default-score")
    parts.append(f"{metrics.unscored:,} unscored")
    if metrics.rejected_lines:
        parts.append(counted(metrics.rejected_lines, "rejected line"))
    return f"{metrics.rollouts:,} in {counted(metrics.groups, 'group')}: {', '.join(parts)}"


def _comparisons_text(metrics: "RunTotals") -> str:
    not_asked = metrics.failures_by_kind.get("not_asked", 0)
    results = verdicts_text(metrics.verdicts, metrics.journal_hits, metrics.failures, not_asked)
    retries = f" ({counted(metrics.retries, 'retry', 'retries')})" if metrics.retries else ""
    tokens = metrics.prompt_tokens + metrics.completion_tokens
    spent = f"{counted(metrics.calls, 'call')}{retries}, {counted(tokens, 'token')}, {metrics.wall_time_s:.1f} s"
    return f"{metrics.comparisons_planned:,}: {results}; {spent}"


def verdicts_text(verdicts: int, reused: int, failures: int, not_asked: int) -> str:
    """Return the results of comparisons. A comparison that was not asked is not shown as a failure."""
    parts = [counted(verdicts, "verdict")]
    if reused:
        parts.append(f"{reused:,} reused from an earlier run")
    parts.append(counted(failures - not_asked, "failure"))
    if not_asked:
        parts.append(f"{not_asked:,} not asked")
    return ", ".join(parts)


def _reliability_text(metrics: "RunTotals") -> str:
    """Describe how far to trust differences between rewards."""
    mean, parts = metrics.reliability.mean, []
    if mean is None:
        parts.append("unknown: too few comparisons to measure judge noise; raise --ring-k")
    else:
        if mean >= RELIABLE_FROM:
            meaning = "high: reward differences are mostly real, not judge noise"
        elif mean >= NOISY_BELOW:
            meaning = "fair: reward differences are more real than judge noise"
        else:
            meaning = "low: reward differences are mostly judge noise"
        parts.append(f"{mean:.2f}, {meaning}")
        if (forecast := metrics.reliability_forecast) is not None and mean < RELIABLE_FROM:
            strategy = "" if metrics.strategy == "ring" else "--strategy ring "
            interval = f"({forecast.low:.2f} to {forecast.high:.2f})"
            parts.append(f"with {strategy}--ring-k {forecast.ring_k:g} about {forecast.value:.2f} {interval}")
    if metrics.groups_noisy:
        parts.append(f"mostly noise in {metrics.groups_noisy:,} of {counted(metrics.groups, 'group')}")
    if metrics.pairs_in_both_orders:
        parts.append(f"{metrics.flip_rate:.1%} of pairs flip when swapped")
    if metrics.contradiction_rate:
        parts.append(f"scores and ranking disagree in {metrics.contradiction_rate:.1%}")
    if metrics.repeat_agreement is not None:
        parts.append(f"repeats agree in {metrics.repeat_agreement:.1%}")
    return "; ".join(parts)


def _iter_files(metrics: "RunTotals") -> Iterator[tuple[str, str]]:
    """Yield the files to look at next; none for a stream, or for many inputs, whose files were printed one by one."""
    from genrm_cli.scored.run_record import RunRecord

    if not isinstance(metrics, RunRecord) or (metrics.output_mark is None and not metrics.files):
        return
    output, files = metrics.output, metrics.files
    yield "output", f"{len(files):,} files in {folder_of(output)}" if files else output
    others = [sibling(output, ".comparisons.jsonl")]
    if metrics.rejected_lines:
        others.append(sibling(output, ".rejects.jsonl"))
    if metrics.journal == sibling(output, ".journal.sqlite"):
        others.append(metrics.journal)
    elif metrics.journal is not None:
        yield "journal", metrics.journal
    yield "details", ", ".join([sibling(output, ".metrics.json"), *(uri.rpartition("/")[2] for uri in others)])


def done_text(report: "BatchReport", metrics: RunMetrics) -> str:
    """Return the outcome of a run as one line that is easy to find in a log."""
    verdicts = verdicts_text(metrics.verdicts, metrics.journal_hits, metrics.failed, metrics.failures["not_asked"])
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    calls = counted(metrics.calls, "call")
    return f"genrm: done: {counts_text(report)}; {verdicts}, {calls}; {now}; exit {report.exit_code}"


def counts_text(report: "BatchReport") -> str:
    """Return the number of inputs with each status."""
    counts = ", ".join(f"{count} {status_text(status)}" for status, count in report.counts.items())
    is_cut = report.fatal is not None or report.is_interrupted
    more = " (stopped before listing all)" if counts and is_cut and not report.is_listed else ""
    nothing = "stopped before any file was scored" if is_cut else "nothing to do"
    last = report.last
    inputs = counted(report.counts.total(), "file")
    if last is not None and last.task.members:
        inputs = f"a set of {len(last.task.members):,} files"
    return f"{inputs}: {counts or nothing}{more}"
