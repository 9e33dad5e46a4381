"""Read messages and Responses API items: as turns of a prompt, or as the items of a response."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from genrm_cli.rollouts.reading.reasoning import split_reasoning, strip_end_tokens
from genrm_cli.rollouts.record import UnreadableRecordError
from genrm_cli.rollouts.response import (
    Item,
    Media,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    call_text,
    join_texts,
)

Json = Mapping[str, Any]

_ROLES = {"developer": "system", "function": "tool", "human": "user", "gpt": "assistant", "model": "assistant"}
_CALL_INPUTS = ("arguments", "input", "action", "code", "queries")
_TEXT_FIELDS = ("text", "refusal")
_REASONING_FIELDS = {"reasoning": "reasoning", "thinking": "thinking", "reasoning_text": "text"}
_NO_MEDIA = ("text", "input_text", "output_text", "refusal", "summary_text", "tool_use", "tool_result", "json", "")


# Prompts


def turns_of_prompt(prompt: object) -> tuple[Turn, ...]:
    """Return a prompt given as a string (one user turn) or as messages."""
    if prompt is None:
        return ()
    if isinstance(prompt, str):
        return (Turn("user", prompt),)
    if isinstance(prompt, list):
        return turns_of_messages(prompt)
    raise UnreadableRecordError(f"the prompt is {kind_of(prompt)}, expected a string or a list of messages")


def turns_of_messages(messages: Sequence[object]) -> tuple[Turn, ...]:
    """Return chat messages as turns; an assistant's tool calls are written out after its text.

    Raises:
        UnreadableRecordError: an item is not a message.
    """
    return tuple(_turn_of_message(message) for message in messages)


def media_of_messages(messages: object) -> tuple[str, ...]:
    """Return the kinds of the images and files in messages or items, nested ones included."""
    if isinstance(messages, Mapping):
        content = messages.get("content") if messages.get("content") is not None else messages.get("output")
        parts = content if isinstance(content, list) else ()
        return tuple(part["type"] for part in parts if isinstance(part, Mapping) and is_media(part))
    if not isinstance(messages, list):
        return ()
    return tuple(kind for message in messages for kind in media_of_messages(message))


def text_of_content(content: object) -> str:
    """Return the text of a message's content: a string, or a list of typed parts.

    Text parts are joined without a separator, as servers split one text over several; an image or file part
    leaves its type in brackets, so that a judge knows something is missing.

    Raises:
        UnreadableRecordError: the content is neither.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text_of_part(part) for part in content)
    raise UnreadableRecordError(f"message content is {kind_of(content)}, expected a string or a list of parts")


# Responses


def items_of_response(response: object) -> tuple[Item, ...] | None:
    """Return the items of a response in any of its shapes; None when it is null or holds no turn of the policy.

    Shapes: a string, a list of messages, one message, a Responses API object, a chat completion's choice.

    Raises:
        UnreadableRecordError: it has none of these shapes.
    """
    if response is None or response == {}:
        return None
    if isinstance(response, str):
        return items_of_text(response)
    if isinstance(response, list):
        return items_of_messages(response)
    if isinstance(response, Mapping):
        if "output" in response:
            return None if response["output"] is None else items_of_output(output_items(response))
        if isinstance(response.get("message"), Mapping):
            return items_of_messages([{"role": "assistant", **response["message"]}])
        if "content" in response or "tool_calls" in response:
            return items_of_messages([{"role": "assistant", **response}])
        if isinstance(response.get("text"), str):
            return items_of_text(response["text"])
    raise UnreadableRecordError("the response is neither text, nor messages, nor a Responses API object")


def items_of_text(text: str) -> tuple[Item, ...]:
    """Return a text of the policy as reasoning and answer, chat-template tokens stripped."""
    stripped, count = strip_end_tokens(text)
    thought, answer = split_reasoning(stripped)
    items: list[Item] = [Reasoning(thought)] if thought else []
    if answer.strip() or count:
        items.append(Text(answer, count))
    return tuple(items)


def items_of_messages(messages: Sequence[object]) -> tuple[Item, ...] | None:
    """Return the items of chat messages; None if no assistant message is among them.

    Raises:
        UnreadableRecordError: an item is not a message.
    """
    roles = {_turn_of_message(message).role for message in messages}
    if "assistant" not in roles:
        return None
    names = tool_names(messages)
    return tuple(item for message in messages for item in iter_items_of_message(message, names))


def tool_names(messages: Sequence[object]) -> dict[str, str]:
    """Return the names of the tools that messages call, by the ids of the calls."""
    return {
        call["id"]: read.name
        for message in messages
        if isinstance(message, Mapping)
        for call in _list(message.get("tool_calls"))
        if isinstance(call, Mapping) and isinstance(call.get("id"), str) and (read := _call_of(call)) is not None
    }


def iter_items_of_message(message: object, tools: Mapping[str, str] | None = None) -> Iterator[Item]:
    """Yield the items of one chat message.

    Args:
        message: the message.
        tools: names of the tools by the ids of their calls, for results without a name.

    Raises:
        UnreadableRecordError: it is not one.
    """
    if not isinstance(message, Mapping):
        raise UnreadableRecordError(f"a message is {kind_of(message)}, expected an object")
    role, content = _role_of(message), message.get("content")
    if role == "assistant":
        yield from _items_of_assistant(message)
        return
    media = [Media(kind) for kind in media_of_messages(message)]
    if role == "tool":
        name = _text(message.get("name")) or _text(message.get("function"))
        yield ToolResult(text_of_content(content), name or (tools or {}).get(_text(message.get("tool_call_id")), ""))
    else:
        yield from _results_within(content)
        if text := text_of_content(content):
            yield Turn(role, text)
    yield from media


def output_items(response: object) -> list[Json]:
    """Return the items of a Responses API object's `output`, nested lists flattened.

    Some environments store a list of growing histories, one a step, each beginning with the one before: then
    only the last counts.

    Raises:
        UnreadableRecordError: `output` is not a list of items.
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
    return list(flatten_items(output))


def items_of_output(items: Iterable[Json]) -> tuple[Item, ...]:
    """Return a response from the items of a Responses API object."""
    items = list(items)
    names = {_text(item.get("call_id")): _text(item.get("name")) for item in items if _text(item.get("name"))}
    names.pop("", None)
    return tuple(each for item in items for each in _items_of_output_item(item, names))


def flatten_items(items: Iterable[object]) -> Iterator[Json]:
    """Yield the items of nested lists.

    Raises:
        UnreadableRecordError: one is not an object.
    """
    for item in items:
        if isinstance(item, list):
            yield from flatten_items(item)
        elif isinstance(item, Mapping):
            yield item
        else:
            raise UnreadableRecordError("an item of input or output is not an object")


def turns_of_item(item: Json) -> tuple[Turn, ...]:
    """Return an item of a Responses API input as turns of a prompt; reasoning is left out."""
    kind = item.get("type")
    if kind == "reasoning":
        return ()
    if isinstance(kind, str) and kind.endswith("_call"):
        call = _call_of_item(item)
        return (Turn("assistant", call_text(call.name, call.arguments)),)
    if isinstance(kind, str) and kind.endswith("_call_output"):
        return (Turn("tool", text_of_content(item.get("output"))),)
    return turns_of_messages([item])


def is_media(part: Json) -> bool:
    """Whether a typed content part is neither text nor reasoning."""
    kind = _text(part.get("type"))
    known = kind in _NO_MEDIA or kind in _REASONING_FIELDS or kind == "redacted_thinking"
    return not known and not any(isinstance(part.get(name), str) for name in _TEXT_FIELDS)


def kind_of(value: object) -> str:
    """Return what a JSON value is, for a person."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _items_of_assistant(message: Json) -> Iterator[Item]:
    apart = message.get("reasoning_content") or message.get("reasoning")
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    thoughts = "".join(_reasoning_of_part(part) for part in parts)
    inline = items_of_text(_answer_text(content))
    if isinstance(apart, str) and apart:
        inline = (Reasoning(apart), *(item for item in inline if not isinstance(item, Reasoning)))
    elif thoughts:
        yield Reasoning(thoughts)
    yield from inline
    refusals = [message.get("refusal")] + [part.get("refusal") for part in parts if isinstance(part, Mapping)]
    yield from (Refusal(refusal) for refusal in refusals if isinstance(refusal, str) and refusal)
    yield from (Media(kind) for kind in media_of_messages(message))
    yield from (_call_of_part(part) for part in parts if isinstance(part, Mapping) and part.get("type") == "tool_use")
    yield from _calls_of_message(message)


def _answer_text(content: object) -> str:
    """Return the text of an assistant's content without refusals, media and reasoning parts."""
    if not isinstance(content, list):
        return text_of_content(content)
    for part in content:
        _text_of_part(part)  # refuses what is not a part
    return "".join(
        part if isinstance(part, str) else part["text"]
        for part in content
        if isinstance(part, str)
        or (isinstance(part.get("text"), str) and _text(part.get("type")) not in _REASONING_FIELDS)
    )


def _reasoning_of_part(part: object) -> str:
    if not isinstance(part, Mapping):
        return ""
    field = _REASONING_FIELDS.get(_text(part.get("type")))
    return "" if field is None else _text(part.get(field)) or _text(part.get("text"))


def _calls_of_message(message: Json) -> Iterator[ToolCall]:
    for call in _list(message.get("tool_calls")):
        if (read := _call_of(call)) is not None:
            yield read
    if isinstance(message.get("function_call"), Mapping):
        yield ToolCall(_text(message["function_call"].get("name")), _arguments(message["function_call"]))


def _call_of(call: object) -> ToolCall | None:
    """Read one of a message's tool calls: in OpenAI's shape, flat, or as JSON text (verifiers)."""
    if isinstance(call, str):
        # Not parsed: JSON within JSON can bring lone surrogates and any depth past the checks of the line.
        return ToolCall("", call)
    if not isinstance(call, Mapping):
        return None
    function = call.get("function", call)
    if isinstance(function, str):  # inspect_ai
        return ToolCall(function, _arguments(call))
    return ToolCall(_text(function.get("name")), _arguments(function)) if isinstance(function, Mapping) else None


def _call_of_part(part: Json) -> ToolCall:
    return ToolCall(_text(part.get("name")), _arguments(part))


def _call_of_item(item: Json) -> ToolCall:
    return ToolCall(_text(item.get("name")) or _text(item.get("type")).removesuffix("_call"), _arguments(item))


def _arguments(call: Json) -> str:
    value = next((call[name] for name in _CALL_INPUTS if call.get(name) is not None), "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _results_within(content: object) -> Iterator[Item]:
    """Yield tool results that stand as parts in a user message (Anthropic)."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and part.get("type") == "tool_result":
            yield ToolResult(text_of_content(part.get("content")))
            yield from (Media(kind) for kind in media_of_messages(part))


def _items_of_output_item(item: Json, tools: Mapping[str, str]) -> Iterator[Item]:
    kind, role = _text(item.get("type")), item.get("role")
    if kind == "reasoning":
        # Never both places: some servers fill both with the same text. The reference measures the summary.
        if text := text_of_content(item.get("summary")) or text_of_content(item.get("content")):
            yield Reasoning(text)
    elif role == "assistant" or (role is None and kind == "message"):
        yield from _items_of_assistant({"content": item.get("content"), "tool_calls": item.get("tool_calls")})
    elif isinstance(role, str):
        yield from iter_items_of_message(item)
    elif kind == "image_generation_call":
        yield Media("image")
    elif kind.endswith("_call_output"):
        name = _text(item.get("name")) or tools.get(_text(item.get("call_id")), "")
        yield ToolResult(text_of_content(item.get("output")), name)
        yield from (Media(each) for each in media_of_messages(item))
    elif kind.endswith("_call"):
        yield _call_of_item(item)
        if isinstance(item.get("output"), str):  # executed by the server (MCP)
            yield ToolResult(item["output"], _text(item.get("name")))
    elif kind:
        yield Turn("environment", f"[{kind}]")


def _turn_of_message(message: object) -> Turn:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise UnreadableRecordError("a message has no role; expected objects with role and content")
    texts = [text_of_content(message.get("content"))]
    texts += [call_text(call.name, call.arguments) for call in _calls_of_message(message)]
    return Turn(_role_of(message), join_texts(texts))


def _role_of(message: Json) -> str:
    role = message.get("role")
    if not isinstance(role, str):
        raise UnreadableRecordError("a message has no role; expected objects with role and content")
    return _ROLES.get(role, role)


def _text_of_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise UnreadableRecordError(f"a content part is {kind_of(part)}, expected an object")
    for name in _TEXT_FIELDS:
        if isinstance(part.get(name), str):
            return str(part[name])
    kind = _text(part.get("type")) or "part"
    if kind == "tool_use":
        return call_text(_text(part.get("name")), _arguments(part))
    return "" if kind in _REASONING_FIELDS or kind == "tool_result" else f"[{kind}]"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
