"""Render previews: what is in an input, what a run would ask about it, and what that costs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from genrm_cli.cli.console import text_of
from genrm_cli.cli.scoring.run_warnings import nulls_text, steps_warning
from genrm_cli.errors import counted

if TYPE_CHECKING:
    from genrm_cli.jobs.estimate import RunEstimate
    from genrm_cli.jobs.previews.preview import FormatReading, Preview, Problem

# What fits a screen beside the rest.
_SHOWN_PROBLEMS = 12
_SHOWN_SIZES = 6
_SHOWN_FIELDS = 8


def preview_lines(preview: "Preview") -> Iterator[str]:
    """Yield all about one input."""
    files = f" ({preview.files:,} files)" if preview.files > 1 else ""
    plan, *hints = plan_lines(preview.plan)
    yield from _rows(
        {
            "input": preview.input + files,
            **_content_rows(preview),
            "pairing": f"{preview.strategy} × {preview.pairing.repeats}",
            "plan": [plan, *hints],
            "problems": f"{preview.problem_count:,}" if preview.problems else "none",
        }
    )
    yield from _problem_lines(preview)


def short_lines(preview: "Preview") -> Iterator[str]:
    """Yield the contents of one of many inputs, its plan and its problems."""
    formats = ", ".join(name for name, _ in preview.counts.formats.most_common())
    rollouts = counted(preview.counts.rollouts, "rollout")
    groups = counted(preview.counts.groups, "group")
    yield f"  {formats or 'no known format'}; {rollouts} in {groups}"
    yield f"  {preview.plan.text()}"
    yield from _problem_lines(preview)


def plan_lines(plan: "RunEstimate") -> Iterator[str]:
    """Yield what a run would ask, and what to set for a better estimate."""
    yield plan.text()
    if plan.calls and plan.cost is None:
        yield "Set --price-in and --price-out (per million tokens) for the cost."


def _rows(rows: Mapping[str, str | list[str]]) -> Iterator[str]:
    for name, value in rows.items():
        first, *more = value if isinstance(value, list) else [value]
        if first:
            yield f"{name:<12} {first}"
        yield from (f"{'':<12} {line}" for line in more)


def _content_rows(preview: "Preview") -> dict[str, str | list[str]]:
    kinds = preview.grouped_by
    names = ", ".join(
        f"{name} ({count:,})" if len(kinds) > 1 else name for name, count in kinds.most_common()
    )
    sizes = sorted(sorted(preview.counts.group_sizes.items()), key=lambda each: -each[1])
    shown = [f"{count:,} of {size}" for size, count in sizes[:_SHOWN_SIZES]]
    rest = [f"{len(sizes) - _SHOWN_SIZES} more sizes"] if len(sizes) > _SHOWN_SIZES else []
    ids = preview.counts.contradicting_ids
    regrouped = [
        f"{counted(ids, 'task id')} of several prompts: their rollouts are grouped by the prompt"
    ] * bool(ids)
    if spanning := preview.counts.groups_over_steps:
        regrouped.append(f"warning: {steps_warning(spanning)}")
    noted = []
    if media := preview.counts.rollouts_with_media - preview.with_media:
        noted.append(f"{media:,} with media that the judge does not see")
    if preview.counts.truncated_responses:
        noted.append(f"{preview.counts.truncated_responses:,} truncated")
    if preview.counts.stripped_tokens:
        noted.append(f"{counted(preview.counts.stripped_tokens, 'chat-template token')} stripped")
    if nulls := preview.counts.not_numbers:
        noted.append(nulls_text(nulls, preview.counts.not_numbers_first))
    formats = [
        line
        for name, count in preview.counts.formats.most_common()
        for line in _format_lines(name, count, preview.readings.get(name))
    ]
    return {
        "lines": f"{preview.counts.lines:,}, {preview.counts.rejected_lines:,} rejected",
        "format": formats or "none recognised",
        "rollouts": f"{preview.counts.rollouts:,}",
        "not compared": _not_compared(preview),
        "texts": ", ".join(noted),
        "groups": [f"{preview.counts.groups:,}, by {names}" if names else "0", *regrouped],
        "group sizes": ", ".join(shown + rest),
        "view": ", ".join(
            f"{view} in {counted(count, 'group')}" for view, count in sorted(preview.views.items())
        ),
    }


def _format_lines(name: str, count: int, reading: "FormatReading | None") -> Iterator[str]:
    """Yield the fields read from lines of a format, and the reading of its first line."""
    lines = f"{name}: {counted(count, 'line')}"
    if reading is None:
        yield lines
        return
    yield "; ".join([lines, *(f"{role}: {_names(names)}" for role, names in reading.roles.items())])
    response = "no response" if reading.response is None else f"response {reading.response!r}"
    yield f"  line {reading.line}: prompt {reading.prompt!r}, {response}"


def _names(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _SHOWN_FIELDS else ""
    return ", ".join(names[:_SHOWN_FIELDS]) + more


def _problem_lines(preview: "Preview") -> Iterator[str]:
    yield from map(_problem_text, preview.problems[:_SHOWN_PROBLEMS])
    if len(preview.problems) > _SHOWN_PROBLEMS:
        yield f"  and {len(preview.problems) - _SHOWN_PROBLEMS:,} more kinds"


def _problem_text(problem: "Problem") -> str:
    where = ", ".join(problem.where) + (", ..." if problem.count > len(problem.where) else "")
    place = f"{problem.unit}s {where}" if problem.count > 1 else f"{problem.unit} {where}"
    place = place if problem.unit in ("line", "item") else where
    return f"  {counted(problem.count, problem.unit)}: {text_of(problem.problem)} ({place})"


def _not_compared(preview: "Preview") -> str:
    """Return the numbers of rollouts that are not compared, with the reasons."""
    reasons = [f"{count:,} excluded ({reason})" for reason, count in preview.excluded.most_common()]
    if blank := preview.counts.blank_responses:
        reasons.append(counted(blank, "blank response"))
    if media := preview.with_media:
        reasons.append(f"{media:,} with media (--images shows images to a judge that sees them)")
    count = preview.without_response
    if empty := max(0, count - preview.excluded.total() - blank - media):
        reasons.append(f"{empty:,} without a response")
    return ": ".join(filter(None, (f"{count:,}" if count else "", ", ".join(reasons))))
