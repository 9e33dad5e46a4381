"""Read the content of a message: text, reasoning and media in parts."""

import json
from typing import Any

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.rollout import Media, UnreadableRecordError, call_text

_CONTENT_NAMES = ("content", "parts", "text", "value", "message", "prompt")
_CALL_INPUTS = ("arguments", "input", "action", "code", "queries")
_URLS = ("https://", "http://", "data:image/")
_TEXT_FIELDS = ("text", "refusal")
_REASONING_FIELDS = {"reasoning": "reasoning", "thinking": "thinking", "reasoning_text": "text"}
_NO_MEDIA = (
    "text",
    "input_text",
    "output_text",
    "refusal",
    "summary_text",
    "tool_use",
    "tool_result",
    "json",
    "",
)


def content_of(message: JsonObject) -> object:
    """Return the content of a message: under its usual name, or that of Gemini, Cohere, OpenCompass
    or others.
    """
    return next((message[name] for name in _CONTENT_NAMES if name in message), None)


def text_of_content(content: object) -> str:
    """Return the text of a message's content: a string, or a list of typed parts.

    Text parts are joined without a separator, because servers split one text into several; an image
    or file part leaves its mark, so that a judge knows something is missing, or is shown the image
    there."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text_of_part(part) for part in content)
    raise UnreadableRecordError(
        f"message content is {kind_of(content)}, expected a string or a list of parts"
    )


def answer_text(content: object) -> str:
    """Return the text of an assistant's content without refusals, media and reasoning parts."""
    if not isinstance(content, list):
        return text_of_content(content)
    for part in content:
        _text_of_part(part)  # refuses what is not a part
    return "".join(
        part if isinstance(part, str) else part["text"]
        for part in content
        if isinstance(part, str)
        or (
            isinstance(part.get("text"), str)
            and text_or_empty(part.get("type")) not in _REASONING_FIELDS
        )
    )


def reasoning_of_part(part: object) -> str:
    """Return the reasoning that a content part holds; empty for other parts."""
    if not isinstance(part, dict):
        return ""
    field = _REASONING_FIELDS.get(text_or_empty(part.get("type")))
    return (
        "" if field is None else text_or_empty(part.get(field)) or text_or_empty(part.get("text"))
    )


def media_of_messages(messages: object) -> tuple[Media, ...]:
    """Return the images and files in messages or items, nested ones included."""
    if isinstance(messages, dict):
        content = (
            content_of(messages) if content_of(messages) is not None else messages.get("output")
        )
        parts = content if isinstance(content, list) else ()
        return tuple(
            media_of_part(part) for part in parts if isinstance(part, dict) and is_media(part)
        )
    if not isinstance(messages, list):
        return ()
    return tuple(media for message in messages for media in media_of_messages(message))


def is_media(part: JsonObject) -> bool:
    """Whether a typed content part is neither text nor reasoning."""
    kind = text_or_empty(part.get("type"))
    known = kind in _NO_MEDIA or kind in _REASONING_FIELDS or kind == "redacted_thinking"
    return not known and not any(isinstance(part.get(name), str) for name in _TEXT_FIELDS)


def arguments_of(call: JsonObject) -> str:
    """Return the arguments of a tool call as text, whatever the name of their field."""
    value = next((call[name] for name in _CALL_INPUTS if call.get(name) is not None), "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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


def _text_of_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise UnreadableRecordError(f"a content part is {kind_of(part)}, expected an object")
    for name in _TEXT_FIELDS:
        if isinstance(part.get(name), str):
            return str(part[name])
    kind = text_or_empty(part.get("type")) or "part"
    if kind == "tool_use":
        return call_text(text_or_empty(part.get("name")), arguments_of(part))
    return "" if kind in _REASONING_FIELDS or kind == "tool_result" else media_of_part(part).mark


def media_of_part(part: JsonObject) -> Media:
    """Return an image or file; the URL of an image is where OpenAI, Anthropic or Qwen have it."""
    kind = text_or_empty(part.get("type")) or "part"
    url = next(
        (part[name] for name in ("image_url", "source", "image", "url") if part.get(name)), None
    )
    if isinstance(url, dict):
        url = url.get("url") or f"data:{url.get('media_type')};base64,{url.get('data')}"
    is_image = "image" in kind or "image_url" in part
    return Media(kind, url if is_image and isinstance(url, str) and url.startswith(_URLS) else None)
