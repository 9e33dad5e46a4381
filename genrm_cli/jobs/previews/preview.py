"""Preview inputs: their contents, the planned requests, and problems that prevent scoring."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from genrm_cli.errors import GenrmError, InputError, Message, Part, SettingRef, naming
from genrm_cli.groups.asking.begin import begin_group
from genrm_cli.groups.compile import compile_rewards
from genrm_cli.groups.group import Group
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.advise_grouping import describe_grouping, describe_unread
from genrm_cli.jobs.due.decisions import Decision, Status, iter_decisions
from genrm_cli.jobs.due.inputs import NO_ROLLOUT_FILES, Task, iter_tasks
from genrm_cli.jobs.due.refusals import refuse_input
from genrm_cli.jobs.estimate import RunEstimate, estimate_other_mode, estimate_run
from genrm_cli.jobs.index import InputIndex, Reject, index_input
from genrm_cli.metrics.plan_reliability import LISTS
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.pairing.pairs import PairingPlan
from genrm_cli.rollouts.row_groups import TornPrompts
from genrm_cli.scored.parse_lines import settled_fields
from genrm_cli.settings import changed
from genrm_cli.verdicts import Reason

_FORMAT = 1
_SHOWN_CHARS = 60  # of a prompt and a response: the beginning fits a line of a terminal
_NAMED = 5  # places of a kind of problem, which fit a line
_NO_FIELD = "nothing, each rollout alone"
# The source of a group's key, by its prefix.
_KEY_KINDS = {
    "group": "_ng_group_id",
    "task": "task index",
    "example": "example_id",
    "scenario": "scenario.scenario_id",
    "prompt": "prompt text",
}
# Counts of the index that the report has under the same name.
_COUNTS = (
    "lines",
    "rejected_lines",
    "rollouts",
    "blank_responses",
    "truncated_responses",
    "rollouts_with_media",
    "stripped_tokens",
    "not_numbers",
    "not_numbers_first",
    "duplicate_rollouts",
    "groups",
    "groups_with_mixed_prompts",
    "groups_mostly_blank",
    "contradicting_ids",
    "groups_over_steps",
)


class FormatReading(Struct, frozen=True):
    """How the first line of a format is read: what each field was taken for, the beginnings of its
    prompt and first response.
    """

    line: int
    roles: dict[str, list[str]]
    prompt: str
    response: str | None


class Problem(Struct):
    """One kind of problem, as its first occurrence describes it, and where the first of the
    affected units are.

    The unit is `line`, `item`, `rollout` or `group`; groups are named by their keys.
    """

    problem: Message
    unit: str
    count: int = 0
    where: list[str] = []


class Preview(Struct):
    """The contents of an input, and the requests of a run over it.

    Attributes:
        counts: of the index.
        grouped_by: groups by the source of their keys.
        other_mode: the other way in which a chat model could judge, and its plan.
        strategy: as in the metrics of the run; `lists` if all judges are shown lists.
        excluded: rollouts that an input excludes, by reason.
        views: groups by the view of their responses.
        can_be_scored: whether anything would be asked, or rewards need no judge.
        error: of an input that cannot be scored, or that `strict` refuses; None if a run would go
            on.
    """

    input: str
    files: int
    counts: RunMetrics
    pairing: PairingPlan
    strategy: str
    plan: RunEstimate = field(default_factory=RunEstimate)
    other_mode: tuple[str, RunEstimate] | None = None
    grouped_by: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    views: Counter[str] = field(default_factory=Counter)
    with_media: int = 0
    without_response: int = 0
    readings: dict[str, FormatReading] = {}
    can_be_scored: bool = False
    error: InputError | None = None
    _problems: dict[tuple[str, str], Problem] = {}

    @property
    def problems(self) -> list[Problem]:
        """The problems by kind, the most frequent first."""
        return sorted(self._problems.values(), key=lambda problem: -problem.count)

    @property
    def problem_count(self) -> int:
        """The number of lines, rollouts and groups with problems."""
        return sum(problem.count for problem in self.problems)

    def add_problem(self, unit: str, kind: str, where: object, *details: Part) -> None:
        """Count a problem; `details` describe it if its kind does not."""
        message = Message.of(*(details or (kind,)))
        problem = self._problems.setdefault((unit, kind), Problem(message, unit))
        problem.count += 1
        if len(problem.where) < _NAMED:
            problem.where.append(str(where))

    def add_group(self, group: Group, rows: list[int], index: InputIndex) -> None:
        """Count a group, and its problems."""
        plan = index.plan
        kind = _NO_FIELD if group.key is None else group.key.partition(":")[0]
        by = _KEY_KINDS.get(kind, kind)
        if kind != _NO_FIELD and group.rollouts[0].principle is not None:
            by += " and principle"
        self.grouped_by[by] += 1
        judged = begin_group(group, plan)
        for why in judged.not_compared:
            if why is None:
                continue
            self.with_media += why.reason is Reason.MEDIA
            if why.reason.is_exclusion:
                self.excluded[why.detail if why.reason is Reason.EXCLUDED else why.text] += 1
        if judged.answered:
            self.views[judged.view] += 1
        if len(judged.blank) * 2 > judged.size > 1:
            self.counts.groups_mostly_blank += 1
            self.add_problem("group", "more than half of its responses are blank", group.key)
        if group.mixed is not None:
            self.add_problem("group", group.mixed.text, group.key)
        if index.settings.group_by is not None and kind in (_NO_FIELD, "line"):
            setting = SettingRef("group_by")
            result = "it is not compared" if group.key is None else "the line is a group of its own"
            missing = f"no field {index.settings.group_by}, which ", setting, f" names: {result}"
            self.add_problem("line", result, index.where(rows[0]), *missing)
        for row in index.table.duplicates(rows):
            duplicate = "duplicate, with the group and index of another"
            self.add_problem("rollout", duplicate, f"line {index.where(row)}")
        for row, rollout in zip(rows, group.rollouts, strict=True):
            if not rollout.is_comparable:
                continue
            where = f"line {index.where(row)}"
            if not rollout.has_prompt and not rollout.is_session:
                no_prompt = "no prompt: the judge would see the response only"
                self.add_problem("rollout", no_prompt, where)
            for name in plan.missing_fields(rollout):
                setting = SettingRef(name, getattr(plan, name))
                self.add_problem("rollout", name, where, "nothing under ", setting)

    def as_dict(self) -> dict[str, Any]:
        """Return the report, JSON-ready."""
        counts = self.counts
        pairing = self.pairing
        return {
            "format": _FORMAT,
            "input": self.input,
            "files": self.files,
            "can_be_scored": self.can_be_scored,
            **{name: getattr(counts, name) for name in _COUNTS},
            "formats": dict(counts.formats.most_common()),
            "readings": {name: to_builtins(reading) for name, reading in self.readings.items()},
            "rollouts_without_response": self.without_response,
            "excluded_reasons": dict(self.excluded.most_common()),
            "grouped_by": dict(self.grouped_by.most_common()),
            "group_sizes": {str(size): count for size, count in sorted(counts.group_sizes.items())},
            "views": dict(sorted(self.views.items())),
            "goal": pairing.goal,
            "strategy": self.strategy,
            "ring_k": pairing.ring_k if self.strategy == "ring" else None,
            "repeats": pairing.repeats,
            "comparisons": counts.comparisons_planned,
            "plan": self.plan.as_dict(),
            "other_mode": self.other_mode
            and {"judging": self.other_mode[0], "plan": self.other_mode[1].as_dict()},
            "problem_count": self.problem_count,
            "problems": [
                to_builtins(each) | {"problem": str(each.problem)} for each in self.problems
            ],
        }


def _why_unscorable(
    preview: Preview, advise: Callable[[], Message], unread: Callable[[], Message | None]
) -> Message:
    if not preview.counts.lines:
        return Message.of("the input is empty")
    if preview.without_response == preview.counts.rollouts:
        return Message.of("no rollout has a response that can be compared")
    if set(preview.grouped_by) == {_NO_FIELD}:
        return naming("no line has the field that $group_by names")
    if set(preview.counts.group_sizes) == {1}:
        every = f"every group (by {' or '.join(preview.grouped_by)}) has one rollout"
        return Message.of(every, "; ", advise())
    detail = unread()
    remedy = () if detail is None else ("; ", detail)
    return Message.of("no group has two rollouts that can be compared", *remedy)


def iter_previews(
    inputs: Sequence[str], run: RunContext, torn: TornPrompts | None = None
) -> Iterator[Preview | GenrmError]:
    """Yield the preview of each input, whose prompts go to `torn`, or the error of one that cannot
    be read.
    """
    compile_rewards(run.settings)  # settings that no run accepts are refused before any input
    anywhere = changed(run.settings, any_prefix=True)  # nothing is written
    torn = torn if torn is not None else TornPrompts()
    task = None
    for task in iter_tasks(inputs, anywhere, run.on_event):
        if task.problem is not None:
            yield task.problem
            continue
        metrics = run.progress.begin()
        try:
            yield preview_task(
                task, dataclasses.replace(run, settings=anywhere, metrics=metrics), torn
            )
        except GenrmError as error:
            yield error
        finally:
            run.progress.end(metrics)
    if task is None:
        raise InputError(f"{', '.join(inputs)}: {NO_ROLLOUT_FILES}.")


def preview_task(task: Task, run: RunContext, torn: TornPrompts | None = None) -> Preview:
    """Preview one input, whose prompts go to `torn`; blocks.

    Raises:
        GenrmError: it cannot be opened or decoded.
    """
    metrics = run.metrics
    preview = Preview(task.uri, len(task.files), metrics, run.plan.pairing, "")

    def reject(bad: Reject) -> None:
        preview.add_problem(bad.unit, bad.kind, bad.where, bad.reason)

    with task.sources(run) as sources, index_input(sources, run, reject) as index:
        preview.pairing = index.plan.pairing
        preview.strategy = LISTS if index.plan.is_listwise else index.plan.pairing.strategy
        try:
            refuse_input(index, strict=run.settings.input.strict)
        except InputError as error:
            preview.error = error
        if torn is not None:
            torn.add(index.table.prompts())
        for _, rows, group in index.iter_groups():
            preview.add_group(group, rows, index)
            preview.without_response += len(rows) - len(index.table.compared(rows))
        settled = settled_fields(run.settings.input)
        for name, (line, record, format_, rollout) in index.first_lines.items():
            preview.readings[name] = FormatReading(
                line,
                format_.roles_in(record, settled),
                rollout.prompt[-1].text[:_SHOWN_CHARS] if rollout.prompt else "",
                None if rollout.answer is None else rollout.answer[:_SHOWN_CHARS],
            )
        groups = (group for _, _, group in index.iter_groups())
        preview.plan = estimate_run(groups, index.plan, run, task.places.journal_uri)
        preview.other_mode = estimate_other_mode(index, run)

        def advise() -> Message:
            with sources.open(0) as source:
                return describe_grouping(source, run.settings.input)

        def unread() -> Message | None:
            with sources.open(0) as source:
                return describe_unread(source, run.settings.input)

        has_components = metrics.rollouts > 0 and bool(index.plan.rewards.settings.components)
        preview.can_be_scored = metrics.comparisons_planned > 0 or has_components
        if not preview.can_be_scored and preview.error is None:
            why = _why_unscorable(preview, advise, unread)
            preview.error = InputError(f"{task.uri}: nothing can be scored: ", why, ".")
        elif 2 * metrics.group_sizes[1] > metrics.rollouts:
            few = f"{metrics.group_sizes[1]} of {metrics.rollouts} are alone in their group; "
            preview.add_problem("rollout", "alone", "", few, advise())
    return preview


def iter_dry_run(
    inputs: Sequence[str], run: RunContext
) -> Iterator[tuple[Decision, Preview | None]]:
    """Yield the planned action for each input, and the preview of those that can be read and are
    due.
    """
    for decision in iter_decisions(inputs, run):
        if decision.status is not Status.SCORE:
            yield decision, None
            continue
        try:
            preview = preview_task(decision.task, dataclasses.replace(run, metrics=RunMetrics()))
        except GenrmError as error:
            yield decision.failed(error), None
        else:
            planned = replace(decision, plan=preview.plan)
            yield planned if preview.error is None else planned.failed(preview.error), preview
