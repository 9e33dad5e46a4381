"""Read an input once: understand every line, find the groups, keep no text."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from genrm_cli.groups.comparisons import plan_efforts, within_budget
from genrm_cli.groups.graders import count_gradings
from genrm_cli.metrics.run_metrics import RunMetrics
from genrm_cli.rollouts.declared import Requirement, check_declared, parse_requirement
from genrm_cli.rollouts.dialects import DIALECTS, Dialect, recognise
from genrm_cli.rollouts.grouping import UNGROUPED, GroupTable, Place, group_key, value_at
from genrm_cli.rollouts.record import Rollout, UnreadableRecordError
from genrm_cli.settings import Settings
from genrm_cli.storage.lines import Line
from genrm_cli.storage.records import BadLineError, parse_record
from genrm_cli.storage.source import Source

_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that could not be read, why, and how it begins."""

    line: int
    reason: str
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return the reject as it stands in the rejects file."""
        return {"line": self.line, "reason": self.reason, "text": self.text}


def index_input(
    source: Source, settings: Settings, tally: RunMetrics, on_reject: Callable[[Reject], None]
) -> GroupTable:
    """Read all lines of an input and return which rollouts form which group.

    Args:
        source: the input.
        settings: `dialect`, `group_by`, `require_metadata`, and what decides the number of comparisons.
        tally: gets the counts of lines, rollouts, groups and planned comparisons.
        on_reject: called with each line that could not be read, or does not declare what it must.
    """
    table = GroupTable()
    requirements = [parse_requirement(text) for text in settings.require_metadata]
    for line in source.iter_lines():
        tally.lines += 1
        try:
            dialect, rollouts, keys = _understand(line, settings, requirements)
        except (BadLineError, UnreadableRecordError) as error:
            tally.rejects += 1
            on_reject(Reject(line.number, str(error), line.raw[:_SHOWN_CHARS].decode("utf-8", "replace")))
            continue
        tally.dialects[dialect.name] += 1
        tally.rollouts += len(rollouts)
        for position, (rollout, key) in enumerate(zip(rollouts, keys, strict=True)):
            # One that lacks its group counts as one of a group that could not be compared.
            tally.rollouts_in_groups += key.startswith(UNGROUPED)
            place = Place(line.number, line.offset, len(line.raw), position)
            table.append(key, rollout, place, may_split=settings.group_by is None)
    _count_groups(table, settings, tally)
    return table


def dialect_of(record: dict[str, Any], settings: Settings) -> Dialect:
    """Return the dialect that the settings force, else the one that the record is written in."""
    return recognise(record) if settings.dialect is None else DIALECTS[settings.dialect]


@dataclass(frozen=True, slots=True)
class GroupTexts:
    """A group, read again with its texts.

    Attributes:
        key: the group key.
        rollouts: in the group's order.
        records: the fields of each rollout; of a line with several, those that are its own and those of the line.
    """

    key: str
    rollouts: list[Rollout]
    records: list[dict[str, Any]]


def read_group(source: Source, table: GroupTable, rows: list[int], settings: Settings) -> GroupTexts:
    """Read the rollouts of a group again, text and all."""
    group = GroupTexts("", [], [])
    replaced = table.superseded(rows)
    parsed: dict[int, tuple[dict[str, Any], list[Rollout]]] = {}  # a line may hold many rollouts
    for row in rows:
        place = table.place(row)
        if place.line not in parsed:
            record = parse_record(source.read_span(place.offset, place.length))
            parsed[place.line] = record, dialect_of(record, settings).read(record)
        record, rollouts = parsed[place.line]
        if not group.rollouts:
            key = _key_of(record, rollouts[place.position], place.line, settings)
            group = replace(group, key=key + table.key_suffix(rows))
        rollout = rollouts[place.position]
        group.rollouts.append(replace(rollout, excluded=replaced[row]) if row in replaced else rollout)
        group.records.append(dialect_of(record, settings).own_record(record, place.position))
    return group


def _key_of(record: dict[str, Any], rollout: Rollout, line: int, settings: Settings) -> str:
    """Return the rollout's group key; without the field that `--group-by` names it is a group of its own."""
    if settings.group_by is None:
        return group_key(rollout, line)
    value = value_at(record, settings.group_by)
    if value is None and not rollout.line_is_group:
        value = f"{UNGROUPED}{line}"
    return group_key(rollout, line, value)


def _understand(
    line: Line, settings: Settings, requirements: Sequence[Requirement]
) -> tuple[Dialect, list[Rollout], list[str]]:
    if line.oversize is not None:
        raise BadLineError(f"{line.oversize:,} bytes long, more than --max-line-bytes {settings.max_line_bytes:,}")
    record = parse_record(line.raw)
    dialect = dialect_of(record, settings)
    rollouts = dialect.read(record)
    check_declared(record, requirements)
    return dialect, rollouts, [_key_of(record, rollout, line.number, settings) for rollout in rollouts]


def plan_within_budget(table: GroupTable, settings: Settings) -> Settings:
    """Return the settings with the plan that `--budget` allows, if there is one."""
    if settings.budget is None:
        return settings
    comparable = (rows for rows in table.iter_groups() if not table.prompts_differ(rows))
    return within_budget(Counter(map(table.count_answered, comparable)), settings)


def _count_groups(table: GroupTable, given: Settings, tally: RunMetrics) -> None:
    settings = plan_within_budget(table, given)
    for rows in table.iter_groups():
        tally.groups += 1
        tally.group_sizes[len(rows)] += 1
        tally.duplicates += len(table.duplicates(rows))
        if len(rows) > 1:
            tally.rollouts_in_groups += len(rows)
        if table.prompts_differ(rows):
            tally.groups_with_mixed_prompts += 1
        else:
            answered = table.count_answered(rows)
            for questions, responses, turns in plan_efforts(answered, settings):
                tally.planned += questions
                tally.planned_calls += questions * turns
                tally.exhibit_chars += round(questions * turns * table.chars_shown(rows, responses))
            gradings = count_gradings(answered, settings)
            tally.planned += gradings
            tally.planned_calls += gradings
            tally.exhibit_chars += round(gradings * table.chars_shown(rows))


def iter_duplicates(table: GroupTable) -> Iterator[Place]:
    """Yield the places of rollouts whose group and rollout index occurred before."""
    for rows in table.iter_groups():
        for row in table.duplicates(rows):
            yield table.place(row)
