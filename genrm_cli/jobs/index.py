"""Index an input: parse every line once, find the groups, spool the texts.

Rollouts of a group may be anywhere in the input, so judging cannot begin before its end. Memory
holds some tens of bytes of a rollout: its group, its place and its lengths. Texts are in a spool on
disk, and a group is read back when it is judged.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from genrm_cli.errors import InputError, Message, SettingRef
from genrm_cli.groups.group import Group
from genrm_cli.groups.plan import MAX_COMPARED, GroupPlan
from genrm_cli.jobs.context import RunContext
from genrm_cli.jobs.due.sources import Sources
from genrm_cli.json_types import Record
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.rewards.component import reads_record
from genrm_cli.rollouts.declared import parse_requirement
from genrm_cli.rollouts.formats import Format
from genrm_cli.rollouts.group_keys import group_key, step_of, value_at
from genrm_cli.rollouts.grouping import GroupTable, Place
from genrm_cli.rollouts.gym_view import as_gym, digest_of_gym_input, refuse_as_gym
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.rollouts.row_groups import RareNumbers
from genrm_cli.rollouts.views import unseen_media
from genrm_cli.scored.parse_lines import parse_line
from genrm_cli.scored.rollout_store import RolloutStore
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.encoding.records import BadLineError
from genrm_cli.storage.source import Source
from genrm_cli.verdicts import Reason

_SHOWN_CHARS = 200  # of a bad line: enough to recognise it
_SEE_FIELDS = "; `genrm validate` names the fields."
_NAMED = 3  # lines that an error names: enough to see whether they have something in common


class Reject(Struct, frozen=True):
    """A line that could not be read, the reason, and its beginning.

    Attributes:
        kind: rejects of one kind differ only in details of their reasons.
        file: of a set of files; None if the input is a single file.
    """

    line: int
    reason: Message
    text: str
    kind: str
    unit: str = "line"
    file: str | None = None

    @property
    def where(self) -> str:
        """The line number, after the file name in a set."""
        return str(self.line) if self.file is None else f"{self.file}:{self.line}"

    @property
    def message(self) -> Message:
        """The line and the reason."""
        return Message.of(f"{self.unit} {self.where}: ", self.reason)

    def as_dict(self) -> dict[str, Any]:
        """Return the line of the rejects file, JSON-ready."""
        of_file = {} if self.file is None else {"input": self.file}
        return {**of_file, "line": self.line, "reason": str(self.reason), "text": self.text}


class InputIndex(AbstractContextManager["InputIndex"]):
    """The rollouts of an input, in groups. Use it as a context manager.

    Attributes:
        plan: plan of the run.
        rejects: the first few lines that could not be read.
        first_lines: the first line of each format: its number, its record, the format and its
            first rollout.
    """

    def __init__(self, sources: Sources, run: RunContext) -> None:
        self.sources = sources
        self.plan = run.plan
        self.settings = run.settings.input
        self.metrics = run.metrics
        self.shard = run.shard
        self.lines: list[int] = []
        self.unit = "line"
        self.rejects: list[Reject] = []
        self.first_lines: dict[str, tuple[int, Record, Format, Rollout]] = {}
        self.table = GroupTable(spans_files=sources.are_many)
        self.steps = RareNumbers("q")
        self._formats = RareNumbers("B")  # by their order in `first_lines`
        self._texts: RolloutStore[Record | None] = RolloutStore()
        components = self.plan.rewards.settings.components
        self._with_records = bool(self.plan.graders) or any(map(reads_record, components))

    def __exit__(self, *_: object) -> None:
        self._texts.__exit__(None, None, None)

    def append(
        self,
        key: str | None,
        rollout: Rollout,
        place: Place,
        record: dict[str, Any],
        format_: Format,
    ) -> None:
        """Add the rollout of the next row."""
        self.metrics.truncated_responses += rollout.is_truncated
        self.metrics.rollouts_with_media += bool(unseen_media(rollout, self.plan.view))
        self.metrics.stripped_tokens += rollout.stripped_tokens
        # Records are as large as texts: they are spooled only for what reads them.
        own = format_.own_record(record, place.position) if self._with_records else None
        prompt = None
        if self.plan.shows_as_gym:
            rollout = as_gym(rollout, format_.own_record(record, place.position))
            prompt = digest_of_gym_input(record)
        why = self.plan.why_not_compared(rollout)
        self.metrics.blank_responses += why is not None and why.reason is Reason.BLANK
        if why is None and (missing := self.plan.missing_fields(rollout)):
            self.metrics.missing_fields.update(missing)
        # A line that is a group in a set stays a group, regardless of other files.
        may_split = self.settings.group_by is None and not (
            rollout.line_is_group and self.sources.are_many
        )
        shown = self.plan.shown_of(rollout, own) if why is None else None
        self.table.append(
            key,
            rollout,
            place,
            compared=why is None,
            may_split=may_split,
            prompt=prompt,
            shown=shown,
        )
        # A hash, since most rollouts have no step and the others need only be told apart.
        self.steps.append(hash(step_of(record)))
        self._formats.append(list(self.first_lines).index(format_.name))
        self._texts.append(key, rollout, own)

    def read_group(self, rows: Sequence[int]) -> Group:
        """Return a group with its texts."""
        keys, rollouts, records = zip(*(self._texts.read(row) for row in rows), strict=True)
        left_out = self.table.left_out(list(rows))
        rollouts = tuple(
            replace(rollout, left_out=left_out[row]) if row in left_out else rollout
            for row, rollout in zip(rows, rollouts, strict=True)
        )
        kept = [record for record in records if record is not None]
        key = self.table.key_of(list(rows), keys[0])
        return Group(key, rollouts, kept, self.table.mixed(list(rows)))

    def format_of(self, row: int) -> Format:
        """Return the format in which the line of a row was read."""
        _, _, format_, _ = [*self.first_lines.values()][self._formats[row]]
        return format_

    def where(self, row: int) -> str:
        """Return the number of a row's line, after the file of a set."""
        place = self.table.place(row)
        return (
            f"{self.sources.uris[place.file]}:{place.line}"
            if self.sources.are_many
            else str(place.line)
        )

    def iter_rows(self) -> Iterator[tuple[int, list[int]]]:
        """Yield number and rows of each group that is asked about, groups by first appearance."""
        for number, rows in enumerate(self.table.iter_groups()):
            if (
                self.shard is None
                or self.table.shard_of(rows, self.shard.count) == self.shard.number
            ):
                yield number, rows

    def iter_groups(self) -> Iterator[tuple[int, list[int], Group]]:
        """Yield the same groups with their texts."""
        for number, rows in self.iter_rows():
            yield number, rows, self.read_group(rows)


def index_input(
    sources: Sources,
    run: RunContext,
    on_reject: Callable[[Reject], None] = lambda bad: None,
) -> InputIndex:
    """Read all lines of an input, and count them in the metrics of the run; the caller closes the
    index.

    `on_reject` gets each line that cannot be read or does not declare what it must.
    """
    index = InputIndex(sources, run)
    try:
        names = sources.names() if sources.are_many else [None]
        for number, name in enumerate(names):
            before = run.metrics.lines
            index.table.begin_file()
            with sources.open(number) as source:
                index.unit = source.unit
                _read_lines(source, run, index, on_reject, name)
            index.lines.append(run.metrics.lines - before)
        for field_name, count in index.metrics.missing_fields.items():
            if count == index.table.answered:  # the name is probably wrong
                setting = SettingRef(field_name, getattr(index.plan, field_name))
                raise InputError(
                    f"{sources.uris[0]}: no rollout has a value under ", setting, _SEE_FIELDS
                )
        for field_name in ("answer_field", "answer_tool"):
            named = getattr(index.plan.view, field_name)
            if named is not None and index.metrics.blank_responses and not index.table.answered:
                setting = SettingRef(field_name, named)
                raise InputError(
                    f"{sources.uris[0]}: no response has a value under ", setting, _SEE_FIELDS
                )
        _leave_out_after(run.settings.limits.limit, index.table)
        count_groups(index, run.metrics)
    except BaseException:
        index.__exit__(None, None, None)
        raise
    return index


def _read_lines(
    source: Source,
    run: RunContext,
    index: InputIndex,
    on_reject: Callable[[Reject], None],
    name: str | None,
) -> None:
    """Read the lines of a file; `name` tells it from the other files of a set."""
    metrics = run.metrics
    settings = run.settings.input
    requirements = [parse_requirement(text) for text in settings.require_metadata]
    for line in source.iter_lines():
        metrics.lines += 1
        nulls: list[str] = []
        try:
            record, format_, rollouts = parse_line(line, settings, requirements, nulls.append)
            if run.plan.shows_as_gym:
                refuse_as_gym(record)
            if run.plan.chosen_fields:
                own = (format_.own_record(record, position) for position in range(len(rollouts)))
                rollouts = list(map(run.plan.with_chosen_fields, rollouts, own))
        except (BadLineError, UnreadableRecordError) as error:
            metrics.rejected_lines += 1
            text = line.raw[:_SHOWN_CHARS].decode("utf-8", "replace")
            of_set = None if name is None else source.uri
            bad = Reject(line.number, error.message, text, error.kind, source.unit, of_set)
            if len(index.rejects) < _NAMED:
                index.rejects.append(bad)
            on_reject(bad)
            continue
        place = line.number if name is None else f"{name}:{line.number}"
        metrics.not_numbers += len(nulls)
        if nulls:
            metrics.not_numbers_first = (
                metrics.not_numbers_first or f"{nulls[0]} in {source.unit} {place}"
            )
        keys = [_key_of(record, rollout, place, settings) for rollout in rollouts]
        metrics.formats[format_.name] += 1
        if rollouts:
            first = (line.number, record, format_, rollouts[0])
            index.first_lines.setdefault(format_.name, first)
        metrics.rollouts += len(rollouts)
        for position, (rollout, key) in enumerate(zip(rollouts, keys, strict=True)):
            # One that lacks its group counts as one of a group that could not be compared.
            metrics.rollouts_in_groups += key is None
            index.append(key, rollout, Place(line.number, position), record, format_)


def _key_of(
    record: dict[str, Any], rollout: Rollout, line: int | str, settings: InputSettings
) -> str | None:
    """Return the rollout's group key; None if it lacks the field that the setting `group_by`
    names.
    """
    if settings.group_by is None:
        return group_key(rollout, line)
    value = value_at(record, settings.group_by)
    if value is None and not rollout.line_is_group:
        return None
    return group_key(rollout, line, value)


def _leave_out_after(limit: int | None, table: GroupTable) -> None:
    """Keep the first comparable groups, up to the limit of a trial, and leave out the rest."""
    if limit is None:
        return
    for rows in table.iter_groups():
        if limit == 0:
            table.leave_out(rows)
        elif table.count_answered(rows) > 1 and not table.mixed(rows):
            limit -= 1


def count_groups(index: InputIndex, metrics: RunMetrics) -> None:
    """Count the groups of an input and what is planned for them."""
    table = index.table
    plan = index.plan
    metrics.contradicting_ids += table.contradicting_ids
    for _, rows in index.iter_rows():
        metrics.add_group(len(rows), is_left_out=table.is_left_out(rows))
        # Before any call is paid; the texts are read only to name the group.
        if len(rows) > MAX_COMPARED:
            plan.refuse_large(index.read_group(rows).key, len(rows))
        metrics.duplicate_rollouts += len(table.duplicates(rows))
        if (mixed := table.mixed(rows)) is not None:
            metrics.groups_with_mixed_prompts += mixed is Reason.MIXED_PROMPTS
            continue
        # They would compare rollouts of several training steps, and thus of several policies.
        metrics.groups_over_steps += len({index.steps[row] for row in table.compared(rows)}) > 1
    count_planned(index, plan, metrics)


def count_planned(index: InputIndex, plan: GroupPlan, metrics: RunMetrics) -> None:
    """Count the requests of a plan about an input, and the characters that they show."""
    table = index.table
    for _, rows in index.iter_rows():
        if table.mixed(rows) is not None:
            continue
        answered = table.count_answered(rows)
        for effort in plan.efforts(answered):
            metrics.comparisons_planned += effort.requests
            metrics.planned_calls += effort.requests * effort.turns
            shown = table.chars_shown(rows, effort.responses)
            metrics.prompt_chars += round(effort.requests * effort.turns * shown)
        gradings = plan.count_gradings(answered)
        metrics.comparisons_planned += gradings
        metrics.planned_calls += gradings
        metrics.prompt_chars += round(gradings * table.chars_shown(rows))


def correct_plan(metrics: RunMetrics, planned: int) -> None:
    """Correct the number of requests: rubrics do not ask about responses without text."""
    metrics.planned_calls -= metrics.comparisons_planned - planned  # each of them one call
    metrics.comparisons_planned = planned
