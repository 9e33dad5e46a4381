"""Refuse inputs that cannot be read, and outputs that leave too much unscored."""

from collections.abc import Callable
from itertools import islice

from genrm_cli.errors import (
    InputError,
    Message,
    SettingRef,
    TooManyUnscoredError,
    counted,
    naming,
)
from genrm_cli.jobs.due.advise_grouping import GENERAL_ADVICE
from genrm_cli.jobs.due.propose_fields import describe_proposal
from genrm_cli.jobs.index import InputIndex, Reject
from genrm_cli.metrics.figures import refuse_failed_figures
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.scored.run_record import RunTotals
from genrm_cli.settings import Settings
from genrm_cli.verdicts import Reason, StoppedBy

# What gets the comparisons asked that a run left out.
_REMEDIES = {
    StoppedBy.CONCLUDE: naming("Run the missing or stopped shards again, then $conclude."),
    StoppedBy.REPLIES_FROM: naming(
        "Write them to a file with $requests_to, and pass its replies, too."
    ),
}
_RESUME = naming("Run the same command again: verdicts in the journal are not asked again.")
_AGAIN = naming(
    "Without a journal, the next run asks all again: omit $use_journal.", use_journal=False
)
_NAMED = 3  # duplicates that a message names


def refuse_input(index: InputIndex, *, strict: bool) -> None:
    """Refuse an input with a file without a readable line, which is probably not a rollout file;
    if `strict`, also one with bad lines or duplicate rollouts.

    Raises:
        InputError: it names the first few lines.
    """
    unit = index.unit
    for number, (uri, lines) in enumerate(zip(index.sources.uris, index.lines, strict=True)):
        if index.table.file_rows(number) or not lines:
            continue
        whole = f"any of its {lines:,} {unit}s" if lines > 1 else f"its only {unit}"
        rejects = [reject for reject in index.rejects if reject.file in (None, uri)]
        reasons = (" (", _reasons(rejects), ")") if rejects else ()
        more = " `genrm validate` lists all problems." if lines > len(rejects) else ""
        with index.sources.open(number) as source:
            proposed = describe_proposal(source, index.settings)
        raise InputError(f"{uri}: cannot read {whole} as rollouts", *reasons, proposed, f".{more}")
    problems = []
    metrics = index.metrics
    if metrics.rejected_lines:
        problems.append(
            Message.of(f"{metrics.rejected_lines} bad {unit}s (", _reasons(index.rejects), ")")
        )
    if metrics.duplicate_rollouts:
        duplicates = (
            row for rows in index.table.iter_groups() for row in index.table.duplicates(rows)
        )
        where = ", ".join(f"{unit} {index.where(row)}" for row in islice(duplicates, _NAMED))
        problems.append(Message.of(f"{metrics.duplicate_rollouts} duplicate rollouts ({where})"))
    if strict and problems:
        raise InputError(
            f"{index.sources.uri}: ",
            _joined(" and ", problems),
            naming(", refused by $strict. Fix them, or run without it: "),
            f"bad {unit}s then go to the rejects file, and the rest is scored.",
        )


def _reasons(rejects: list[Reject]) -> Message:
    """Return where lines could not be read, by reason."""
    first = {reject.kind: reject.reason for reject in reversed(rejects)}
    places: dict[str, list[str]] = {}
    for reject in rejects:
        places.setdefault(reject.kind, []).append(reject.where)
    unit = rejects[0].unit
    reasons = [
        Message.of(f"{unit if len(where) == 1 else f'{unit}s'} {', '.join(where)}: ", first[kind])
        for kind, where in places.items()
    ]
    return _joined("; ", reasons)


def _joined(separator: str, messages: list[Message]) -> Message:
    parts: list[Message | str] = []
    for message in messages:
        parts += [separator, message]
    return Message.of(*parts[1:])


def resume_text(settings: Settings) -> Message:
    """Return how to continue a run that was stopped."""
    return _RESUME if settings.journal.use_journal else _AGAIN


def refuse_unscored(
    metrics: RunMetrics,
    totals: RunTotals,
    settings: Settings,
    advise: Callable[[], Message] = lambda: GENERAL_ADVICE,
) -> None:
    """Refuse a finished run of which a bug kept something from being computed, or that left too
    many rollouts unscored; `advise` says how those that are alone could be grouped.
    """
    refuse_failed_figures(totals.failed_figures)
    if metrics.stopped_by is not None:
        not_asked = metrics.failures_by_kind["not_asked"]
        raise TooManyUnscoredError(
            SettingRef(metrics.stopped_by),
            " stopped the run: the outputs are partial, without "
            f"{counted(not_asked, 'comparison')}. ",
            _REMEDIES.get(metrics.stopped_by, resume_text(settings)),
        )
    refuse_unscored_share(totals, settings, advise)


def refuse_unscored_share(
    of: RunTotals, settings: Settings, advise: Callable[[], Message] = lambda: GENERAL_ADVICE
) -> None:
    """Refuse outputs with too many unscored rollouts, or of which most are alone in their group."""
    most = settings.rewards.max_unscored
    in_groups = of.rollouts - of.group_sizes.get("1", 0)
    alone = of.unscored_reasons.get(Reason.ALONE, 0)
    if most < 1 and 2 * alone > of.rollouts:
        raise TooManyUnscoredError(
            f"{alone} of {counted(of.rollouts, 'rollout')} are alone in their group; ",
            advise(),
            ".",
        )
    kept = (Reason.ALONE, Reason.NOT_IN_TRIAL, Reason.SUPERSEDED)
    counts = [
        (Reason(code), count) for code, count in of.unscored_reasons.items() if code not in kept
    ]
    reasons = "; ".join(
        f"{count} × {code.text}" for code, count in sorted(counts, key=lambda each: -each[1])
    )
    if of.unscored_share > most:
        unscored = round(of.unscored_share * in_groups)
        raise TooManyUnscoredError(
            f"{unscored} of {in_groups} rollouts in groups are unscored, more than ",
            SettingRef("max_unscored", most),
            f" allows: {reasons}. See them with `genrm report`; run again to ask about failures.",
        )
    if most < 1 and counts and of.unscored == of.rollouts:  # each in a group of its own, too
        raise TooManyUnscoredError(
            f"no rollout has a reward, of {of.rollouts:,}: {reasons}. `genrm validate` shows how "
            "the input is read."
        )
