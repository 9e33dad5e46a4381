"""OpenAI and vLLM batch output: `custom_id` and `response.body`, whose choices are responses to one prompt.

The prompt is in the input file of the batch; `custom_id` names the group.
"""

from collections.abc import Mapping, Sequence

from genrm_cli.json_types import Record
from genrm_cli.rollouts.formats.format import (
    ANSWERED,
    ANSWERED_TOO,
    Fields,
    Format,
    Score,
    annotate_line,
    annotate_list,
)
from genrm_cli.rollouts.formats.shapes import read_choices
from genrm_cli.rollouts.reading.record_fields import failure_of, identifier, is_truncated, rollout_of
from genrm_cli.rollouts.reading.response_items import items_of_output, output_items
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _recognise(record: Record) -> bool:
    response = record.get("response")
    answered = isinstance(response, Mapping) and "body" in response
    return "custom_id" in record and (answered or (response is None and "error" in record))


def _read(record: Record) -> list[Rollout]:
    if not _recognise(record):
        raise UnreadableRecordError("no custom_id with a response or an error, expected the output of a batch")
    response = record.get("response")
    body = response.get("body") if isinstance(response, Mapping) else None
    task = f"custom_id:{identifier(record.get('custom_id'))}"
    failed = failure_of(record.get("error"))
    if response is not None and not isinstance(body, Mapping):
        raise UnreadableRecordError("response.body is missing, expected an object with choices")
    if failed or body is None or ("choices" not in body and "output" not in body):
        return [rollout_of(record, (), None, task=task, excluded=failed or "failed (no choices)")]
    if "output" in body:
        return [rollout_of(record, (), items_of_output(output_items(body)), task=task, is_truncated=is_truncated(body))]
    choices = body["choices"]
    if not isinstance(choices, list) or not choices:
        raise UnreadableRecordError("response.body.choices is empty, expected a list of choices")
    return read_choices(record, choices, None, task=task)


def annotate_choices(record: Record, scores: Sequence[Score]) -> None:
    """Annotate a line with one choice like a rollout, and a line with several like a list."""
    (annotate_line if len(scores) == 1 else annotate_list)(record, scores)


def _own_record(record: Record, position: int) -> Record:
    response = record.get("response")
    body = response.get("body") if isinstance(response, Mapping) else None
    choices = body.get("choices") if isinstance(body, Mapping) else None
    return record | {"choice": choices[position]} if isinstance(choices, list) and choices else record


FORMAT = Format(
    "openai_batch",
    _recognise,
    _read,
    annotate_choices,
    _own_record,
    fields=Fields(response=("response",), metadata=("custom_id", "error")),
    owns_line=True,
    example={
        "custom_id": "river",
        "response": {"body": {"choices": [{"message": ANSWERED}, {"message": ANSWERED_TOO}]}},
    },
)
