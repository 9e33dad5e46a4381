"""Completion: a prompt and one response, each a string or messages.

Covers verl's and OpenRLHF's `input` and `output` as well.
"""

from collections.abc import Mapping

from genrm_cli.rollouts.dialects.dialect import Dialect, annotate_line
from genrm_cli.rollouts.dialects.fields import (
    Record,
    index_of,
    principle_of,
    response_of_messages,
    split_reasoning,
    task_of,
    turns_of_prompt,
)
from genrm_cli.rollouts.dialects.nemo_gym import output_items, read_output
from genrm_cli.rollouts.record import Rollout, UnreadableRecordError

_PROMPT_FIELDS = ("prompt", "input")
_RESPONSE_FIELDS = ("completion", "response", "output")


def _recognise(record: Record) -> bool:
    return any(name in record for name in _PROMPT_FIELDS) and any(name in record for name in _RESPONSE_FIELDS)


def _read(record: Record) -> list[Rollout]:
    answer, reasoning = read_response(_first_of(record, _RESPONSE_FIELDS))
    prompt = turns_of_prompt(_first_of(record, _PROMPT_FIELDS))
    return [Rollout(prompt, answer, reasoning, principle_of(record), task_of(record), index_of(record))]


def read_response(response: object) -> tuple[str | None, str]:
    """Return answer and reasoning of a response in any of its shapes; answer None when it is null.

    Shapes: a string, a list of messages, one message, a Responses API object.

    Raises:
        UnreadableRecordError: it has none of these shapes.
    """
    if response is None:
        return None, ""
    if isinstance(response, str):
        reasoning, answer = split_reasoning(response)
        return answer, reasoning
    if isinstance(response, list):
        return response_of_messages(response)
    if isinstance(response, Mapping) and "output" in response:
        return read_output(output_items(response))
    if isinstance(response, Mapping) and "content" in response:
        return response_of_messages([{"role": "assistant", **response}])
    raise UnreadableRecordError("the response is neither text, nor messages, nor a Responses API object")


def _first_of(record: Record, names: tuple[str, ...]) -> object:
    present = [name for name in names if name in record]
    if not present:
        raise UnreadableRecordError(f"none of the fields {', '.join(names)} is there")
    return record[present[0]]


DIALECT = Dialect("completion", _recognise, _read, annotate_line)
