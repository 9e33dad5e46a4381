"""Any other shape: the user names the fields of prompt, response and group by dotted paths."""

from collections.abc import Mapping, Sequence

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import Format, Score, annotate_line, annotate_list, own_of_lists
from genrm_cli.rollouts.formats.shapes import PARALLEL, read_completion
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.line_fields import parts_of, with_parts
from genrm_cli.rollouts.reading.record_fields import identifier
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError

_SHOWN_KEYS = 8


def named_fields(response_field: str, prompt_field: str | None = None, id_field: str | None = None) -> Format:
    """Return a format that reads the named fields.

    Args:
        response_field: dotted path of the response: a text, messages or an object. A list of these is a group, as is a
            path through a list, such as `choices.message.content`.
        prompt_field: dotted path of the prompt, a text or messages; without it, the prompt is unknown.
        id_field: dotted path of the task id; without it, the prompt names the group.
    """

    def find_responses(record: Record) -> tuple[list[object], bool]:
        value = _value_at(record, response_field)
        if isinstance(value, list) and not _is_messages(value):
            if not value:
                raise UnreadableRecordError(f"{response_field} is an empty list, expected responses")
            return value, True
        return [value], False

    def read(record: Record) -> list[Rollout]:
        responses, is_list = find_responses(record)
        prompt = None if prompt_field is None else _value_at(record, prompt_field)
        name = None if id_field is None else identifier(_value_at(record, id_field))
        rollouts = [
            read_completion(
                record,
                prompt,
                response,
                task=None if name is None else f"{id_field}:{name}",
                line_is_group=is_list and name is None,
            )
            for response in responses
        ]
        return rollouts if prompt_field is None else with_parts(record, fields_in(record), rollouts)

    def fields_in(record: Record) -> Fields:
        """Return the named fields, and the parts of the prompt that the record has beside them."""
        named = Fields(prompt=prompt, response=(response_field,), metadata=name)
        taken = {path.partition(".")[0] for path in named.names()}
        return named if prompt_field is None else parts_of({key: record[key] for key in record.keys() - taken}, named)

    def annotate(record: Record, scores: Sequence[Score]) -> None:
        (annotate_list if find_responses(record)[1] else annotate_line)(record, scores)

    own_record = own_of_lists(PARALLEL, (response_field,))
    prompt, name = ((path,) if path is not None else () for path in (prompt_field, id_field))
    fields = Fields(prompt=prompt, response=(response_field,), metadata=name)
    return Format(
        "named_fields", lambda record: True, read, annotate, own_record, fields=fields, example={}, resolve=fields_in
    )


def _value_at(record: Record, path: str) -> object:
    """Return the value at a dotted path; below a list, the values of all items.

    Raises:
        UnreadableRecordError: there is none; the message names the keys present.
    """
    value: object = record
    for part in path.split("."):
        if isinstance(value, list):
            value = [_step(each, part, path) for each in value]
        else:
            value = _step(value, part, path)
    return value


def _step(value: object, part: str, path: str) -> object:
    if not isinstance(value, Mapping) or part not in value:
        keys = ", ".join(sorted(map(str, value))[:_SHOWN_KEYS]) if isinstance(value, Mapping) else "no object"
        raise UnreadableRecordError(f"no field {path}: {part!r} is missing, expected one of: {keys}")
    return value[part]


def _is_messages(value: list[object]) -> bool:
    return bool(value) and all(isinstance(each, Mapping) and "role" in each for each in value)
