"""NeMo Gym: `responses_create_params` and a Responses API object as `response`, one rollout a line.

Source: the record format of NVIDIA NeMo Gym's `gym eval run` (formerly `ng_collect_rollouts`).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from genrm_cli.rollouts.dialects.dialect import Dialect, annotate_line
from genrm_cli.rollouts.dialects.fields import (
    Record,
    call_text,
    index_of,
    join_texts,
    principle_of,
    split_reasoning,
    task_of,
    text_of_content,
    turns_of_messages,
)
from genrm_cli.rollouts.record import Rollout, Turn, UnreadableRecordError

Item = Mapping[str, Any]

_ENVIRONMENT_ROLES = ("user", "system", "developer")


def _recognise(record: Record) -> bool:
    return isinstance(record.get("responses_create_params"), Mapping)


def _read(record: Record) -> list[Rollout]:
    request = record.get("responses_create_params")
    if not isinstance(request, Mapping):
        raise UnreadableRecordError("responses_create_params is not an object")
    prompt = _turns_of_input(request)
    response = record.get("response")
    answer, reasoning = None, ""
    if response is not None:
        items = output_items(response)
        opening = _opening_length(items)
        # Some environments state the task as the first turns of the output, with an empty input.
        prompt += turns_of_messages(items[:opening])
        answer, reasoning = read_output(items[opening:])
    return [
        Rollout(prompt, answer, reasoning, principle_of(record), task_of(record), index_of(record)),
    ]


def output_items(response: object) -> list[Item]:
    """Return the items of a Responses API object's `output`, nested lists flattened.

    Some environments store a list of growing histories, one a step, each beginning with the one before: then
    only the last counts.

    Raises:
        UnreadableRecordError: there is no list of items.
    """
    output = response.get("output") if isinstance(response, Mapping) else None
    if isinstance(output, str):
        return [{"type": "message", "role": "assistant", "content": output}]
    if not isinstance(output, list):
        raise UnreadableRecordError("response.output is not a list of items")
    steps = [item for item in output if isinstance(item, list)]
    if steps and len(steps) == len(output):
        grows = all(later[: len(step)] == step for step, later in pairwise(steps))
        output = steps[-1] if grows else output
    return list(_iter_items(output))


def read_output(items: list[Item]) -> tuple[str, str]:
    """Return answer and reasoning of output items.

    The answer is the text of the assistant's messages; turns of the environment and tool calls are no answer,
    so a trajectory that ends in a tool call may have an empty one.
    """
    answers: list[str] = []
    reasonings: list[str] = []
    for item in items:
        if item.get("type") == "reasoning":
            # Never both places: some servers fill both with the same text. The reference measures the summary.
            summary, content = item.get("summary"), item.get("content")
            reasonings.append(text_of_content(summary) or text_of_content(content))
        elif _is_policys(item):
            inline, answer = split_reasoning(text_of_content(item.get("content")))
            reasonings.append(inline)
            answers.append(answer)
    return join_texts(answers), "".join(reasonings)


def _is_policys(item: Item) -> bool:
    """Tell whether an item is the policy's message; compare requests written by hand leave its role out."""
    role = item.get("role")
    return role == "assistant" or (role is None and item.get("type") == "message")


def _turns_of_input(request: Item) -> tuple[Turn, ...]:
    instructions, given = request.get("instructions"), request.get("input")
    turns = (Turn("system", instructions),) if isinstance(instructions, str) and instructions else ()
    if isinstance(given, str):
        return (*turns, Turn("user", given))
    if given is None:
        return turns
    if not isinstance(given, list):
        raise UnreadableRecordError("responses_create_params.input is neither a string nor a list of items")
    return turns + tuple(turn for item in _iter_items(given) for turn in _turns_of_item(item))


def _turns_of_item(item: Item) -> tuple[Turn, ...]:
    kind = item.get("type")
    if kind == "function_call":
        return (Turn("assistant", call_text(item.get("name"), item.get("arguments"))),)
    if kind == "function_call_output":
        return (Turn("tool", text_of_content(item.get("output"))),)
    if kind == "reasoning":
        return ()
    return turns_of_messages([item])


def _opening_length(items: list[Item]) -> int:
    """Count the environment's turns before the policy first acts; all of them if the policy never acts."""
    for place, item in enumerate(items):
        if item.get("role") not in _ENVIRONMENT_ROLES:
            return place
    return len(items)


def _iter_items(items: list[Any]) -> Iterator[Item]:
    for item in items:
        if isinstance(item, list):
            yield from _iter_items(item)
        elif isinstance(item, Mapping):
            yield item
        else:
            raise UnreadableRecordError("an item of input or output is not an object")


DIALECT = Dialect("nemo_gym", _recognise, _read, annotate_line)
