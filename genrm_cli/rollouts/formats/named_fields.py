"""A format whose fields the user names.

    named_fields("samples.text", "question,passage", "meta.id")

A path may go through a list: `samples.text` is the text of every sample, and the line is a group.
The parts of a prompt that the line has beside the named fields belong to it: system prompt,
history and context. Without a named prompt, the line must have one under a known name, or none;
then all of its other texts must be accounted for as well."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import Format
from genrm_cli.rollouts.formats.shapes import (
    read_alternatives,
    read_completion,
    read_conversation,
    splits_conversation,
)
from genrm_cli.rollouts.reading.answers import asked_of
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.line_fields import (
    parts_of,
    prompt_of,
    resolve_line,
    with_parts,
)
from genrm_cli.rollouts.reading.record_fields import identifier
from genrm_cli.rollouts.reading.values import is_messages, values_at
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

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
    taken = {path.partition(".")[0] for path in fields.names()}

    def fields_in(record: Record) -> Fields:
        """Return the named fields, and the parts of the prompt that the record has beside them."""
        if not prompts:
            return replace(resolve_line(record, response_field), metadata=names)
        return parts_of({key: record[key] for key in record.keys() - taken}, fields)

    def read(record: Record) -> list[Rollout]:
        responses, *_ = (_value_at(record, path) for path in (response_field, *prompts))
        found = fields_in(record)
        task = None if id_field is None else identifier(_value_at(record, id_field))
        known: dict[str, Any] = {} if task is None else {"task": f"{id_field}:{task}"}
        asked = prompt_of(record, found)
        if splits_conversation(asked, responses):
            # A conversation is the prompt that precedes its last answer, too.
            rollout = read_conversation(record, responses, **known)
            rollouts = [replace(rollout, prompt=(*asked_of(asked).turns, *rollout.prompt))]
        elif _is_list(responses):
            rollouts = read_alternatives(record, asked, responses, **known)
        else:
            rollouts = [read_completion(record, asked, responses, **known)]
        return with_parts(record, found, rollouts)

    def rows(record: Record) -> Sequence[object]:
        responses = _value_at(record, response_field)
        return responses if _is_list(responses) else []

    return Format(
        name,
        lambda record: record.keys() >= taken,
        read,
        rows,
        fields=fields,
        example=example or {},
        resolve=fields_in,
        owns_line=bool(prompts),
    )


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list) and not is_messages(value)


def _value_at(record: Record, path: str) -> object:
    """Return the value at a dotted path, which must exist; below a list, those of all items."""
    above, _, last = path.rpartition(".")
    holder = values_at(record, above) if above else record
    every = holder if isinstance(holder, list) else [holder]
    for each in every:
        if not isinstance(each, dict) or last not in each:
            keys = sorted(each) if isinstance(each, dict) else ["no object"]
            raise UnreadableRecordError(
                f"no field {path}: {last!r} is missing, expected one of: "
                f"{', '.join(keys[:_SHOWN_KEYS])}"
            )
    return values_at(record, path)
