"""Results of batches of OpenAI, vLLM, Anthropic and Gemini: the responses to one request, named by an id.

The prompt is in the file of requests. Some writers copy the request beside the result; otherwise it is not known, and
the id of the request names the group.
"""

from collections.abc import Mapping, Sequence

from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import (
    ANSWER,
    ANSWERED,
    ANSWERED_TOO,
    OTHER_ANSWER,
    Format,
    Score,
    annotate_line,
    annotate_list,
)
from genrm_cli.rollouts.formats.shapes import read_choices
from genrm_cli.rollouts.reading.known_names import Fields
from genrm_cli.rollouts.reading.message_parts import list_or_empty, text_or_empty
from genrm_cli.rollouts.reading.record_fields import failure_of, identifier, is_truncated, rollout_of
from genrm_cli.rollouts.reading.response_items import items_of_output, output_items
from genrm_cli.rollouts.rollout import Rollout, UnreadableRecordError


def _is_openai(record: Record) -> bool:
    response = record.get("response")
    answered = isinstance(response, Mapping) and "body" in response
    return "custom_id" in record and (answered or (response is None and "error" in record))


def _read_openai(record: Record) -> list[Rollout]:
    if not _is_openai(record):
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


OPENAI = Format(
    "openai_batch",
    _is_openai,
    _read_openai,
    annotate_choices,
    _own_record,
    fields=Fields(response=("response",), metadata=("custom_id", "error")),
    owns_line=True,
    example={
        "custom_id": "river",
        "response": {"body": {"choices": [{"message": ANSWERED}, {"message": ANSWERED_TOO}]}},
    },
)


def _is_anthropic(record: Record) -> bool:
    result = record.get("result")
    return "custom_id" in record and isinstance(result, Mapping) and isinstance(result.get("type"), str)


def _read_anthropic(record: Record) -> list[Rollout]:
    if not _is_anthropic(record):
        raise UnreadableRecordError("no custom_id with a result, expected the results of a batch")
    task, result = f"custom_id:{identifier(record['custom_id'])}", record["result"]
    message = result.get("message")
    if not isinstance(message, Mapping):
        kind = text_or_empty(result.get("type"))
        return [
            rollout_of(record, (), None, task=task, excluded=failure_of(result.get("error") or kind or "no message"))
        ]
    choice = {"message": message, "stop_reason": message.get("stop_reason")}
    return read_choices(record, [choice], _prompt_of(record.get("params", record.get("request"))), task=task)


def _prompt_of(request: object) -> list[Record] | None:
    """Return the messages of a copied request, its system prompt first; None if there is none."""
    messages = request.get("messages") if isinstance(request, Mapping) else None
    if not isinstance(request, Mapping) or not isinstance(messages, list):
        return None
    system = request.get("system")
    return [*([{"role": "system", "content": system}] if system else []), *messages]


def _is_gemini(record: Record) -> bool:
    response = record.get("response")
    return isinstance(response, Mapping) and isinstance(response.get("candidates"), list)


def _read_gemini(record: Record) -> list[Rollout]:
    if not _is_gemini(record):
        raise UnreadableRecordError("no response with candidates, expected the results of a batch")
    name, candidates = identifier(record.get("key")), record["response"]["candidates"]
    known: Record = {} if name is None else {"task": f"key:{name}"}
    if not candidates:
        return [rollout_of(record, (), None, excluded="failed (no candidates)", **known)]
    if not all(isinstance(each, Mapping) for each in candidates):
        raise UnreadableRecordError("a candidate is not an object, expected one with content")
    choices = [
        {
            "message": {**_message_of(each.get("content")), "role": "assistant"},
            "finish_reason": each.get("finishReason"),
        }
        for each in candidates
    ]
    prompt = _contents_of(record.get("request"))
    is_group = len(choices) > 1 and prompt is None and name is None
    return read_choices(record, choices, prompt, line_is_group=is_group, **known)


def _contents_of(request: object) -> list[Record] | None:
    """Return the messages of a copied request of Gemini; None if there is none."""
    if not isinstance(request, Mapping) or not isinstance(request.get("contents"), list):
        return None
    system = request.get("systemInstruction", request.get("system_instruction"))
    told = [{**_message_of(system), "role": "system"}] if isinstance(system, Mapping) else []
    return [*told, *(_message_of(each) for each in request["contents"])]


def _message_of(content: object) -> Record:
    """Return a chat message from a content of Gemini: its parts are texts, thoughts and calls."""
    if not isinstance(content, Mapping):
        return {"role": "assistant", "content": None}
    parts = [part for part in list_or_empty(content.get("parts")) if isinstance(part, Mapping)]
    calls = [{"function": _call_of(call)} for part in parts if isinstance(call := part.get("functionCall"), Mapping)]
    texts = [_part_of(part) for part in parts if "functionCall" not in part]
    role = text_or_empty(content.get("role")) or "user"
    return {"role": role, "content": texts, **({"tool_calls": calls} if calls else {})}


def _part_of(part: JsonObject) -> Record:
    if isinstance(part.get("text"), str):
        return {"type": "thinking" if part.get("thought") is True else "text", "text": part["text"]}
    return {"type": next((str(name) for name in part), "part")}


def _call_of(call: JsonObject) -> Record:
    return {"name": call.get("name"), "arguments": call.get("args")}


ANTHROPIC = Format(
    "anthropic_batch",
    _is_anthropic,
    _read_anthropic,
    fields=Fields(prompt=("params", "request"), response=("result",), metadata=("custom_id",)),
    owns_line=True,
    example={"custom_id": "river", "result": {"type": "succeeded", "message": ANSWERED}},
)
GEMINI = Format(
    "gemini_batch",
    _is_gemini,
    _read_gemini,
    annotate_choices,
    fields=Fields(prompt=("request",), response=("response",), metadata=("key",)),
    owns_line=True,
    example={
        "key": "river",
        "response": {
            "candidates": [{"content": {"parts": [{"text": text}], "role": "model"}} for text in (ANSWER, OTHER_ANSWER)]
        },
    },
)
