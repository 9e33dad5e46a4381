"""Preview inputs: their contents, the planned requests, and problems that prevent scoring."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from genrm_cli.errors import GenrmError, InputError, Message, Part, SettingRef, naming
from genrm_cli.groups.compile import compile_rewards
from genrm_cli.groups.group import Group
from genrm_cli.groups.judge_group import begin_group, view_for_judges
from genrm_cli.groups.plan import GroupPlan, PairingPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.decisions import Decision, Status, iter_decisions
from genrm_cli.jobs.due.inputs import Task, iter_tasks
from genrm_cli.jobs.estimate import Estimate, estimate_run
from genrm_cli.jobs.index import FirstRejects, InputIndex, Reject, index_input
from genrm_cli.jobs.score_file import refuse_unreadable
from genrm_cli.json_types import Record
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.rollouts.formats import Format
from genrm_cli.rollouts.grouping import TornPrompts
from genrm_cli.rollouts.reading.chosen_fields import reference_at
from genrm_cli.rollouts.reading.known_names import REFERENCES
from genrm_cli.rollouts.rollout import UnreadableRecordError
from genrm_cli.scored.parse_lines import format_of
from genrm_cli.settings import changed
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.leases import Leases
from genrm_cli.storage.source import Source
from genrm_cli.verdicts import Reason

_FORMAT = 1
_EXAMPLE_LINES = 4
_EXAMPLE_CHARS = 75  # of a line
_EXAMPLE_RESPONSES = 2
_NAMED = 5
_SHOWN_CHARS = 60  # of a prompt and a response
_NO_FIELD = "nothing, each rollout alone"
# What the beginning of a group's key says.
_KEY_KINDS = {
    "group": "_ng_group_id",
    "task": "task index",
    "example": "example_id",
    "scenario": "scenario.scenario_id",
    "prompt": "prompt text",
}


class ProblemKind(StrEnum):
    """Kinds of problems besides unreadable lines, each with its default text in reports."""

    NO_GROUP_FIELD = "no field that names its group"
    LINE_IS_GROUP = "no field that names its group: the line is a group of its own"
    DUPLICATE = "duplicate, with the group and index of another"
    NO_PROMPT = "no prompt: the judge would see the response only"
    NO_REFERENCE = "no reference answer"
    MOSTLY_BLANK = "more than half of its responses are blank"


@dataclass(slots=True)
class Problem:
    """One kind of problem.

    Attributes:
        problem: the problem, with details of its first occurrence.
        unit: what is affected: `line`, `item`, `rollout` or `group`.
        count: number of affected units.
        where: the first affected units: line numbers, or keys of groups.
    """

    problem: Message
    unit: str
    count: int = 0
    where: list[str] = field(default_factory=list)


class Problems:
    """The problems of an input by kind."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], Problem] = {}

    def ordered(self) -> list[Problem]:
        """Return the problems, the most frequent first."""
        return sorted(self._by_kind.values(), key=lambda problem: -problem.count)

    def add(self, unit: str, kind: str, where: object, *details: Part) -> None:
        """Count a problem; only the details of its first occurrence are kept."""
        problem = self._by_kind.setdefault((unit, kind), Problem(Message.of(*(details or (str(kind),))), unit))
        problem.count += 1
        if len(problem.where) < _NAMED:
            problem.where.append(str(where))

    def add_reject(self, reject: Reject) -> None:
        """Count a line that cannot be read."""
        self.add(reject.unit, reject.kind, reject.where, reject.reason)

    def add_group(self, group: Group, rows: list[int], index: InputIndex, group_by: str | None) -> None:
        """Count the problems of a group; `group_by` is the field that names groups, if the user set it."""
        table = index.table
        if group_by is not None and (group.key is None or group.key.startswith("line:")):
            is_alone = group.key is None
            kind = ProblemKind.NO_GROUP_FIELD if is_alone else ProblemKind.LINE_IS_GROUP
            result = "it is not compared" if is_alone else "the line is a group of its own"
            field_ = f"no field {group_by}, which ", SettingRef("group_by"), f" names: {result}"
            self.add("line", kind, index.where(rows[0]), *field_)
        for row in table.duplicates(rows):
            self.add("rollout", ProblemKind.DUPLICATE, f"line {index.where(row)}")
        for row, rollout in zip(rows, group.rollouts, strict=True):
            if rollout.is_comparable and not rollout.has_prompt and not rollout.is_session:
                self.add("rollout", ProblemKind.NO_PROMPT, f"line {index.where(row)}")
            if index.plan.reference_field is not None and rollout.is_comparable and rollout.reference is None:
                missing = (
                    "no reference answer: nothing under ",
                    SettingRef("reference_field", index.plan.reference_field),
                )
                self.add("rollout", ProblemKind.NO_REFERENCE, f"line {index.where(row)}", *missing)
        reasons = [why.reason for why in map(index.plan.why_not_compared, group.rollouts) if why is not None]
        blank = reasons.count(Reason.BLANK)
        if blank * 2 > len(rows) > 1:
            self.add("group", ProblemKind.MOSTLY_BLANK, group.key)
        if group.mixed is not None:
            self.add("group", group.mixed, group.key, group.mixed.text)


@dataclass(frozen=True, slots=True)
class ExampleResponse:
    """The beginning of a response, with its index in the group."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Example:
    """The first responses of a group as the judges are shown them."""

    group: str | None
    view: str
    prompt: str
    responses: list[ExampleResponse]


@dataclass(slots=True)
class Contents:
    """Counts of groups and rollouts, and an example group, comparable if there is one."""

    grouped_by: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    views: Counter[str] = field(default_factory=Counter)
    with_media: int = 0
    mostly_blank: int = 0
    example: Example | None = None
    _example_is_compared: bool = False

    def add(self, group: Group, plan: GroupPlan) -> None:
        """Add a group."""
        kind = _NO_FIELD if group.key is None else group.key.partition(":")[0]
        self.grouped_by[_KEY_KINDS.get(kind, kind)] += 1
        judged = begin_group(group, plan)
        excluded = [why for why in judged.not_compared if why is not None and why.reason.is_exclusion]
        self.excluded.update(why.detail if why.reason is Reason.EXCLUDED else why.text for why in excluded)
        self.with_media += sum(why is not None and why.reason is Reason.MEDIA for why in judged.not_compared)
        self.mostly_blank += len(judged.blank) * 2 > judged.size > 1
        if not judged.answered:
            return
        self.views[judged.view] += 1
        is_compared = len(judged.answered) > 1
        if self.example is None or is_compared > self._example_is_compared:
            view = view_for_judges(judged, group, plan)
            shown = zip(judged.answered, view.responses[:_EXAMPLE_RESPONSES], strict=False)
            prompt = _excerpt(view.conversation[-1].text if view.conversation else "")
            responses = [ExampleResponse(index, _excerpt(text)) for index, text in shown]
            self.example = Example(group.key, judged.view, prompt, responses)
            self._example_is_compared = is_compared


def _excerpt(text: str) -> str:
    """Return the beginning of a text, with a visible mark where lines are cut short or left out."""
    lines = [line if len(line) <= _EXAMPLE_CHARS else f"{line[:_EXAMPLE_CHARS]}…" for line in text.strip().split("\n")]
    if len(lines) > _EXAMPLE_LINES + 1:
        lines = [*lines[:_EXAMPLE_LINES], f"… and {len(lines) - _EXAMPLE_LINES:,} more lines"]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the first line of a format is read.

    Attributes:
        line: its line number.
        roles: the fields that are read, by role.
        not_read: its other fields.
        prompt: the beginning of the last turn of its prompt.
        response: the beginning of its first response; None without one.
    """

    line: int
    roles: dict[str, list[str]]
    not_read: list[str]
    prompt: str
    response: str | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The contents of an input, and the requests of a run over it.

    Attributes:
        counts: counts of lines, rollouts, groups and planned comparisons.
        without_response: rollouts that cannot be compared.
        readings: which field is read as what, in the first line of each format.
        can_be_scored: whether anything would be asked, or rewards need no judge.
    """

    input: str
    files: int
    counts: RunMetrics
    contents: Contents
    without_response: int
    readings: dict[str, Reading]
    pairing: PairingPlan
    plan: Estimate
    problems: list[Problem]
    can_be_scored: bool

    @property
    def problem_count(self) -> int:
        """The number of lines, rollouts and groups with problems."""
        return sum(problem.count for problem in self.problems)

    def as_dict(self) -> dict[str, Any]:
        """Return the report, JSON-ready."""
        counts, contents, pairing = self.counts, self.contents, self.pairing
        return {
            "format": _FORMAT,
            "input": self.input,
            "files": self.files,
            "can_be_scored": self.can_be_scored,
            "lines": counts.lines,
            "rejected_lines": counts.rejects,
            "formats": dict(counts.formats.most_common()),
            "readings": {name: asdict(reading) for name, reading in self.readings.items()},
            "rollouts": counts.rollouts,
            "rollouts_without_response": self.without_response,
            "blank_responses": counts.blank,
            "truncated_responses": counts.truncated,
            "excluded_rollouts": contents.excluded.total(),
            "excluded_reasons": dict(contents.excluded.most_common()),
            "rollouts_with_media": counts.with_media,
            "stripped_tokens": counts.stripped_tokens,
            "not_numbers": counts.not_numbers,
            "not_numbers_first": counts.not_numbers_first,
            "duplicate_rollouts": counts.duplicates,
            "groups": counts.groups,
            "grouped_by": dict(contents.grouped_by.most_common()),
            "group_sizes": {str(size): count for size, count in sorted(counts.group_sizes.items())},
            "groups_with_mixed_prompts": counts.groups_with_mixed_prompts,
            "contradicting_ids": counts.contradicting_ids,
            "groups_over_steps": counts.groups_over_steps,
            "groups_mostly_blank": contents.mostly_blank,
            "views": dict(sorted(contents.views.items())),
            "example": None if contents.example is None else asdict(contents.example),
            "strategy": pairing.strategy,
            "ring_k": pairing.ring_k if pairing.strategy == "ring" else None,
            "repeats": pairing.repeats,
            "comparisons": counts.planned,
            "plan": self.plan.as_dict(),
            "problem_count": self.problem_count,
            "problems": [
                {"problem": str(each.problem), "unit": each.unit, "count": each.count, "where": each.where}
                for each in self.problems
            ],
        }

    def error(self, *, strict: bool) -> InputError | None:
        """Return the error of an input that cannot be scored, or that `strict` refuses; None if a run would go on."""
        if (why := self._why_unscorable()) is not None:
            return InputError(f"{self.input}: nothing can be scored: ", why, ".")
        # Groups with mixed prompts are unscored, not refused.
        if strict and (self.counts.rejects or self.counts.duplicates):
            problems = f"{self.counts.rejects} bad lines and {self.counts.duplicates} duplicate rollouts"
            return InputError(f"{self.input}: {problems}, refused by ", SettingRef("strict"), ".")
        return None

    def _why_unscorable(self) -> Message | None:
        """Return why a run could score nothing, with a remedy; None if it could."""
        if self.can_be_scored:
            return None
        if not self.counts.lines:
            return Message.of("the input is empty")
        if not self.counts.rollouts:
            return Message.of("no line can be read as a rollout: ", self.problems[0].problem)
        if self.without_response == self.counts.rollouts:
            return Message.of("no rollout has a response that can be compared")
        if set(self.contents.grouped_by) == {_NO_FIELD}:
            return naming("no line has the field that $group_by names")
        if set(self.counts.group_sizes) == {1}:
            every = f"every group (by {' or '.join(self.contents.grouped_by)}) has one rollout"
            return Message.of(every, naming("; name the field that rollouts of one task share with $group_by"))
        return Message.of("no group has two rollouts that can be compared")


def iter_previews(
    inputs: Sequence[str], run: RunContext, torn: TornPrompts | None = None
) -> Iterator[Preview | GenrmError]:
    """Yield the preview of each input of a command line, or the error of one that cannot be read.

    `torn` gets the prompts of each input.

    Raises:
        UsageError: the settings name unknown components, or contradict the inputs.
        InputError: there is no input.
    """
    compile_rewards(run.settings)
    anywhere = changed(run.settings, any_prefix=True)  # nothing is written
    torn = torn if torn is not None else TornPrompts()
    task = None
    for task in iter_tasks(inputs, anywhere, run.s3):
        if task.problem is not None:
            yield task.problem
            continue
        metrics = run.progress.begin()
        try:
            yield _preview(task, replace(run, settings=anywhere, metrics=metrics), torn)
        except GenrmError as error:
            yield error
        finally:
            run.progress.end(metrics)
    if task is None:
        raise InputError(f"{', '.join(inputs)}: no rollout files; expected names such as run.jsonl or run.jsonl.gz.")


def _preview(task: Task, run: RunContext, torn: TornPrompts) -> Preview:
    settings, metrics = run.settings, run.metrics
    problems, contents = Problems(), Contents()
    with task.sources(run) as sources, index_input(sources, run, problems.add_reject) as index:
        torn.add(index.table.prompts())
        for _, rows, group in index.iter_groups():
            problems.add_group(group, rows, index, settings.input.group_by)
            contents.add(group, index.plan)
        unanswered = sum(len(rows) - index.table.count_answered(rows) for rows in index.table.iter_groups())
        readings: dict[str, Reading] = {}
        for number in range(len(sources.uris)):
            with sources.open(number) as source:
                _add_readings(readings, source, run)
                source.verify_unchanged()
        plan = estimate_run(index, run, task.places.scored)
    return Preview(
        task.uri,
        len(task.files),
        metrics,
        contents,
        unanswered,
        readings,
        index.plan.pairing,
        plan,
        problems=problems.ordered(),
        can_be_scored=metrics.planned > 0 or (metrics.rollouts > 0 and bool(index.plan.rewards.components)),
    )


def _add_readings(found: dict[str, Reading], source: Source, run: RunContext) -> None:
    """Add the reading of the first line of each format."""
    for line in source.iter_lines():
        if len(found) == len(run.metrics.formats):
            break
        if line.oversize is not None:
            continue
        try:
            record = parse_record(line.raw)
            format_ = format_of(record, run.settings.input)
            if format_.name in run.metrics.formats and format_.name not in found:
                found[format_.name] = _reading_of(line.number, record, format_, run)
        except (BadLineError, UnreadableRecordError):
            continue


def _reading_of(number: int, record: Record, format_: Format, run: RunContext) -> Reading:
    first = format_.read(record)[0]
    fields = format_.fields_in(record)
    roles = {role: list(names) for role, names in fields.roles().items() if role != "metadata"}
    shown = run.settings.input.reference_field
    roles["reference"] = [name for name in REFERENCES if name in record and name not in (*fields.response, shown)]
    if shown is not None and reference_at(record, shown) is not None:
        roles["reference, shown to the judge"] = [shown]
    roles = {role: names for role, names in roles.items() if names}
    read = {name.partition(".")[0] for names in roles.values() for name in names}
    return Reading(
        number,
        roles,
        [name for name in record if name not in read],
        first.prompt[-1].text[:_SHOWN_CHARS] if first.prompt else "",
        None if first.answer is None else first.answer[:_SHOWN_CHARS],
    )


def iter_dry_run(inputs: Sequence[str], run: RunContext) -> Iterator[Decision]:
    """Yield the planned action for each input; inputs to be scored are read and have a plan.

    Raises:
        UsageError: the inputs and settings contradict each other.
    """
    leases = Leases(run.s3, run.settings.storage.lease_expiry) if run.settings.storage.leases else None
    for decision in iter_decisions(inputs, run, leases):
        is_due = decision.status is Status.SCORE
        yield _planned(decision, replace(run, metrics=RunMetrics())) if is_due else decision


def _planned(decision: Decision, run: RunContext) -> Decision:
    first = FirstRejects()
    try:
        with decision.task.sources(run) as sources, index_input(sources, run, first) as index:
            refuse_unreadable(index, first)
            return replace(decision, plan=estimate_run(index, run, decision.task.places.scored))
    except GenrmError as error:
        return decision.failed(error)
