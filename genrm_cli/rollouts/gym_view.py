"""Show a judge exactly what NeMo Gym's `genrm_compare` shows, to reproduce its numbers.

It deliberately differs from our own views: messages are joined without a separator, inline thinking
stays, refusals and calls are omitted, an empty response is the word `None`, and input content other
than plain text becomes empty.
Source: NVIDIA-NeMo/Gym 07d6b0d0 `resources_servers/genrm_compare/{app,utils}.py`.
"""

import json

from msgspec.structs import replace

from genrm_cli.json_types import JsonObject, field_at
from genrm_cli.rollouts.group_keys import digest_of_key
from genrm_cli.rollouts.reading.values import (
    list_or_empty,
    object_or_empty,
    objects_in,
    text_or_empty,
)
from genrm_cli.rollouts.rollout import (
    Reasoning,
    Rollout,
    Text,
    Turn,
    Turns,
    UnreadableRecordError,
)

_INDICES = ("_ng_task_index", "task_index", "_ng_rollout_index", "rollout_index")


def is_of_gym(record: JsonObject) -> bool:
    """Whether a record is in a form that NeMo Gym accepts: a line, or one response of a compare
    request.
    """
    return "responses_create_params" in record or "conversation_history" in record


def gym_line(prompt: object, response: object) -> dict[str, object] | None:
    """Return a prompt and an object of the Responses API, or null, as a line of NeMo Gym; None for
    other responses.
    """
    is_object = isinstance(response, dict) and (not response or "output" in response)
    if response is not None and not is_object:
        return None
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return {"responses_create_params": {"input": messages}, "response": response}


def refuse_as_gym(record: JsonObject) -> None:
    """Refuse fields of other types than NeMo Gym's (HTTP 422): messages are objects of texts,
    indices are integers.
    """
    if not is_of_gym(record):
        return
    is_row = "responses_create_params" in record
    for name in _INDICES if is_row else ():
        if not _is_integer(record.get(name)):
            raise _refused(f"{name} is not an integer")
    texts = {name: record.get(name) for name in ("principle", "prompt_id")[: 1 + is_row]}
    texts = {name: text for name, text in texts.items() if text is not None}
    for index, message in enumerate(list_or_empty(record.get("conversation_history"))):
        fields = object_or_empty(message).items()
        texts |= {f"conversation_history[{index}].{name}": value for name, value in fields}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise _refused(f"{name} is no text")


def _refused(told: str) -> UnreadableRecordError:
    return UnreadableRecordError(f"{told}, which NeMo Gym refuses (HTTP 422)")


def refuse_unanswered(row: JsonObject) -> None:
    """Refuse a row for `/verify` without a response; only a compare request may have empty
    objects.
    """
    if not isinstance(field_at(row, "response.output"), list):
        raise _refused("response has no list output")


def as_gym(rollout: Rollout, record: JsonObject) -> Rollout:
    """Return a rollout with the prompt and the response that NeMo Gym finds in its record, which
    may be an empty object; the same rollout for a record in another form.
    """
    if not is_of_gym(record):
        return rollout
    is_request = "conversation_history" in record
    given = record.get("response_objs" if is_request else "response")
    response = None
    if rollout.response is not None or isinstance(given, dict):
        reasoning, text = gym_texts(given)
        response = (Reasoning(reasoning), Text(text))
    return replace(
        rollout,
        prompt=gym_history(record["conversation_history"])
        if is_request
        else gym_conversation(field_at(record, "responses_create_params.input")),
        response=response,
        is_session=False,
        excluded=None,
        prompt_media=(),
        scenario=None,
    )


def gym_conversation(given: object) -> Turns:
    """Return the conversation that NeMo Gym makes of a request's `input`.

    A text becomes one empty user turn for each character; an item without a role (a tool call, its
    result, reasoning) an empty user turn. Of content in parts only `output_text` counts, and not
    within an output message, which has an id."""
    if isinstance(given, str):
        return tuple(Turn("user", "") for _ in given)
    return tuple(map(_turn_of_item, objects_in(given)))


def digest_of_gym_input(record: JsonObject) -> int | None:
    """Return a 64-bit digest of a line's `input`, which with the task names its cohort; None for
    another format.
    """
    request = record.get("responses_create_params")
    if not isinstance(request, dict):
        return None
    return digest_of_key(json.dumps(request.get("input"), sort_keys=True))


def gym_history(history: object) -> Turns:
    """Return the conversation of a compare request: a message without a role is the user's."""
    return tuple(
        Turn(str(message.get("role", "user")), str(message.get("content", "")))
        for message in objects_in(history)
    )


def gym_texts(response: object) -> tuple[str, str]:
    """Return reasoning and text of a response as NeMo Gym measures their lengths."""
    reasoning = text = ""
    for item in objects_in(object_or_empty(response).get("output")):
        if item.get("type") == "reasoning":
            reasoning += _parts(item.get("summary"), None)
        elif item.get("type") == "message":
            text += _parts(item.get("content"), "output_text")
    return reasoning, text


def _turn_of_item(item: JsonObject) -> Turn:
    content = item.get("content")
    if isinstance(content, list):
        is_output = item.get("role") == "assistant" and "id" in item
        content = "" if is_output else _parts(content, "output_text")
    return Turn(str(item.get("role", "user")), str(content or ""))


def _is_integer(value: object) -> bool:
    """Whether the field may hold an optional integer: as a number or as a text, as for Pydantic."""
    if not isinstance(value, (int, float, str)):
        return value is None
    try:
        return int(value) == float(value)
    except (ValueError, OverflowError):
        return False


def _parts(parts: object, kind: str | None) -> str:
    counted = (part for part in objects_in(parts) if kind in (None, part.get("type")))
    return "".join(text_or_empty(part.get("text")) for part in counted)
