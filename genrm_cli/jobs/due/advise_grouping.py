"""Advise how an input could be read if nearly all of its rollouts are alone or equal."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from genrm_cli.errors import Message, SettingRef, naming
from genrm_cli.jobs.due.propose_fields import sample_of
from genrm_cli.json_types import Record
from genrm_cli.rollouts.group_keys import digest_of_prompt, group_key, value_at
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError
from genrm_cli.scored.parse_lines import format_of
from genrm_cli.settings.file_settings import InputSettings
from genrm_cli.storage.source import Source

GENERAL_ADVICE = naming("name the field that rollouts of one task share with $group_by")
_MOST_NAMED = 3  # fields that a message names
_NO_REQUESTS = naming(
    "no line has a prompt; put the request of each reply into its line, and name it with "
    "$prompt_field"
)
_BY_PRINCIPLE = (
    "rollouts of one task differ in their principle, which is part of the group's key: give "
    "those that are to be compared the same"
)


def describe_grouping(source: Source, settings: InputSettings) -> Message:
    """Return the setting under which most of the first lines form groups, tried on them; or else
    what tells them apart.
    """
    records = sample_of(source)
    for named, tried in _iter_choices(records, settings):
        if _forms_groups(records, tried):
            return Message.of("most of the first lines form groups with ", named)
    if _forms_groups(records, settings, with_principle=False):
        return Message.of(_BY_PRINCIPLE)
    if settings.prompt_field is None and not _have_prompts(records, settings):
        return _NO_REQUESTS
    return GENERAL_ADVICE


def describe_unread(source: Source, settings: InputSettings) -> Message | None:
    """Return the texts that differ among the first lines with one prompt and one response: one of
    them may be what the policy wrote. None if there is none.
    """
    firsts: dict[tuple[int, str | None], Record] = {}
    differing: dict[str, None] = {}
    for record in sample_of(source):
        try:
            [rollout] = format_of(record, settings).read(record)
        except (UnreadableRecordError, ValueError):  # or a line of several rollouts
            continue
        first = firsts.setdefault((digest_of_prompt(rollout.prompt), rollout.answer), record)
        differing |= {
            name: None
            for name, value in record.items()
            if isinstance(value, str) and value != first.get(name)
        }
    if not differing:
        return None
    names = ", ".join([*differing][:_MOST_NAMED])
    return Message.of(
        f"lines with the same prompt and response differ in {names}; if one of them is the "
        "response, name it with ",
        SettingRef("response_field"),
    )


def _iter_choices(
    records: Sequence[Record], settings: InputSettings
) -> Iterator[tuple[SettingRef, InputSettings]]:
    """Yield the settings to try: those that the user has not given."""
    if settings.format is None and settings.response_field is None:
        yield SettingRef("format", "episode"), dataclasses.replace(settings, format="episode")
    if settings.group_by is None:
        values: dict[str, Counter[str]] = defaultdict(Counter)
        for record in records:
            for name in record:
                value = value_at(record, name)
                if value is not None:
                    values[name][value] += 1
        for name, counts in values.items():
            if 2 * sum(count for count in counts.values() if count > 1) > len(records):
                yield SettingRef("group_by", name), dataclasses.replace(settings, group_by=name)


def _forms_groups(
    records: Sequence[Record], settings: InputSettings, *, with_principle: bool = True
) -> bool:
    """Whether most of the rollouts of some lines have siblings with the same prompt."""
    groups: dict[str, list[Rollout]] = defaultdict(list)
    read = 0
    for number, record in enumerate(records):
        try:
            rollouts = format_of(record, settings).read(record)
        except UnreadableRecordError:
            continue
        read += len(rollouts)
        for rollout in rollouts:
            if not with_principle:
                rollout = replace(rollout, principle=None)
            by = settings.group_by
            key = group_key(rollout, number, None if by is None else value_at(record, by))
            groups[key].append(rollout)
    grouped = sum(len(group) for group in groups.values() if len(group) > 1 and not _differ(group))
    return 2 * grouped > read


def _have_prompts(records: Sequence[Record], settings: InputSettings) -> bool:
    """Whether any of some lines has a prompt; replies without their requests have none."""
    for record in records:
        try:
            rollouts = format_of(record, settings).read(record)
        except UnreadableRecordError:
            continue
        if any(rollout.prompt for rollout in rollouts):
            return True
    return not records


def _differ(group: Sequence[Rollout]) -> bool:
    """Whether the prompts of a group differ, so that its rollouts cannot be compared."""
    return len({digest_of_prompt(each.prompt) for each in group if not each.opens_freely}) > 1
