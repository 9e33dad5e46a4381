"""Check inputs: what they hold, what a run over them would ask, and what keeps rollouts from being scored."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from genrm_cli.errors import GenrmError, InputError
from genrm_cli.groups.compile import compile_rewards
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.inputs import Task, iter_tasks
from genrm_cli.jobs.index import InputIndex, format_of, index_input
from genrm_cli.jobs.preview.contents import NO_FIELD, Contents
from genrm_cli.jobs.preview.estimate import estimate_run
from genrm_cli.jobs.preview.problems import Problems
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing import RING_STRATEGIES
from genrm_cli.rollouts.grouping import TornPrompts
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.settings.table import changed
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.source import Source

_FORMAT = 2


def iter_reports(
    inputs: Sequence[str], run: RunContext, torn: TornPrompts | None = None
) -> Iterator[dict[str, Any] | GenrmError]:
    """Yield the report of each input of a command line, or the error of one that cannot be read.

    Args:
        inputs: as on the command line.
        run: settings, metrics and events.
        torn: gets the prompts of each input.

    Raises:
        UsageError: the settings name unknown components, or contradict the inputs.
        InputError: there is no input.
    """
    compile_rewards(run.settings)
    anywhere = changed(run.settings, any_prefix=True)  # nothing is written
    found = False
    torn = torn if torn is not None else TornPrompts()
    for task in iter_tasks(inputs, anywhere, run.s3):
        found = True
        if task.problem is not None:
            yield task.problem
            continue
        metrics = run.progress.begin()
        try:
            yield _report_on(task, replace(run, settings=anywhere, metrics=metrics), torn)
        except GenrmError as error:
            yield error
        finally:
            run.progress.end(metrics)
    if not found:
        raise InputError(f"{', '.join(inputs)}: no rollout files; expected names such as run.jsonl or run.jsonl.gz.")


def why_nothing_is_scored(report: dict[str, Any]) -> str | None:
    """Return why a run over an input could not score anything, and what to do; None if it could."""
    if report["can_be_scored"]:
        return None
    if not report["lines"]:
        return "the input is empty"
    if not report["rollouts"]:
        return f"no line can be read as a rollout: {report['problems'][0]['problem']}"
    if report["rollouts_without_response"] == report["rollouts"]:
        return "no rollout has a response that can be compared"
    if set(report["grouped_by"]) == {NO_FIELD}:
        return "no line has the field that --group-by names"
    if set(report["group_sizes"]) == {"1"}:
        by = " or ".join(report["grouped_by"])
        return f"every group (by {by}) has one rollout; name the field that rollouts of one task share with --group-by"
    return "no group has two rollouts that can be compared"


def _report_on(task: Task, run: RunContext, torn: TornPrompts) -> dict[str, Any]:
    """Return what an input holds and what a run over it would ask, JSON-ready."""
    settings, metrics = run.settings, run.metrics
    problems, contents = Problems(), Contents()
    with (
        task.sources(run) as sources,
        index_input(sources, run, problems.add_reject) as index,
    ):
        torn.add(index.table.prompts())
        for _, rows, group in index.iter_groups():
            problems.add_group(group, rows, index, settings.input.group_by)
            contents.add(group, index.plan)
        unanswered = sum(len(rows) - index.table.count_answered(rows) for rows in index.table.iter_groups())
        keys: dict[str, list[str]] = {}
        for number in range(len(sources.uris)):
            with sources.open(number) as source:
                _add_deciding_keys(keys, source, run)
                source.verify_unchanged()
        plan = estimate_run(index, run, task.places.scored)
        pairing = index.plan.pairing
    found = list(problems)
    return {
        "format": _FORMAT,
        "input": task.uri,
        "files": len(task.files),
        "can_be_scored": _can_be_scored(index, metrics),
        "lines": metrics.lines,
        "rejected_lines": metrics.rejects,
        "formats": dict(metrics.dialects.most_common()),
        "format_keys": keys,
        "rollouts": metrics.rollouts,
        "rollouts_without_response": unanswered,
        "blank_responses": metrics.blank,
        "truncated_responses": metrics.truncated,
        "excluded_rollouts": contents.excluded.total(),
        "excluded_reasons": dict(contents.excluded.most_common()),
        "rollouts_with_media": metrics.with_media,
        "stripped_tokens": metrics.stripped_tokens,
        "duplicate_rollouts": metrics.duplicates,
        "groups": metrics.groups,
        "grouped_by": dict(contents.grouped_by.most_common()),
        "group_sizes": {str(size): count for size, count in sorted(metrics.group_sizes.items())},
        "groups_with_mixed_prompts": metrics.groups_with_mixed_prompts,
        "contradicting_ids": metrics.contradicting_ids,
        "groups_mostly_blank": contents.mostly_blank,
        "views": dict(sorted(contents.views.items())),
        "example": contents.example,
        "strategy": pairing.strategy,
        "ring_k": pairing.ring_k if pairing.strategy in RING_STRATEGIES else None,
        "repeats": pairing.repeats,
        "comparisons": metrics.planned,
        "plan": plan,
        "requests_max": plan["calls"] * (1 + settings.limits.reask) * (1 + settings.limits.retries),
        "problem_count": sum(problem.count for problem in found),
        "problems": [problem.as_dict() for problem in found],
        "dialects": dict(sorted(metrics.dialects.items())),  # the old name of `formats`
        "judges": pairing.repeats,  # the old name of `repeats`
    }


def _can_be_scored(index: InputIndex, metrics: RunMetrics) -> bool:
    """Whether anything would be asked, or rewards need no judge."""
    return metrics.planned > 0 or (metrics.rollouts > 0 and bool(index.plan.rewards.components))


def _add_deciding_keys(found: dict[str, list[str]], source: Source, run: RunContext) -> None:
    """Add the keys by which each format was recognised, from its first line."""
    for line in source.iter_lines():
        if len(found) == len(run.metrics.dialects):
            break
        if line.oversize is not None:
            continue
        try:
            record = parse_record(line.raw)
            format_ = format_of(record, run.settings.input)
        except (BadLineError, UnreadableRecordError):
            continue
        if format_.name in run.metrics.dialects and format_.name not in found:
            found[format_.name] = [name for name in format_.fields.names() if name.partition(".")[0] in record]
