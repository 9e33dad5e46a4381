"""Look at an input without calling a judge."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from genrm_cli.groups.check import judge_specs
from genrm_cli.groups.compile import compile_rewards
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import begin_group, count_known, view_for_judges
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.cost import LARGE_GROUP, cost_of_run
from genrm_cli.jobs.due.inputs import output_places
from genrm_cli.jobs.index import InputIndex, Reject, index_input
from genrm_cli.jobs.journals import known_journal
from genrm_cli.jobs.judge_input import correct_plan
from genrm_cli.judging.journal import Journal
from genrm_cli.judging.open_judges import idle_judges
from genrm_cli.pairing import RING_STRATEGIES
from genrm_cli.rollouts.views import EXCLUDED
from genrm_cli.settings.panel import judges_of
from genrm_cli.settings.table import changed
from genrm_cli.storage.source import open_source

MAX_PROBLEMS = 100
_EXAMPLE_LINES = 10
_EXAMPLE_CHARS = 100  # of a line


class _Problems:
    """The first problems, for a person, and how many there are."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, problem: str) -> None:
        self.count += 1
        if len(self.first) < MAX_PROBLEMS:
            self.first.append(problem)

    def add_reject(self, reject: Reject) -> None:
        self.add(str(reject))

    def add_groups(self, index: InputIndex) -> None:
        """Add the problems of the groups."""
        table = index.table
        for rows in table.iter_groups():
            for row in table.duplicates(rows):
                self.add(f"line {table.place(row).line}: duplicate rollout (same group and index)")
            if table.prompts_differ(rows):
                lines = ", ".join(str(table.place(row).line) for row in rows[:8])
                key = index.read_group(rows[:1]).key
                self.add(f"group {key} (lines {lines}): the prompts differ, so it would stay unscored")
            elif (comparisons := index.plan.pairing.count(table.count_answered(rows))) > LARGE_GROUP:
                self.add(
                    f"group {index.read_group(rows[:1]).key}: {len(rows):,} rollouts need {comparisons:,} comparisons; "
                    "consider --strategy ring, a smaller --ring-k or --budget"
                )


@dataclass(slots=True)
class _Contents:
    """What the judges would be shown of the groups of an input.

    Attributes:
        excluded: rollouts by the reason for which they are excluded.
        views: groups by the view that was chosen.
        mostly_blank: groups more than half of whose responses are blank.
        example: the first response that would be compared, as judges are shown it; of a group that cannot be compared
            where no other is found.
    """

    excluded: Counter[str] = field(default_factory=Counter)
    views: Counter[str] = field(default_factory=Counter)
    mostly_blank: int = 0
    example: dict[str, Any] | None = None
    _example_is_compared: bool = False

    def add(self, group: Group, plan: GroupPlan, problems: _Problems) -> None:
        """Add a group."""
        judged = begin_group(group, plan)
        reasons = filter(None, judged.not_compared)
        self.excluded.update(reason.removeprefix(EXCLUDED) for reason in reasons if reason.startswith(EXCLUDED))
        if len(judged.blank) * 2 > judged.size > 1:
            self.mostly_blank += 1
            problems.add(f"group {group.key}: {len(judged.blank):,} of {judged.size:,} responses are blank")
        if not judged.answered:
            return
        self.views[judged.view] += 1
        is_compared = len(judged.answered) > 1
        if self.example is None or is_compared > self._example_is_compared:
            text = view_for_judges(judged, group, plan)[0].responses[0]
            index = judged.answered[0]
            self.example = {"group": group.key, "index": index, "view": judged.view, "text": _excerpt(text)}
            self._example_is_compared = is_compared


def _excerpt(text: str) -> str:
    """Return the beginning of a text, with a visible mark where lines are cut short or left out."""
    lines = [line if len(line) <= _EXAMPLE_CHARS else f"{line[:_EXAMPLE_CHARS]}…" for line in text.split("\n")]
    if len(lines) > _EXAMPLE_LINES + 1:
        lines = [*lines[:_EXAMPLE_LINES], f"… and {len(lines) - _EXAMPLE_LINES:,} more lines"]
    return "\n".join(lines)


def plan_from_journal(index: InputIndex, run: RunContext, input_uri: str) -> dict[str, Any]:
    """Return what a run would cost, less what its journal already holds if a judge is named."""
    settings = run.settings
    if not judges_of(settings)[0].judge.model:
        return cost_of_run(run.metrics, settings, None)
    anywhere = changed(settings, any_prefix=True)  # nothing is written
    path = known_journal(output_places(input_uri, anywhere).scored, anywhere)
    if path is None:
        return cost_of_run(run.metrics, settings, None)
    with Journal(str(path), read_only=True) as journal:
        judges = idle_judges(judge_specs(settings), run.open_options, journal)
        counts = [count_known(group, index.plan, judges) for _, _, group in index.iter_groups()]
        run.metrics.known = sum(known for _, known in counts)
        correct_plan(run.metrics, sum(requests for requests, _ in counts))
        return cost_of_run(run.metrics, settings, journal)


def validate_input(input_uri: str, run: RunContext) -> dict[str, Any]:
    """Return what an input holds and what a run over it would ask, JSON-ready.

    Raises:
        GenrmError: the input cannot be read, or the settings name unknown components.
    """
    settings, metrics = run.settings, run.metrics
    compile_rewards(settings)
    problems = _Problems()
    with (
        open_source(input_uri, run.s3, settings.input.max_line_bytes) as source,
        index_input(source, run, problems.add_reject) as index,
    ):
        problems.add_groups(index)
        contents = _Contents()
        for _, _, group in index.iter_groups():
            contents.add(group, index.plan, problems)
        unanswered = sum(len(rows) - index.table.count_answered(rows) for rows in index.table.iter_groups())
        source.verify_unchanged()
        plan = plan_from_journal(index, run, input_uri)
        pairing = index.plan.pairing
    return {
        "format": 1,
        "input": input_uri,
        "lines": metrics.lines,
        "rejected_lines": metrics.rejects,
        "dialects": dict(sorted(metrics.dialects.items())),
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
        "group_sizes": {str(size): count for size, count in sorted(metrics.group_sizes.items())},
        "groups_with_mixed_prompts": metrics.groups_with_mixed_prompts,
        "groups_mostly_blank": contents.mostly_blank,
        "views": dict(sorted(contents.views.items())),
        "example": contents.example,
        "strategy": pairing.strategy,
        "ring_k": pairing.ring_k if pairing.strategy in RING_STRATEGIES else None,
        "repeats": pairing.repeats,
        "comparisons": metrics.planned,
        "plan": plan,
        "requests_max": plan["calls"] * (1 + settings.limits.reask) * (1 + settings.limits.retries),
        "problem_count": problems.count,
        "problems": problems.first,
        "judges": pairing.repeats,  # the old name of `repeats`
    }
