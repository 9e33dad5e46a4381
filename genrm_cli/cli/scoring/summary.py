"""The summary of a run of `genrm score`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from genrm_cli.cli.console import rate_text, say, say_warning
from genrm_cli.cli.scoring.run_warnings import iter_warnings
from genrm_cli.errors import TooManyUnscoredError, counted
from genrm_cli.judging.pacing.judge_events import describe_judge
from genrm_cli.judging.pacing.policy import cost_of
from genrm_cli.metrics.group_measures import EFFECT
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.account import RunAccount, results_text
from genrm_cli.settings import Settings
from genrm_cli.storage.location import folder_of, sibling

if TYPE_CHECKING:
    from genrm_cli.jobs.input_batch import BatchReport
    from genrm_cli.scored.run_record import RunTotals

# Exit codes of runs whose outputs are all there.
_DONE = (0, TooManyUnscoredError.exit_code)
# The longest label, `repeatability`, and a gap.
_LABEL_WIDTH = 13
# Words follow the lower end of the interval, so a small run is never praised for its mean.
_RELIABILITY_MEANS = {
    "high": "high: reward differences are mostly real, not judge noise",
    "fair": "fair: reward differences are more real than judge noise",
    "low": "low: reward differences may be mostly judge noise",
    "unknown": "unknown: it may be low or high",
}


def show_summary(totals: "RunTotals", settings: Settings) -> None:
    """Show the results of a run over one input, or over many."""
    say(*(f"{label:<{_LABEL_WIDTH}} {text}" for label, text in _iter_lines(totals, settings)))
    for warning in iter_warnings(totals):
        say_warning(warning)
    say(*(f"{label:<{_LABEL_WIDTH}} {path}" for label, path in _iter_files(totals)))


def _iter_lines(totals: "RunTotals", settings: Settings) -> Iterator[tuple[str, str]]:
    judges = [
        describe_judge(
            judge.name, judge.profile, judge.profile_from, judge.base_urls, (), judge.probe
        )
        for judge in totals.judge.judges
    ]
    named = judges[0] if len(judges) == 1 else f"panel of {len(judges)}: {'; '.join(judges)}"
    yield "judge", "none: no reward uses comparisons" if totals.judge.name is None else named
    yield "rollouts", _rollouts_text(totals)
    tokens = totals.prompt_tokens + totals.completion_tokens
    if totals.comparisons_planned:
        results = results_text(totals)
        retries = f" ({counted(totals.retries, 'retry', 'retries')})" if totals.retries else ""
        yield (
            "comparisons",
            f"{totals.comparisons_planned:,}: {results}; {counted(totals.calls, 'call')}{retries}, "
            f"{counted(tokens, 'token')}{_estimated_text(totals)}, {totals.wall_time_s:.1f} s",
        )
    failures = [
        f"{count:,} {kind} (for example: {totals.failure_examples.get(kind, '')})"
        for kind, count in totals.failures_by_kind.items()
        if kind != "not_asked"
    ]
    if failures:
        yield "failures", "; ".join(failures)
    account = RunAccount.of(totals)
    if account.failing:
        yield "most fail", "; ".join(account.failing)
    reward = totals.reward
    if reward.count:
        flat = totals.groups_without_spread
        same = f"; all equal in {counted(flat, 'group')}" if flat else ""
        gated = f"; {counted(totals.gated, 'reward')} set to 0 by a gate" if totals.gated else ""
        spread = f"from {reward.min:.3f} to {reward.max:.3f}"
        yield "rewards", f"mean {reward.mean:.3f}, std {reward.std:.3f}, {spread}{same}{gated}"
    if totals.reward_sources:
        parts = ", ".join(
            f"{share:.0%} {source}" for source, share in totals.reward_sources.items()
        )
        yield "made of", f"{parts}; judgements are advisory"
    if totals.length_effect.mean is not None:
        ends = totals.length_effect_interval or (None, None)
        correlation = EFFECT.text(totals.length_effect.mean, *ends)
        yield "length", f"correlates with the reward by {correlation} within groups"
    if _has_answer(totals):
        yield account.figure, _reliability_text(account, totals)
        yield "train on it", ". ".join([account.train, *account.because[:1]]).rstrip(".")
    prices = settings.limits.price_in, settings.limits.price_out
    if any(prices):
        cost = cost_of(totals.prompt_tokens, totals.completion_tokens, *prices)
        yield "cost", f"{cost:,.2f}"


def _estimated_text(totals: "RunTotals") -> str:
    if not totals.estimated_replies:
        return ""
    return f" (estimated for {counted(totals.estimated_replies, 'reply', 'replies')} without usage)"


def _rollouts_text(totals: "RunTotals") -> str:
    parts = [f"{totals.scored:,} scored"]
    if totals.single:
        parts.append(f"{totals.single:,} alone with --default-score")
    parts.append(f"{totals.unscored:,} unscored")
    if totals.copies:
        parts.append(f"{totals.copies:,} equal to another")
    if totals.rejected_lines:
        parts.append(counted(totals.rejected_lines, "rejected line"))
    return f"{totals.rollouts:,} in {counted(totals.groups, 'group')}: {', '.join(parts)}"


def _reliability_text(account: RunAccount, totals: "RunTotals") -> str:
    parts = []
    if account.reliability is None:
        parts.append(f"unknown: {account.advice}")
    else:
        parts.append(f"{account.found}, {_RELIABILITY_MEANS[account.word]}")
        parts += [account.advice] if account.advice else []
        parts += [each for each in (account.halves, account.contradiction) if each]
    if totals.groups_noisy:
        # Of those whose reliability is known, as in the report.
        groups = counted(totals.reliability.count, "group")
        parts.append(f"mostly noise in {totals.groups_noisy:,} of {groups}")
    if totals.flip_rate is not None:
        pairs = rate_text(totals.flip_rate, totals.pairs_in_both_orders, "pair")
        parts.append(f"swapping the responses flips {pairs}")
    return "; ".join(parts)


def _iter_files(totals: "RunTotals") -> Iterator[tuple[str, str]]:
    """Yield the files to look at next; none for a stream, or for many inputs, whose files were
    printed one by one.
    """
    from genrm_cli.scored.run_record import RunRecord

    if not isinstance(totals, RunRecord) or (totals.output_mark is None and not totals.files):
        return
    output = totals.output
    files = totals.files
    yield "output", f"{len(files):,} files in {folder_of(output)}" if files else output
    names = [".comparisons.jsonl"]
    if totals.rejected_lines:
        names.append(".rejects.jsonl")
    if totals.journal == sibling(output, ".journal.sqlite"):
        names.append(".journal.sqlite")
    elif totals.journal is not None:
        yield "journal", totals.journal
    details = [sibling(output, name).rpartition("/")[2] for name in names]
    yield "details", ", ".join([sibling(output, ".metrics.json"), *details])


def _has_answer(totals: "RunTotals") -> bool:
    """Return whether a judge was asked, so that a run says whether to train on it."""
    return totals.judge.name is not None and totals.comparisons_planned > 0


def outcome_text(report: "BatchReport", counts: RunMetrics) -> str:
    """Return the outcome of a run as one line that is easy to find in a log; it is done only if all
    outputs are there.
    """
    code = report.exit_code
    outcome = "done" if code in _DONE else "failed"
    if report.is_interrupted:
        outcome = "interrupted"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    results = f"{results_text(counts)}, {counted(counts.calls, 'call')}"
    if report.totals is not None and _has_answer(report.totals):
        results += f"; train on it: {RunAccount.of(report.totals).train}"
    return f"genrm: {outcome}: {counts_text(report)}; {results}; {now}; exit {code}"


def counts_text(report: "BatchReport") -> str:
    """Return the number of inputs with each status."""
    counts = ", ".join(f"{count} {status}" for status, count in report.counts.items())
    is_cut = report.fatal is not None or report.is_interrupted
    more = " (stopped before listing all)" if counts and is_cut and not report.is_listed else ""
    nothing = "stopped before any file was scored" if is_cut else "nothing to do"
    last = report.last
    inputs = counted(report.counts.total(), "file")
    if last is not None and last.task.members:
        inputs = f"a set of {counted(len(last.task.members), 'file')}"
    return f"{inputs}: {counts or nothing}{more}"
