"""NeMo Gym: `responses_create_params` and a Responses API object as `response`, one rollout per
line.

Source: the record format of NVIDIA NeMo Gym's `gym eval run` (formerly `ng_collect_rollouts`).
"""

from collections.abc import Sequence

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import (
    ANSWERED,
    ANSWERED_TOO,
    ASKED,
    QUESTION,
    Format,
    Score,
    annotate_line,
)
from genrm_cli.rollouts.formats.group_formats import list_format
from genrm_cli.rollouts.formats.shapes import PARALLEL, read_list
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.message_parts import media_of_messages
from genrm_cli.rollouts.reading.record_fields import is_truncated, rollout_of
from genrm_cli.rollouts.reading.response_items import (
    flatten_items,
    is_empty,
    items_of_output,
    output_items,
    turns_of_item,
)
from genrm_cli.rollouts.rollout import (
    Rollout,
    Turn,
    UnreadableRecordError,
    has_client,
    split_opening,
)


def _recognise(record: Record) -> bool:
    return isinstance(record.get("responses_create_params"), dict)


def _read(record: Record) -> list[Rollout]:
    request = record.get("responses_create_params")
    if not isinstance(request, dict):
        raise UnreadableRecordError("responses_create_params is not an object")
    prompt = turns_of_request(request)
    media = media_of_messages(request.get("input"))
    response = record.get("response")
    if is_empty(response):
        return [rollout_of(record, prompt, None, prompt_media=media)]
    # Some environments put the task into the first turns of the output, with an empty input.
    opening, items = split_opening(items_of_output(output_items(response)))
    truncated = is_truncated(record) or (isinstance(response, dict) and is_truncated(response))
    return [
        rollout_of(
            record,
            prompt + opening,
            items,
            prompt_media=media,
            is_truncated=truncated,
            is_session=has_client(items),  # `gymnasium_agent` writes its turns among the policy's
        )
    ]


def turns_of_request(request: JsonObject) -> tuple[Turn, ...]:
    """Return the prompt of a request of the Responses API: its instructions and its input."""
    instructions = request.get("instructions")
    given = request.get("input")
    turns = (
        (Turn("system", instructions),) if isinstance(instructions, str) and instructions else ()
    )
    if isinstance(given, str):
        return (*turns, Turn("user", given))
    if given is None:
        return turns
    if not isinstance(given, list):
        raise UnreadableRecordError(
            "responses_create_params.input is neither a string nor a list of items"
        )
    return turns + tuple(turn for item in flatten_items(given) for turn in turns_of_item(item))


def _annotate(record: Record, scores: Sequence[Score]) -> None:
    """Annotate a line; NeMo RL requires that `reward_components`, if present, add up to
    `reward`.
    """
    before = record.get("reward_components")
    annotate_line(record, scores)
    if before:
        reward = record["reward"]
        record["genrm"]["previous_reward_components"] = before
        record["reward_components"] = {} if reward is None else {"genrm": reward}


FORMAT = Format(
    "nemo_gym",
    _recognise,
    _read,
    _annotate,
    fields=Fields(
        prompt=("responses_create_params",),
        response=("response",),
        metadata=("reward_components", "principle"),
    ),
    owns_line=True,
    example={
        "_ng_task_index": 0,
        "responses_create_params": {"input": QUESTION},
        "response": {"output": [ANSWERED]},
    },
)


def _read_compare(record: Record) -> list[Rollout]:
    responses = record.get("response_objs")
    if not isinstance(responses, list):
        raise UnreadableRecordError("response_objs is not a list")
    history = record.get("conversation_history")
    if isinstance(history, list):  # as for NeMo Gym, a message without a role is the user's
        history = [
            {"role": "user", **message} if isinstance(message, dict) else message
            for message in history
        ]
    return read_list(record, history, responses)


# The request of NeMo Gym's `genrm_compare`.
COMPARE = list_format(
    "compare",
    Fields(history=("conversation_history",), response=("response_objs",), metadata=("principle",)),
    recognise=lambda record: (
        "conversation_history" in record and isinstance(record.get("response_objs"), list)
    ),
    read=_read_compare,
    parallel=PARALLEL,
    owns_line=True,
    example={
        "conversation_history": [ASKED],
        "response_objs": [{"output": [ANSWERED]}, {"output": [ANSWERED_TOO]}],
    },
)


def _is_item(item: object) -> bool:
    kind = item.get("type") if isinstance(item, dict) else None
    return isinstance(kind, str) and (
        kind in ("message", "reasoning") or kind.endswith(("_call", "_call_output"))
    )


def _is_object(record: Record) -> bool:
    output = record.get("output")
    return (
        "input" in record
        and isinstance(output, list)
        and bool(output)
        and all(map(_is_item, output))
    )


def _read_object(record: Record) -> list[Rollout]:
    prompt = turns_of_request(record)
    items = items_of_output(output_items(record))
    media = media_of_messages(record.get("input"))
    return [rollout_of(record, prompt, items, prompt_media=media, is_session=has_client(items))]


# An object of the Responses API, stored with its input.
OBJECT = Format(
    "responses_object",
    _is_object,
    _read_object,
    fields=Fields(
        prompt=("input",),
        system=("instructions",),
        response=("output",),
        metadata=("text", "prompt", "conversation"),
    ),
    example={"input": QUESTION, "output": [{"type": "message", **ANSWERED}]},
)
