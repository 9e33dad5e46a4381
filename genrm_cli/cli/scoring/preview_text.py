"""Render previews: what is in an input, what a run would ask about it, and what that costs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from genrm_cli.cli.console import text_of
from genrm_cli.cli.scoring.run_warnings import count_warning
from genrm_cli.errors import counted

if TYPE_CHECKING:
    from genrm_cli.jobs.estimate import RunEstimate
    from genrm_cli.jobs.previews.preview import FormatReading, Preview

# What fits a screen beside the rest.
_SHOWN_PROBLEMS = 12
_SHOWN_SIZES = 6
_SHOWN_FIELDS = 8
# A score or a comment that a line already has: no verdict of this run.
_ROLE_NAMES = {"verdict": "earlier verdict (not used)"}
# What is known before any call, and is warned of after the run, too.
_WARNED = ("truncated_responses", "not_numbers", "contradicting_ids", "groups_over_steps")


def preview_lines(preview: "Preview") -> Iterator[str]:
    """Yield all about one input."""
    counts = preview.counts
    files = f" ({preview.files:,} files)" if preview.files > 1 else ""
    yield from _row("input", preview.input + files)
    yield from _row("lines", f"{counts.lines:,}, {counts.rejected_lines:,} rejected")
    formats = [
        line
        for name, count in counts.formats.most_common()
        for line in _format_lines(name, count, preview.readings.get(name))
    ]
    yield from _row("format", *(formats or ["none recognised"]))
    yield from _row("rollouts", f"{counts.rollouts:,}")
    yield from _row("not compared", _not_compared(preview))
    warnings = [
        count_warning(field, getattr(counts, field)) for field in _WARNED if getattr(counts, field)
    ]
    names = ", ".join(f"{name} ({count:,})" for name, count in preview.grouped_by.most_common())
    yield from _row("groups", f"{counts.groups:,}, by {names}" if names else "0", *warnings)
    sizes = counts.group_sizes.most_common(_SHOWN_SIZES)
    shown = [f"{count:,} of {size}" for size, count in sizes]
    if len(counts.group_sizes) > _SHOWN_SIZES:
        shown.append("...")
    yield from _row("group sizes", ", ".join(shown))
    views = (f"{view} in {counted(n, 'group')}" for view, n in sorted(preview.views.items()))
    yield from _row("view", ", ".join(views))
    yield from _row("pairing", f"{preview.strategy} × {preview.pairing.repeats}")
    yield from _row("plan", *plan_lines(preview.plan), *_other_mode(preview))
    yield from _row("problems", f"{preview.problem_count:,}" if preview.problems else "none")
    yield from _problem_lines(preview)


def _other_mode(preview: "Preview") -> Iterator[str]:
    if preview.other_mode is not None:
        mode, plan = preview.other_mode
        yield f"With --judging {mode}: {plan.text()}"


def short_lines(preview: "Preview") -> Iterator[str]:
    """Yield the contents of one of many inputs, its plan and its problems."""
    formats = ", ".join(name for name, _ in preview.counts.formats.most_common())
    rollouts = counted(preview.counts.rollouts, "rollout")
    groups = counted(preview.counts.groups, "group")
    yield f"  {formats or 'no known format'}; {rollouts} in {groups}"
    yield f"  {preview.plan.text()}"
    yield from (f"  {line}" for line in _other_mode(preview))
    yield from _problem_lines(preview)


def plan_lines(plan: "RunEstimate") -> Iterator[str]:
    """Yield what a run would ask, and what to set for a better estimate."""
    yield plan.text()
    if plan.calls and plan.cost is None:
        yield "Set --price-in and --price-out (per million tokens) for the cost."


def _row(name: str, first: str, *more: str) -> Iterator[str]:
    if first:
        yield f"{name:<12} {first}"
    for line in more:
        yield f"{'':<12} {line}"


def _format_lines(name: str, count: int, reading: "FormatReading | None") -> Iterator[str]:
    """Yield the fields read from lines of a format, and the reading of its first line."""
    parts = [f"{name}: {counted(count, 'line')}"]
    if reading is None:
        yield parts[0]
        return
    for role, fields in reading.roles.items():
        more = ", ..." if len(fields) > _SHOWN_FIELDS else ""
        parts.append(f"{_ROLE_NAMES.get(role, role)}: {', '.join(fields[:_SHOWN_FIELDS])}{more}")
    yield "; ".join(parts)
    response = "no response" if reading.response is None else f"response {reading.response!r}"
    yield f"  line {reading.line}: prompt {reading.prompt!r}, {response}"


def _problem_lines(preview: "Preview") -> Iterator[str]:
    for problem in preview.problems[:_SHOWN_PROBLEMS]:
        where = ", ".join(problem.where) + (", ..." if problem.count > len(problem.where) else "")
        if problem.unit in ("line", "item"):
            where = f"{problem.unit}{'s' if problem.count > 1 else ''} {where}"
        yield f"  {counted(problem.count, problem.unit)}: {text_of(problem.problem)} ({where})"
    if len(preview.problems) > _SHOWN_PROBLEMS:
        yield f"  and {len(preview.problems) - _SHOWN_PROBLEMS:,} more kinds"


def _not_compared(preview: "Preview") -> str:
    """Return the number of rollouts that are not compared, with the reasons."""
    count = preview.without_response
    blank = preview.counts.blank_responses
    media = preview.with_media
    reasons = [f"{count:,} excluded ({reason})" for reason, count in preview.excluded.most_common()]
    if blank:
        reasons.append(counted(blank, "blank response"))
    if media:
        reasons.append(f"{media:,} with media (--images shows images to a judge that sees them)")
    empty = count - preview.excluded.total() - blank - media
    if empty > 0:
        reasons.append(f"{empty:,} without a response")
    return f"{count:,}: {', '.join(reasons)}" if count else ", ".join(reasons)
