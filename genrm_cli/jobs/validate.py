"""Look at an input without calling a judge."""

from dataclasses import replace
from typing import Any

from genrm_cli.groups.components import check_components
from genrm_cli.groups.judge_set import idle_judges
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.cost import plan_of
from genrm_cli.jobs.index import Reject, index_input, plan_within_budget, read_group
from genrm_cli.jobs.inputs import output_places
from genrm_cli.jobs.journals import known_journal
from genrm_cli.jobs.judge_groups import take_stock
from genrm_cli.judging.journal import Journal
from genrm_cli.pairing import RING_STRATEGIES
from genrm_cli.rollouts.grouping import GroupTable
from genrm_cli.settings import changed
from genrm_cli.settings.panel import judges_of
from genrm_cli.storage.source import Source, open_source

MAX_PROBLEMS = 100


class _Problems:
    """The first problems, in words, and how many there are."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, problem: str) -> None:
        self.count += 1
        if len(self.first) < MAX_PROBLEMS:
            self.first.append(problem)

    def add_reject(self, reject: Reject) -> None:
        self.add(f"line {reject.line}: {reject.reason}")


def plan_from_journal(source: Source, table: GroupTable, run: RunContext, input_uri: str) -> dict[str, Any]:
    """Return what a run would have before it, with what its journal already holds if a judge is named."""
    if not judges_of(run.settings)[0].judge.model:
        return plan_of(run.tally, run.settings, None)
    anywhere = changed(run.settings, any_prefix=True)  # nothing is written
    path = known_journal(output_places(input_uri, anywhere).scored, anywhere)
    if path is None:
        return plan_of(run.tally, run.settings, None)
    with Journal(str(path)) as journal:
        planned = replace(run, settings=plan_within_budget(table, run.settings))
        take_stock(source, table, planned, idle_judges(run.settings), journal)
        return plan_of(run.tally, run.settings, journal)


def validate_input(input_uri: str, run: RunContext) -> dict[str, Any]:
    """Return what an input holds and what a run over it would ask.

    Raises:
        GenrmError: the input cannot be read, or the settings name components that there are not.
    """
    settings, tally = run.settings, run.tally
    check_components(settings)
    problems = _Problems()
    unanswered = 0
    with open_source(input_uri, run.s3, settings.input.max_line_bytes) as source:
        table = index_input(source, settings, tally, problems.add_reject)
        for rows in table.iter_groups():
            unanswered += len(rows) - table.count_answered(rows)
            for row in table.duplicates(rows):
                problems.add(f"line {table.place(row).line}: this rollout was there before (same group and index)")
            if table.prompts_differ(rows):
                key = read_group(source, table, rows[:1], settings).key
                lines = ", ".join(str(table.place(row).line) for row in rows[:8])
                problems.add(f"group {key} (lines {lines}): the prompts differ, so it would stay unscored")
        source.verify_unchanged()
        plan = plan_from_journal(source, table, run, input_uri)
        planned = plan_within_budget(table, settings)
    return {
        "input": input_uri,
        "lines": tally.lines,
        "rejected_lines": tally.rejects,
        "dialects": dict(sorted(tally.dialects.items())),
        "rollouts": tally.rollouts,
        "rollouts_without_response": unanswered,
        "duplicate_rollouts": tally.duplicates,
        "groups": tally.groups,
        "group_sizes": {str(size): count for size, count in sorted(tally.group_sizes.items())},
        "groups_with_mixed_prompts": tally.groups_with_mixed_prompts,
        "strategy": planned.pairing.strategy,
        "ring_k": planned.pairing.ring_k if planned.pairing.strategy in RING_STRATEGIES else None,
        "judges": settings.pairing.repeats,
        "comparisons": tally.planned,
        "plan": plan,
        "requests_max": plan["calls"] * (1 + settings.limits.reask) * (1 + settings.limits.retries),
        "problem_count": problems.count,
        "problems": problems.first,
    }
