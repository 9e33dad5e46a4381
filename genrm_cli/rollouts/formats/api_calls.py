"""Calls of an API: the reply of a server with the request, or with an id of it, as in logs and
results of batches.

The shapes are those of OpenAI (also vLLM, LiteLLM), Anthropic, Gemini and Bedrock. If a line has no
request, the prompt is in another file, and the id of the request names the group."""

from typing import Any

from genrm_cli.errors import SettingRef
from genrm_cli.json_types import JsonObject, Record
from genrm_cli.rollouts.formats.format import (
    ANSWERED,
    ANSWERED_TOO,
    ASKED,
    Format,
    annotate_line,
    annotate_list,
)
from genrm_cli.rollouts.formats.nemo_gym_lines import turns_of_request
from genrm_cli.rollouts.formats.shapes import asked_of, read_choices
from genrm_cli.rollouts.reading.known_names import (
    Fields,
    has_text,
    is_api_choices,
    is_messages,
    iter_texts,
    part_named,
)
from genrm_cli.rollouts.reading.message_parts import list_or_empty, media_of_messages, text_or_empty
from genrm_cli.rollouts.reading.record_fields import (
    failure_of,
    identifier,
    is_truncated,
    rollout_of,
    tools_of,
)
from genrm_cli.rollouts.reading.templates import DecodedPrompt
from genrm_cli.rollouts.rollout import Media, Rollout, UnreadableRecordError

_REQUESTS = (
    "request",
    "request_body",
    "params",
    "body",
    "modelInput",
    "infer_request",
    "inputs",
    "input",
)
_REPLIES = ("response", "response_body", "result", "modelOutput", "output", "outputs")
_IDS = ("custom_id", "key", "recordId")
_ASKED = (  # the field with the prompt, and what may stand beside it
    ("messages", "system"),
    ("contents", "systemInstruction", "system_instruction"),
    ("input", "instructions"),
    *(("prompt",), ("inputText",)),
)
_OUTCOMES = ("succeeded", "errored", "canceled", "expired")  # of a request of an Anthropic batch
_TEXTS = ("text", "generated_text", "generation", "completion", "outputText")


def _fields_in(record: JsonObject) -> Fields:
    found = (
        next(((name,) for name in names if name in record and is_one(record[name])), ())
        for names, is_one in ((_REQUESTS, _is_request), (_REPLIES, _is_reply), (_IDS, identifier))
    )
    request, reply, name = found
    return Fields(prompt=request, response=reply, metadata=(*name, "error"))


def _is_request(value: object) -> bool:
    request = _body_of(value) if isinstance(value, dict) else {}
    asks = (
        isinstance(request.get(name), str | list)
        for name in ("contents", "input", "prompt", "inputText")
    )
    return (
        is_messages(request.get("messages"))
        or isinstance(request.get("contents"), dict)
        or any(asks)
    )


def _is_reply(value: object) -> bool:
    if not isinstance(value, dict):
        return isinstance(value, str)
    return "body" in value or value.get("type") in _OUTCOMES or _choices_of(value) is not None


def _body_of(value: object) -> JsonObject:
    """Return a request or a reply without the frame of HTTP around it; an empty object for anything
    else.
    """
    if isinstance(value, str):
        return {"text": value}
    body = value.get("body", value) if isinstance(value, dict) else None
    return body if isinstance(body, dict) else {}


def _recognise(record: Record) -> bool:
    read = _fields_in(record)
    if not read.response:
        return "custom_id" in record and "error" in record and record.get("response") is None
    reply = record[read.response[0]]
    return bool(read.prompt) or (
        isinstance(reply, dict) and (len(read.metadata) > 1 or "candidates" in reply)
    )


def _read(record: Record) -> list[Rollout]:
    if not _recognise(record):
        raise UnreadableRecordError(
            "no reply of an API with its request or custom_id, expected a log or a batch"
        )
    read = _fields_in(record)
    reply = _body_of(record[read.response[0]]) if read.response else {}
    request = _body_of(record[read.prompt[0]]) if read.prompt else None
    known: Record = {}
    asked = DecodedPrompt(())
    if request is not None:
        asked, known["prompt_media"] = _asked_by(request)
        known["tools"] = tools_of(request)
    elif len(read.metadata) > 1:  # each request has its own id, so a known prompt names the group
        known["task"] = f"{read.metadata[0]}:{identifier(record[read.metadata[0]])}"
    failed = failure_of(record.get("error")) or failure_of(reply.get("error"))
    choices = _choices_of(reply)
    if failed or not choices:
        failed = failed or failure_of(reply.get("type")) or "failed (no choices)"
        return [rollout_of(record, asked.turns, None, excluded=failed, **known)]
    is_group = len(choices) > 1 and not read.prompt and not known
    return read_choices(record, choices, asked, line_is_group=is_group, **known)


def _asked_by(request: JsonObject) -> tuple[DecodedPrompt, tuple[Media, ...]]:
    """Return the prompt of a request, and its images and files; refuse any other field that could
    be a part of it.
    """
    names = next((names for names in _ASKED if request.get(names[0])), ("prompt",))
    asked = request.get(names[0])
    whole = "\0".join(text for name in names for text in iter_texts(request.get(name)))
    others = [
        name
        for holder in (request, request.get("config"))
        for name, value in (holder.items() if isinstance(holder, dict) else ())
        if (part_named(name) == "prompt" and (holder is not request or name not in names))
        or name == "previous_response_id"
        if any(text not in whole for text in iter_texts(value))
    ]
    if others:
        told = (
            f"{', '.join(others)} of a request beside {names[0]} could be part of the prompt; "
            "name the fields with "
        )
        raise UnreadableRecordError(
            told, SettingRef("prompt_field"), " and ", SettingRef("response_field")
        )
    system = next((request[name] for name in names[1:] if request.get(name)), None)
    if names[0] == "input":
        return DecodedPrompt(turns_of_request(request)), media_of_messages(asked)
    if names[0] == "contents":
        asked = [_message_of(each) for each in (asked if isinstance(asked, list) else [asked])]
        system = None if system is None else _message_of(system)["content"]
    if isinstance(asked, list) and system:
        asked = [{"role": "system", "content": system}, *asked]
    return asked_of(asked), media_of_messages(asked)


def _choices_of(reply: JsonObject) -> list[Any] | None:
    """Return the alternatives of a reply in the shape of choices; None if it is no reply of an
    API.
    """
    if isinstance(choices := reply.get("choices"), list):
        return choices if is_api_choices(choices) else None
    if isinstance(candidates := reply.get("candidates"), list):
        return list(map(_choice_of, candidates))
    if isinstance(reply.get("output"), list):  # of the Responses API
        return [
            {"message": None, **reply, "finish_reason": "length" if is_truncated(reply) else None}
        ]
    if isinstance(message := reply.get("message", reply.get("output")), dict):
        message = (
            inner if isinstance(inner := message.get("message"), dict) else message
        )  # of Bedrock's Converse
        return [
            {"message": message, "stop_reason": message.get("stop_reason", reply.get("stopReason"))}
        ]
    if "content" in reply and ("role" in reply or "stop_reason" in reply):
        return [reply]
    texts = {
        name
        for name in reply
        if name in _TEXTS or (part_named(name) == "response" and has_text(reply[name]))
    }
    if (
        len(texts) != 1
        or not isinstance(text := reply.get(name := texts.pop()), str)
        or name not in _TEXTS
    ):
        return None
    return [{"text": text, "finish_reason": reply.get("finish_reason", reply.get("stop_reason"))}]


def _choice_of(candidate: object) -> Record:
    if not isinstance(candidate, dict):
        raise UnreadableRecordError("a candidate is not an object, expected one with content")
    message = {**_message_of(candidate.get("content")), "role": "assistant"}
    return {"message": message, "finish_reason": candidate.get("finishReason")}


def _message_of(content: object) -> Record:
    """Return a chat message from a content of Gemini."""
    if isinstance(content, str):
        return {"role": "user", "content": content}
    if not isinstance(content, dict):
        return {"role": "assistant", "content": None}
    role = text_or_empty(content.get("role")) or "user"
    return {"role": role, "content": list_or_empty(content.get("parts"))}


def _own_record(record: Record, position: int) -> Record:
    reply = _fields_in(record).response
    choices = _choices_of(_body_of(record[reply[0]])) if reply else None
    return record | {"choice": choices[position]} if choices else record


FORMAT = Format(
    "api_call",
    _recognise,
    _read,
    lambda record, scores: (annotate_line if len(scores) == 1 else annotate_list)(record, scores),
    _own_record,
    fields=Fields(prompt=_REQUESTS, response=_REPLIES, metadata=(*_IDS, "error")),
    resolve=_fields_in,
    example={
        "request": {"messages": [ASKED]},
        "response": {"choices": [{"message": ANSWERED}, {"message": ANSWERED_TOO}]},
    },
)
