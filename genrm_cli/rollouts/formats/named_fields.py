"""A format whose fields the user names.

    named_fields("samples.text", "question,passage", "meta.id")

A path may go through a list: `samples.text` is the text of every sample, and the line is a group,
whatever the values are.
The parts of a prompt that the line has beside the named fields belong to it: system prompt,
history and context. Without a named prompt, the line must have one under a known name, or none;
then all of its other texts must be accounted for as well."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from genrm_cli.errors import SettingRef
from genrm_cli.json_types import Record, field_at
from genrm_cli.rollouts.formats.format import Format
from genrm_cli.rollouts.formats.shapes import (
    read_alternatives,
    read_completion,
    read_conversation,
    splits_conversation,
)
from genrm_cli.rollouts.reading.all_texts import iter_texts_by_path, shown_text, top_of, unread_text
from genrm_cli.rollouts.reading.answers import (
    asked_of,
    call_in,
    is_api_choices,
    refuse_unknown_objects,
)
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.line_fields import (
    parts_of,
    prompt_of,
    resolve_line,
    with_parts,
)
from genrm_cli.rollouts.reading.record_fields import identifier
from genrm_cli.rollouts.reading.values import (
    is_messages,
    is_objects,
    lists_on,
    names_on,
    object_or_empty,
    values_at,
    words,
)
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

# What tells the turns of a conversation apart, or the parts of a message.
_SPEAKERS = words("role from source sender author speaker kind type")
_PART_KINDS = frozenset(
    words("text input_text output_text message reasoning thinking refusal image_url image tool_use")
)
# What differs among messages that say nothing of a kind or a turn.
_OF_EACH = frozenset(words("content id index created timestamp finish_reason logprobs"))
_ABOUT_TOOLS = frozenset(words("tools functions tool_choice response_format"))
# In an error that lists what is there instead of a missing field.
_SHOWN_KEYS = 8


def named_fields(
    response_field: str,
    prompt_field: str | None = None,
    id_field: str | None = None,
    *,
    name: str = "named_fields",
    example: Record | None = None,
) -> Format:
    """Return a format that reads the named fields, given as dotted paths.

    The response is a text, messages or an object; messages that begin with another turn than the
    policy's hold the prompt as well. A list of responses is a group. Several prompt fields,
    separated by commas, are one prompt. Without an id, the prompt names the group. An installed
    format has a `name` and an `example`; it reads the lines that have all of its fields."""
    prompts = () if prompt_field is None else tuple(map(str.strip, prompt_field.split(",")))
    names = () if id_field is None else (id_field,)
    fields = Fields(
        prompt=prompts[:1], context=prompts[1:], response=(response_field,), metadata=names
    )
    named = fields.names()

    def fields_in(record: Record) -> Fields:
        """Return the named fields, and the parts of the prompt that the record has beside them."""
        if not prompts:
            return resolve_line(record, response_field)._replace(metadata=names)
        taken = {top_of(record, path) for path in named}
        beside = {key: value for key, value in record.items() if key not in taken}
        for path in prompts:
            beside |= _siblings_of(record, path)
        return parts_of(beside, fields)

    def read(record: Record) -> list[Rollout]:
        responses, *_ = (_value_at(record, path) for path in (response_field, *prompts))
        found = fields_in(record)
        task = None if id_field is None else identifier(_value_at(record, id_field))
        known: dict[str, Any] = {} if task is None else {"task": f"{id_field}:{task}"}
        asked, responses = call_in(prompt_of(record, found), responses)
        _refuse_turns(record, response_field, responses)
        through = lists_on(record, response_field)
        if not through and splits_conversation(asked, responses):
            # A conversation is the prompt that precedes its last answer, too.
            rollout = read_conversation(record, responses, **known)
            rollouts = [replace(rollout, prompt=(*asked_of(asked).turns, *rollout.prompt))]
        elif isinstance(responses, list) and (through or not is_messages(responses)):
            if not through:
                refuse_unknown_objects(response_field, responses)
            rollouts = read_alternatives(record, asked, responses, **known)
        else:
            _refuse_answers_in_a_row(response_field, responses)
            rollouts = [read_completion(record, asked, responses, **known)]
        rollouts = with_parts(record, found, rollouts)
        _refuse_lost(record, (response_field, *prompts), rollouts)
        return rollouts

    def rows(record: Record) -> Sequence[object]:
        responses = _value_at(record, response_field)
        is_group = lists_on(record, response_field) or not is_messages(responses)
        return responses if is_group and isinstance(responses, list) else []

    return Format(
        name,
        lambda record: all(top_of(record, path) in record for path in named),
        read,
        fields,
        rows,
        example=example or {},
        resolve=fields_in,
        owns_line=bool(prompts),
    )


def _refuse_turns(record: Record, path: str, value: object) -> None:
    """Refuse a list of turns or parts as a list of responses: what tells them apart is who speaks,
    or their kind.
    """
    through = lists_on(record, path)
    for each in (*through, value):
        is_group = isinstance(each, list) and (through or not is_messages(each))
        if not is_group or not is_objects(each) or is_api_choices(each):
            continue
        for name in _SPEAKERS:
            kinds = {one[name] for one in each if isinstance(one.get(name), str)}
            if len(kinds) > 1 or (name == "type" and kinds & _PART_KINDS):
                raise UnreadableRecordError(
                    f"{path} would make responses of turns or parts ({name}: "
                    f"{', '.join(sorted(kinds))}); name the list of messages if {name} is role, or "
                    "else write its turns with role and content"
                )


def _refuse_answers_in_a_row(path: str, value: object) -> None:
    """Refuse a list of answers of the policy that differ in nothing but their text: they may be one
    response or several.
    """
    if not is_messages(value) or len(value) < 2:
        return
    are_texts = all(isinstance(each.get("content"), str) and each["content"] for each in value)
    apart = [{name: each[name] for name in each if name not in _OF_EACH} for each in value]
    if are_texts and all(each == apart[0] for each in apart):
        raise UnreadableRecordError(
            f"{path} holds {len(value)} messages of the policy in a row, which could be one "
            "response or several; name ",
            SettingRef("response_field", f"{path}.content"),
            " if each is a response, or else join them into one message",
        )


def _refuse_lost(record: Record, paths: Sequence[str], rollouts: Sequence[Rollout]) -> None:
    """Refuse a line if a text below a named path is neither in the prompt nor in a response."""
    named = {path: values_at(record, path) for path in paths}
    nested = {path: value for path, value in named.items() if not isinstance(value, str)}
    texts = [
        each
        for each in iter_texts_by_path(nested, ())
        if _ABOUT_TOOLS.isdisjoint(each.path.split("."))
    ]
    lost = unread_text(texts, rollouts)
    if lost is not None:
        raise UnreadableRecordError(
            f"{lost.path} ({shown_text(lost.text)}) would be left out of the prompt and the "
            "response; name it, or the object that holds it, with ",
            SettingRef("prompt_field"),
            " or ",
            SettingRef("response_field"),
        )


def _siblings_of(record: Record, path: str) -> Record:
    """Return the fields beside a nested one, by path."""
    above = ".".join(names_on(record, path)[:-1])
    if not above:
        return {}
    beside = object_or_empty(field_at(record, above))
    return {f"{above}.{name}": value for name, value in beside.items()}


def _value_at(record: Record, path: str) -> object:
    """Return the value at a dotted path, which must exist; below a list, those of all items."""
    *above, last = names_on(record, path)
    holder = values_at(record, ".".join(above)) if above else record
    every = holder if isinstance(holder, list) else [holder]
    for each in every:
        if not isinstance(each, dict) or last not in each:
            keys = sorted(each) if isinstance(each, dict) else ["no object"]
            raise UnreadableRecordError(
                f"no field {path}: {last!r} is missing, expected one of: "
                f"{', '.join(keys[:_SHOWN_KEYS])}"
            )
    return values_at(record, path)
