"""Read the parts of a message: text, reasoning, calls, results and media, in any writer's shape.

A part is a text, or an object whose `type` or only key says what it is: OpenAI, Anthropic, Gemini
(`functionCall`), Bedrock (`toolUse`), the AI SDK (`tool-call`) and OpenTelemetry (`content` for
`text`). A part that holds text and is none of these is refused: nothing vanishes."""

import json
from collections.abc import Iterable
from typing import Any

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.account import is_prose, iter_strings
from genrm_cli.rollouts.rollout import (
    Item,
    Media,
    Reasoning,
    Refusal,
    ToolCall,
    ToolResult,
    UnreadableRecordError,
    call_text,
)

Part = str | Item
_CONTENT_NAMES = ("content", "parts", "text", "value", "message", "prompt")
_CALL_INPUTS = (
    "arguments",
    "args",
    "input",
    "parameters",
    "action",
    "code",
    "queries",
    "kwargs",
    "tool_input",
)
_CALL_NAMES = ("name", "function_name", "toolName", "tool_name", "tool", "functionName")
_CALL_FRAME = frozenset((*_CALL_NAMES, "id", "type", "call_id", "tool_call_id", "status", "index"))
_RESULTS = ("output", "result", "response", "content", "results", "outputs", "logs")
_URLS = ("https://", "http://", "data:image/")
_REASONING_KINDS = frozenset(
    ("reasoning", "reasoning_text", "reasoning_content", "thinking", "thought", "analysis")
)
_REASONING_FIELDS = ("reasoning", "thinking", "thought", "text", "content", "summary")
_CALL_KINDS = ("tool_use", "tool_call", "function_call", "toolcall")
_RESULT_KINDS = ("tool_result", "tool_call_response", "function_call_output", "tool_response")
# Objects in a part without a type, by their key.
_WRAPPED_CALLS = ("functionCall", "function_call", "toolUse", "toolCall", "executableCode")
_WRAPPED_RESULTS = ("functionResponse", "function_response", "toolResult", "codeExecutionResult")
_MEDIA_WORDS = ("image", "audio", "video", "file", "document", "data", "media", "pdf", "url")


def content_of(message: JsonObject) -> object:
    """Return the content of a message: under its usual name, or that of Gemini, Cohere, OpenCompass
    or others.
    """
    values = (message[name] for name in _CONTENT_NAMES if message.get(name) is not None)
    return next(values, None)


def parts_of(content: object) -> list[Part]:
    """Return the parts of a message's content, which is a text, a list of parts, or null."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [read_part(part) for part in content]
    if isinstance(content, dict) and (content.keys() & {"text", "parts", "type"}):
        return parts_of(content["parts"]) if "parts" in content else [read_part(content)]
    raise UnreadableRecordError(
        f"message content is {kind_of(content)}, expected a string or a list of parts"
    )


def text_of_content(content: object) -> str:
    """Return the text of a message's content: a string, or a list of typed parts.

    Text parts are joined without a separator, because servers split one text into several; an image
    or file part leaves its mark, so that a judge knows something is missing, or is shown the image
    there."""
    return text_of_parts(parts_of(content))


def text_of_parts(parts: Iterable[Part]) -> str:
    """Return the texts of parts, with calls and media written out and without reasoning."""
    return "".join(map(_text_of_part, parts))


def media_of_messages(messages: object) -> tuple[Media, ...]:
    """Return the images and files in messages or items, nested ones included."""
    if isinstance(messages, dict):
        content = content_of(messages)
        content = messages.get("output") if content is None else content
        if not isinstance(content, list):
            return ()
        return tuple(part for part in map(read_part, content) if isinstance(part, Media))
    if not isinstance(messages, list):
        return ()
    return tuple(media for message in messages for media in media_of_messages(message))


def read_part(part: object) -> Part:
    """Return one part of a content: its text, or what else it is."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise UnreadableRecordError(f"a content part is {kind_of(part)}, expected an object")
    kind = text_or_empty(part.get("type"))
    plain = kind.replace("-", "_").lower()
    for name in _WRAPPED_CALLS:
        if isinstance(part.get(name), dict):
            return call_of(part[name])
    for name in _WRAPPED_RESULTS:
        if isinstance(part.get(name), dict):
            return ToolResult(result_text(part[name]), name_of_call(part[name]))
    if plain in _REASONING_KINDS or part.get("thought") is True or _is_thought(part):
        return Reasoning(_first_text(part, _REASONING_FIELDS))
    if plain.endswith(_CALL_KINDS):
        return call_of(part)
    if plain.endswith(_RESULT_KINDS):
        return ToolResult(result_text(part), name_of_call(part))
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part.get("refusal"), str):
        return Refusal(part["refusal"])
    if plain in ("text", "") and isinstance(part.get("content"), str):
        return str(part["content"])
    if "json" in part:
        return json.dumps(part["json"], ensure_ascii=False)
    if plain == "redacted_thinking":
        return Reasoning("")
    return _media_of_part(part, kind or next((str(name) for name in part), "part"))


def call_of(call: object) -> ToolCall:
    """Return a tool call: in OpenAI's shape, flat, or as JSON text (verifiers)."""
    if isinstance(call, str):
        # Not parsed: nested JSON could smuggle lone surrogates and deep nesting past the checks of
        # the line.
        return ToolCall("", call)
    if not isinstance(call, dict):
        raise UnreadableRecordError(f"a tool call is {kind_of(call)}, expected an object")
    function = call.get("function", call)
    if isinstance(function, str):  # inspect_ai
        return ToolCall(function, arguments_of(call, "function"))
    if not isinstance(function, dict):
        raise UnreadableRecordError(f"the function of a call is {kind_of(function)}")
    return ToolCall(name_of_call(function) or name_of_call(call), arguments_of(function))


def name_of_call(call: JsonObject) -> str:
    """Return the name of the tool that is called; empty if there is none."""
    return _first_text(call, _CALL_NAMES)


def arguments_of(call: JsonObject, *frame: str) -> str:
    """Return the arguments of a tool call as text, whatever the name of their field.

    `frame` are further fields that are no arguments."""
    value = next((call[name] for name in _CALL_INPUTS if call.get(name) is not None), None)
    if value is None:
        left = {key: each for key, each in call.items() if key not in (*_CALL_FRAME, *frame)}
        value = left if any(is_prose(text) for text in iter_strings(left)) else ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def result_text(result: JsonObject) -> str:
    """Return the text of a tool's result: of its output, logs, found passages, or their JSON."""
    value = next((result[name] for name in _RESULTS if result.get(name) is not None), "")
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("value"), str):
        return str(value["value"])
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        texts = [_first_text(each, ("text", "logs")) for each in value]
        if all(texts):
            return "\n".join(texts)
        with_types = [each for each in value if "type" in each]
        if len(with_types) == len(value):
            return text_of_content(value)
    return json.dumps(value, ensure_ascii=False)


def kind_of(value: object) -> str:
    """Describe the type of a JSON value."""
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def text_or_empty(value: object) -> str:
    """Return a text unchanged, and anything else as an empty text."""
    return value if isinstance(value, str) else ""


def list_or_empty(value: object) -> list[Any]:
    """Return a list unchanged, and anything else as an empty list."""
    return value if isinstance(value, list) else []


def _is_thought(part: JsonObject) -> bool:
    """Whether reasoning has a key of its own: Bedrock's `reasoningContent`, or `thought`."""
    return "type" not in part and not {"thought", "thinking", "reasoningContent"}.isdisjoint(part)


def _first_text(value: JsonObject, names: tuple[str, ...]) -> str:
    found = (value[name] for name in names if isinstance(value.get(name), str) and value[name])
    text = next(found, "")
    if not text and isinstance(inner := value.get("reasoningContent"), dict):
        return "".join(iter_strings(inner))
    return text


def _text_of_part(part: Part) -> str:
    match part:
        case str():
            return part
        case Refusal() | ToolResult():
            return part.text
        case ToolCall():
            return call_text(part.name, part.arguments)
        case Media():
            return part.mark
        case _:
            return ""


def _media_of_part(part: JsonObject, kind: str) -> Media:
    """Return an image or file; the URL of an image is where OpenAI, Anthropic or Qwen have it."""
    is_media = any(word in name.lower() for name in (kind, *part) for word in _MEDIA_WORDS)
    if not is_media and any(map(is_prose, iter_strings(part))):
        raise UnreadableRecordError(f"a content part of type {kind!r} holds text, unknown of whom")
    url = next(
        (part[name] for name in ("image_url", "source", "image", "url") if part.get(name)), None
    )
    if isinstance(url, dict):
        url = url.get("url") or f"data:{url.get('media_type')};base64,{url.get('data')}"
    is_image = "image" in kind or "image_url" in part
    return Media(kind, url if is_image and isinstance(url, str) and url.startswith(_URLS) else None)
