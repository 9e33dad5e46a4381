"""`genrm validate`: check inputs and show what a run would ask, without calling a judge."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from genrm_cli.cli.console import counted, print_json, print_text, say_error
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import Invocation, with_settings
from genrm_cli.errors import GenrmError, InputError, worst_exit_code

_SHOWN_PROBLEMS = 12
_SHOWN_SIZES = 6
_OMITTED = (
    *("min_age", "parallel_files", "segment_calls", "segment_age", "force", "dry_run", "keep_replies"),
    *("leases", "lease_expiry", "lock"),
)
Report = dict[str, Any]


@with_settings("Input", "Pairs", "Judge", "Limits", "Journal", "Output", "Storage", omit=_OMITTED)
def validate(
    rollouts: Annotated[
        list[str],
        typer.Argument(
            metavar="ROLLOUTS",
            help="JSONL files (.gz, .zst too), folders, s3://bucket/key, s3://bucket/prefix/, patterns; - for stdin.",
        ),
    ],
    invocation: Invocation,
) -> int:
    """Check rollouts without calling a judge: input formats, groups, problems, calls, tokens and cost.

    Exits with code 3 if nothing in an input can be scored; with --strict, also if a line is invalid or a rollout is
    duplicated.

    Example: genrm validate rollouts.jsonl --strategy all_pairs --price-in 0.5 --price-out 2
    """
    from genrm_cli.jobs.context import new_run
    from genrm_cli.jobs.due.inputs import is_one_input
    from genrm_cli.jobs.preview.estimate import total_of
    from genrm_cli.jobs.preview.validate import iter_reports
    from genrm_cli.rollouts.grouping import TornPrompts

    settings, torn = invocation.settings, TornPrompts()
    alone = is_one_input(rollouts) or settings.input.together
    plans: list[Report] = []
    reports: list[Report] = []
    codes: list[int] = []
    as_json = settings.output.json_output
    with watched(settings) as (progress, events):
        for report in iter_reports(rollouts, new_run(settings, progress=progress, on_event=events), torn):
            error = report if isinstance(report, GenrmError) else _error_of(report, strict=settings.input.strict)
            codes.append(0 if error is None else error.exit_code)
            if not isinstance(report, GenrmError):
                plans.append(report["plan"])
                _tell(report, alone=alone, as_json=as_json)
                reports += [report] if as_json and not alone else []
            if error is not None and alone:
                raise error
            if error is not None:
                say_error(error)
    code = worst_exit_code(codes)
    if not alone and as_json:
        of_all = {"files": len(codes), "prompts_in_several_files": torn.count(), "exit_code": code}
        print_json({**of_all, "plan": total_of(plans), "inputs": reports})
    elif not alone:
        heading = f"{counted(len(codes), 'file')}, {sum(map(bool, codes)):,} with errors"
        print_text(f"\n{heading}\n" + "\n".join(_rows(_cost_rows(total_of(plans)))))
        if count := torn.count():
            print_text(
                f"{counted(count, 'prompt')} in several files: if the files are shards of one collection, "
                "add --together, so that rollouts are compared across files."
            )
    return code


def _error_of(report: Report, *, strict: bool) -> InputError | None:
    """Return the error of an input that cannot be scored, or is refused by --strict."""
    from genrm_cli.jobs.preview.validate import why_nothing_is_scored

    if (why := why_nothing_is_scored(report)) is not None:
        return InputError(f"{report['input']}: nothing can be scored: {why}.")
    # `genrm score --strict` refuses these; groups with mixed prompts are unscored, not refused.
    bad, duplicates = report["rejected_lines"], report["duplicate_rollouts"]
    if not strict or not (bad or duplicates):
        return None
    problems = f"{counted(bad, 'invalid line')} and {counted(duplicates, 'duplicate rollout')}"
    return InputError(f"{report['input']}: {problems}, refused by --strict.")


def _tell(report: Report, *, alone: bool, as_json: bool) -> None:
    if alone and as_json:
        print_json(report)
    elif not as_json:
        print_text("\n".join(_lines(report) if alone else _short_lines(report)))


def _lines(report: Report) -> Iterator[str]:
    files = f" ({report['files']:,} files)" if report["files"] > 1 else ""
    yield from _rows({"input": report["input"] + files, **_content_rows(report), **_comparison_rows(report)})
    yield from _problem_lines(report)
    if report["example"] is not None:
        yield from _example_lines(report["example"])


def _short_lines(report: Report) -> Iterator[str]:
    """Yield one line about one of several inputs, and its problems."""
    formats = ", ".join(report["formats"]) or "no known format"
    rollouts, groups = counted(report["rollouts"], "rollout"), counted(report["groups"], "group")
    yield f"{report['input']}: {formats}; {rollouts} in {groups}; {counted(report['plan']['calls'], 'call')}"
    yield from map(_problem_text, report["problems"][:_SHOWN_PROBLEMS])


def _rows(rows: dict[str, Any]) -> Iterator[str]:
    for name, value in rows.items():
        first, *more = value if isinstance(value, list) else [value]
        if first:
            yield f"{name:<12} {first}"
        yield from (f"{'':<12} {line}" for line in more)


def _content_rows(report: Report) -> Report:
    keys = report["format_keys"]
    kinds = report["grouped_by"]
    names = ", ".join(f"{name} ({count:,})" if len(kinds) > 1 else name for name, count in kinds.items())
    sizes = sorted(report["group_sizes"].items(), key=lambda each: -each[1])
    shown = [f"{count:,} of {size}" for size, count in sizes[:_SHOWN_SIZES]]
    rest = [f"{len(sizes) - _SHOWN_SIZES} more sizes"] if len(sizes) > _SHOWN_SIZES else []
    return {
        "lines": f"{report['lines']:,}, {report['rejected_lines']:,} rejected",
        "format": [
            f"{name}: {counted(count, 'line')} with {', '.join(keys.get(name, []))}"
            for name, count in report["formats"].items()
        ]
        or "none recognised",
        "rollouts": f"{report['rollouts']:,}",
        "not compared": _not_compared(report),
        "texts": ", ".join(_noted_texts(report)),
        "groups": [f"{report['groups']:,}, by {names}" if names else "0", *_regrouped(report)],
        "group sizes": ", ".join(shown + rest),
        "view": ", ".join(f"{view} in {counted(count, 'group')}" for view, count in report["views"].items()),
    }


def _regrouped(report: Report) -> Iterator[str]:
    if ids := report["contradicting_ids"]:
        yield f"{counted(ids, 'task id')} of several prompts: their rollouts are grouped by the prompt"


def _comparison_rows(report: Report) -> Report:
    known = report["plan"]["known"]
    in_journal = f", {known:,} of them in the journal" if known else ""
    comparisons = f"{report['comparisons']:,} with {report['strategy']} × {report['repeats']}{in_journal}"
    rows = {"comparisons": comparisons, **_cost_rows(report["plan"])}
    if report["requests_max"]:
        rows["calls"] += f", at most {report['requests_max']:,} with all retries"
    return rows


def _cost_rows(plan: Report) -> Report:
    if not plan["calls"]:
        return {"calls": "0"}
    cost = "unknown: set --price-in and --price-out (per million tokens)"
    return {
        "calls": f"{plan['calls']:,}",
        "tokens": [
            f"about {plan['tokens_in']:,} in and {plan['tokens_out']:,} out",
            f"(estimated from {plan['tokens_from']})",
        ],
        "cost": cost if plan["cost"] is None else f"about {plan['cost']:,.2f}",
    }


def _problem_lines(report: Report) -> Iterator[str]:
    problems = report["problems"]
    yield from _rows({"problems": f"{report['problem_count']:,}" if problems else "none"})
    yield from map(_problem_text, problems[:_SHOWN_PROBLEMS])
    if len(problems) > _SHOWN_PROBLEMS:
        yield f"  and {len(problems) - _SHOWN_PROBLEMS:,} more kinds"


def _problem_text(problem: Report) -> str:
    where = ", ".join(problem["where"]) + (", ..." if problem["count"] > len(problem["where"]) else "")
    place = f"{problem['unit']}s {where}" if problem["count"] > 1 else f"{problem['unit']} {where}"
    place = place if problem["unit"] in ("line", "item") else where
    return f"  {counted(problem['count'], problem['unit'])}: {problem['problem']} ({place})"


def _example_lines(example: Report) -> Iterator[str]:
    yield from _rows({"example": f"group {example['group']}, as the judge sees it (`genrm show` prints all)"})
    texts: Iterable[tuple[str, str]] = [
        *([("prompt", example["prompt"])] if example["prompt"] else []),
        *((f"rollout {each['index']}", each["text"]) for each in example["responses"]),
    ]
    for name, text in texts:
        yield f"  {name}"
        yield from (f"  | {line}" for line in text.split("\n"))


def _not_compared(report: Report) -> str:
    """Return the numbers of rollouts that are not compared, with the reasons."""
    reasons = [f"{count:,} excluded ({reason})" for reason, count in report["excluded_reasons"].items()]
    if blank := report["blank_responses"]:
        reasons.append(counted(blank, "blank response"))
    if media := report["rollouts_with_media"]:
        reasons.append(f"{media:,} with media")
    count = report["rollouts_without_response"]
    return ": ".join(filter(None, (f"{count:,}" if count else "", ", ".join(reasons))))


def _noted_texts(report: Report) -> Iterator[str]:
    if report["truncated_responses"]:
        yield f"{report['truncated_responses']:,} truncated"
    if report["stripped_tokens"]:
        yield f"{counted(report['stripped_tokens'], 'chat-template token')} stripped"
