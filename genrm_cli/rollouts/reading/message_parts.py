"""Read the parts of a message: text, reasoning, calls, results and media, in any writer's shape.

A part is a text, or an object whose `type` or only key says what it is: OpenAI, Anthropic, Gemini
(`functionCall`), Bedrock (`toolUse`), the AI SDK (`tool-call`) and OpenTelemetry (`content` for
`text`). A part that holds text and is none of these is refused: nothing vanishes."""

from collections.abc import Iterable

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.all_texts import is_prose
from genrm_cli.rollouts.reading.values import (
    first_text,
    is_objects,
    iter_strings,
    json_of,
    kind_of,
    object_or_empty,
    text_or_empty,
    words,
)
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
# OpenAI, LangChain, Anthropic, Cohere, OpenHands, interpreters, searches and others.
_CALL_INPUTS = words("arguments args input parameters action code queries kwargs tool_input")
_CALL_NAMES = words("name function_name toolName tool_name tool functionName")
# What of a call is not its arguments, if these have no name of their own.
_CALL_FRAME = frozenset((*_CALL_NAMES, "id", "type", "call_id", "tool_call_id", "status", "index"))
# The first that is there is the result: others may be its raw form.
_RESULTS = words("output result response content results outputs logs")
_URL_FIELDS = words("image_url source image url")
# Anything else is a path or an id, which no judge can load.
_URLS = ("https://", "http://", "data:image/")
_REASONING_FIELDS = words("reasoning thinking thought text content summary")
_REASONING_KINDS = words(
    "reasoning reasoning_text reasoning_content thinking thought analysis redacted_thinking"
)
# Parts that have a key of their own instead of a type.
_REASONING_KEYS = frozenset(("thought", "thinking", "reasoningContent"))
_CALL_KEYS = words("functionCall function_call toolUse toolCall executableCode")
_RESULT_KEYS = ("functionResponse", "function_response", "toolResult", "codeExecutionResult")
# Ends of types: `server_tool_use`, `mcp_tool_result` and the like.
_CALL_KINDS = ("tool_use", "tool_call", "function_call", "toolcall")
_RESULT_KINDS = ("tool_result", "tool_call_response", "function_call_output", "tool_response")
# In a type or a key: what has none of these and holds text is refused.
_MEDIA_WORDS = words("image audio video file document data media pdf url")


def parts_of(content: object) -> list[Part]:
    """Return the parts of a message's content: a text, a list of parts, one part, or null."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return list(map(read_part, content))
    own = object_or_empty(content)
    if isinstance(own.get("answer"), str):  # arena-hard
        return [Reasoning(text_or_empty(own.get("thought"))), own["answer"]]
    if "parts" in own:
        return parts_of(own["parts"])
    if not {"text", "type"}.isdisjoint(own):
        return [read_part(content)]
    raise UnreadableRecordError(
        f"message content is {kind_of(content)}, expected a string or a list of parts"
    )


def text_of_parts(parts: Iterable[Part]) -> str:
    """Return the texts of parts, with calls and media written out and without reasoning.

    They are joined without a separator, because servers split one text into several; an image or
    file leaves its mark, so that a judge knows something is missing, or is shown the image
    there."""
    return "".join(map(_text_of_part, parts))


def read_part(part: object) -> Part:
    """Return one part of a content: its text, or what else it is."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise UnreadableRecordError(f"a content part is {kind_of(part)}, expected an object")
    kind = text_or_empty(part.get("type"))
    plain = kind.replace("-", "_").lower()
    key = next((key for key in part if isinstance(part[key], dict)), "")
    if key in _CALL_KEYS:
        return call_of(part[key])
    if key in _RESULT_KEYS:
        return ToolResult(result_text(part[key]), name_of_call(part[key]))
    is_thought = not kind and not _REASONING_KEYS.isdisjoint(part)
    if plain in _REASONING_KINDS or part.get("thought") is True or is_thought:
        return Reasoning(reasoning_text(part))
    if plain.endswith(_CALL_KINDS):
        return call_of(part)
    if plain.endswith(_RESULT_KINDS):
        return ToolResult(result_text(part), name_of_call(part))
    text = part.get("text")
    if isinstance(text, dict):  # OpenAI's Assistants API
        text = text.get("value")
    if isinstance(text, str):
        return text
    if isinstance(part.get("refusal"), str):
        return Refusal(part["refusal"])
    if plain in ("text", "") and isinstance(part.get("content"), str):
        return str(part["content"])
    if "json" in part:
        return json_of(part["json"])
    return _read_media(part, kind or next(map(str, part), "part"))


def reasoning_text(part: JsonObject) -> str:
    """Return the text of a part of reasoning, or those of the parts that it holds."""
    if text := first_text(part, _REASONING_FIELDS):
        return text
    held = next(filter(is_objects, map(part.get, _REASONING_FIELDS)), [])
    inner = "".join(first_text(each, _REASONING_FIELDS) for each in held)
    return inner or "".join(iter_strings(part.get("reasoningContent")))


def call_of(call: object) -> ToolCall:
    """Return a tool call: in OpenAI's shape, flat, or as JSON text (verifiers).

    A policy may write half a call, which its server parses into anything: that is shown as its
    JSON."""
    if isinstance(call, str):
        # Not parsed: nested JSON could smuggle lone surrogates and deep nesting past the checks of
        # the line.
        return ToolCall("", call)
    if not isinstance(call, dict):
        return ToolCall("", json_of(call))
    function = call.get("function", call)
    if isinstance(function, str):  # inspect_ai
        return ToolCall(function, arguments_of(call, "function"))
    if not isinstance(function, dict):
        return ToolCall("", json_of(function))
    return ToolCall(name_of_call(call), arguments_of(function))


def name_of_call(call: JsonObject) -> str:
    """Return the name of the tool that is called; empty if there is none."""
    function = call.get("function")
    if isinstance(function, str):
        return function
    return first_text(object_or_empty(function), _CALL_NAMES) or first_text(call, _CALL_NAMES)


def arguments_of(call: JsonObject, *frame: str) -> str:
    """Return the arguments of a tool call as text, whatever the name of their field.

    `frame` are further fields that are no arguments."""
    value = next((call[name] for name in _CALL_INPUTS if call.get(name) is not None), None)
    if value is None:
        left = {key: each for key, each in call.items() if key not in (*_CALL_FRAME, *frame)}
        value = left if any(map(is_prose, iter_strings(left))) else ""
    return value if isinstance(value, str) else json_of(value)


def result_text(result: JsonObject) -> str:
    """Return the text of a tool's result: of its output, logs, found passages, or their JSON."""
    value = next((result[name] for name in _RESULTS if result.get(name) is not None), "")
    if isinstance(value, dict) and isinstance(value.get("value"), str):
        value = value["value"]
    if isinstance(value, str):
        return value
    if is_objects(value):
        texts = [first_text(each, ("text", "logs")) for each in value]
        if all(texts):
            return "\n".join(texts)
    return json_of(value)


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


def _read_media(part: JsonObject, kind: str) -> Media:
    """Return an image or file; the URL of an image is where OpenAI, Anthropic or Qwen have it."""
    is_media = any(word in name.lower() for name in (kind, *part) for word in _MEDIA_WORDS)
    if not is_media and any(map(is_prose, iter_strings(part))):
        raise UnreadableRecordError(f"a content part of type {kind!r} holds text, unknown of whom")
    url = next((part[name] for name in _URL_FIELDS if part.get(name)), None)
    if isinstance(url, dict):
        url = url.get("url") or f"data:{url.get('media_type')};base64,{url.get('data')}"
    is_image = "image" in kind or "image_url" in part
    is_shown = is_image and text_or_empty(url).startswith(_URLS)
    return Media(kind, url if is_shown else None)
