"""`genrm validate`: check inputs and show the planned requests, without calling a judge."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from genrm_cli.cli.console import counted, print_json, say_error, text_of
from genrm_cli.cli.events import duration_text, watched
from genrm_cli.cli.options import Invocation, Rollouts, with_settings
from genrm_cli.cli.scoring.run_warnings import nulls_text, steps_warning
from genrm_cli.cli.tables import print_parts
from genrm_cli.errors import worst_exit_code

if TYPE_CHECKING:
    from genrm_cli.jobs.estimate import Estimate
    from genrm_cli.jobs.previews.preview import Preview, Reading
    from genrm_cli.jobs.previews.problems import Problem

_SHOWN_PROBLEMS = 12
_SHOWN_SIZES = 6
_SHOWN_FIELDS = 8
_OMITTED = (
    *(
        "min_age",
        "parallel_files",
        "segment_calls",
        "segment_age",
        "force",
        "dry_run",
        "keep_replies",
    ),
    *(
        "leases",
        "lease_expiry",
        "only_failed",
        "conclude",
        "log_json",
        "api_key_env",
        "api_key_file",
        "ca_bundle",
        "http_client",
    ),
    *(
        "probe",
        "connect_timeout",
        "call_timeout",
        "comparison_timeout",
        "give_up_after",
        "retries",
        "reask",
    ),
    *("deadline", "max_calls", "max_total_tokens", "max_cost"),
)


@with_settings("Input", "Pairs", "Judge", "Limits", "Journal", "Output", "Storage", omit=_OMITTED)
def validate(rollouts: Rollouts, invocation: Invocation) -> int:
    """Check rollouts without calling a judge: input formats, groups, problems, calls, tokens and
    cost.

    Exits with code 3 if nothing in an input can be scored; with --strict, also if a line is invalid
    or a rollout is duplicated.

    Example: genrm validate rollouts.jsonl --strategy all_pairs --price-in 0.5 --price-out 2
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.due.inputs import is_one_input
    from genrm_cli.jobs.estimate import total_of
    from genrm_cli.jobs.previews.preview import Preview, iter_previews
    from genrm_cli.rollouts.row_groups import TornPrompts

    settings = invocation.settings
    torn = TornPrompts()
    alone = is_one_input(rollouts) or settings.input.together
    previews: list[Preview] = []
    codes: list[int] = []
    as_json = settings.output.json_output
    with watched(settings) as (progress, events):
        for found in iter_previews(
            rollouts, new_run(settings, progress=progress, on_event=events), torn
        ):
            error = (
                found.error(strict=settings.input.strict) if isinstance(found, Preview) else found
            )
            codes.append(0 if error is None else error.exit_code)
            if isinstance(found, Preview):
                previews.append(found)
                if alone and as_json:
                    print_json(found.as_dict())
                elif not as_json:
                    print_parts(*(_lines(found) if alone else _short_lines(found)))
            if error is not None and alone:
                raise error
            if error is not None:
                say_error(error)
    code = worst_exit_code(codes)
    total = total_of([preview.plan for preview in previews])
    if not alone and as_json:
        of_all = {"files": len(codes), "prompts_in_several_files": torn.count(), "exit_code": code}
        print_json(
            {
                **of_all,
                "plan": total.as_dict(),
                "inputs": [preview.as_dict() for preview in previews],
            }
        )
    elif not alone:
        heading = f"{counted(len(codes), 'file')}, {sum(map(bool, codes)):,} with errors"
        print_parts("", heading, *_rows(_cost_rows(total)))
        if count := torn.count():
            print_parts(
                f"{counted(count, 'prompt')} in several files: if the files are shards of one "
                "collection, "
                "add --together, so that rollouts are compared across files."
            )
    return code


def _lines(preview: "Preview") -> Iterator[str]:
    files = f" ({preview.files:,} files)" if preview.files > 1 else ""
    known = preview.plan.known
    pairing = preview.pairing
    in_journal = f", {known:,} of them in the journal" if known else ""
    comparisons = (
        f"{preview.counts.planned:,} with {pairing.strategy} × {pairing.repeats}{in_journal}"
    )
    yield from _rows(
        {"input": preview.input + files, **_content_rows(preview), "comparisons": comparisons}
    )
    yield from _rows(
        {
            **_cost_rows(preview.plan),
            "problems": f"{preview.problem_count:,}" if preview.problems else "none",
        }
    )
    yield from map(_problem_text, preview.problems[:_SHOWN_PROBLEMS])
    if len(preview.problems) > _SHOWN_PROBLEMS:
        yield f"  and {len(preview.problems) - _SHOWN_PROBLEMS:,} more kinds"


def _short_lines(preview: "Preview") -> Iterator[str]:
    formats = (
        ", ".join(name for name, _ in preview.counts.formats.most_common()) or "no known format"
    )
    rollouts = counted(preview.counts.rollouts, "rollout")
    groups = counted(preview.counts.groups, "group")
    yield (
        f"{preview.input}: {formats}; {rollouts} in {groups}; {counted(preview.plan.calls, 'call')}"
    )
    yield from map(_problem_text, preview.problems[:_SHOWN_PROBLEMS])


def _rows(rows: Mapping[str, str | list[str]]) -> Iterator[str]:
    for name, value in rows.items():
        first, *more = value if isinstance(value, list) else [value]
        if first:
            yield f"{name:<12} {first}"
        yield from (f"{'':<12} {line}" for line in more)


def _content_rows(preview: "Preview") -> dict[str, str | list[str]]:
    kinds = preview.contents.grouped_by
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
    if media := preview.counts.rollouts_with_media - preview.contents.with_media:
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
        "lines": f"{preview.counts.lines:,}, {preview.counts.rejects:,} rejected",
        "format": formats or "none recognised",
        "rollouts": f"{preview.counts.rollouts:,}",
        "not compared": _not_compared(preview),
        "texts": ", ".join(noted),
        "groups": [f"{preview.counts.groups:,}, by {names}" if names else "0", *regrouped],
        "group sizes": ", ".join(shown + rest),
        "view": ", ".join(
            f"{view} in {counted(count, 'group')}"
            for view, count in sorted(preview.contents.views.items())
        ),
    }


def _format_lines(name: str, count: int, reading: "Reading | None") -> Iterator[str]:
    """Yield the fields read from lines of a format, and the reading of its first line."""
    lines = f"{name}: {counted(count, 'line')}"
    if reading is None:
        yield lines
        return
    roles = [f"{role}: {', '.join(names)}" for role, names in reading.roles.items()]
    shown = ", ".join(reading.not_read[:_SHOWN_FIELDS]) + (
        ", ..." if len(reading.not_read) > _SHOWN_FIELDS else ""
    )
    yield "; ".join([lines, *roles, *([f"not read: {shown}"] if shown else [])])
    response = "no response" if reading.response is None else f"response {reading.response!r}"
    yield f"  line {reading.line}: prompt {reading.prompt!r}, {response}"


def _cost_rows(plan: "Estimate") -> dict[str, str | list[str]]:
    if not plan.calls:
        return {"calls": "0"}
    cost = "unknown: set --price-in and --price-out (per million tokens)"
    time = "unknown: set --concurrency, and try a few groups with --limit for the latency of a call"
    tokens = f"about {plan.tokens_in:,} in and {plan.tokens_out:,} out"
    return {
        "calls": f"{plan.calls:,}",
        "tokens": [tokens, f"(estimated from {plan.tokens_from})"],
        "cost": cost if plan.cost is None else f"about {plan.cost:,.2f}",
        "time": time if plan.time_s is None else f"about {duration_text(plan.time_s)}",
    }


def _problem_text(problem: "Problem") -> str:
    where = ", ".join(problem.where) + (", ..." if problem.count > len(problem.where) else "")
    place = f"{problem.unit}s {where}" if problem.count > 1 else f"{problem.unit} {where}"
    place = place if problem.unit in ("line", "item") else where
    return f"  {counted(problem.count, problem.unit)}: {text_of(problem.problem)} ({place})"


def _not_compared(preview: "Preview") -> str:
    """Return the numbers of rollouts that are not compared, with the reasons."""
    reasons = [
        f"{count:,} excluded ({reason})"
        for reason, count in preview.contents.excluded.most_common()
    ]
    if blank := preview.counts.blank_responses:
        reasons.append(counted(blank, "blank response"))
    if media := preview.contents.with_media:
        reasons.append(f"{media:,} with media (--images shows images to a judge that sees them)")
    count = preview.without_response
    if empty := max(0, count - preview.contents.excluded.total() - blank - media):
        reasons.append(f"{empty:,} without a response")
    return ": ".join(filter(None, (f"{count:,}" if count else "", ", ".join(reasons))))
