"""Read chat messages: as turns of a prompt, or as the items of a response."""

from collections.abc import Iterator, Mapping, Sequence

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.message_parts import (
    answer_text,
    arguments_of,
    content_of,
    is_media,
    kind_of,
    list_or_empty,
    media_of_messages,
    media_of_part,
    reasoning_of_part,
    text_of_content,
    text_or_empty,
)
from genrm_cli.rollouts.reading.reasoning import split_reasoning, strip_end_tokens
from genrm_cli.rollouts.rollout import (
    CallingTurn,
    Item,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    UnreadableRecordError,
    call_text,
    join_texts,
)

_ROLES = {
    **{"developer": "system", "function": "tool", "human": "user"},
    **dict.fromkeys(("gpt", "model", "bot", "chatbot", "ai"), "assistant"),
}


def turns_of_prompt(prompt: object) -> tuple[Turn, ...]:
    """Return a prompt given as a string (one user turn) or as messages."""
    if prompt is None:
        return ()
    if isinstance(prompt, str):
        return (Turn("user", prompt),)
    if isinstance(prompt, list):
        return turns_of_messages(prompt)
    raise UnreadableRecordError(
        f"the prompt is {kind_of(prompt)}, expected a string or a list of messages"
    )


def turns_of_messages(messages: Sequence[object]) -> tuple[Turn, ...]:
    """Return chat messages as turns; an assistant's tool calls are written out after its text."""
    return tuple(_turn_of_message(message) for message in messages)


def items_of_text(text: str) -> tuple[Item, ...]:
    """Return a text of the policy as reasoning and answer, chat-template tokens stripped."""
    stripped, count = strip_end_tokens(text)
    thought, answer, is_opened = split_reasoning(stripped)
    items: list[Item] = [Reasoning(thought, is_opened)] if thought or not is_opened else []
    if answer.strip() or count:
        items.append(Text(answer, count))
    return tuple(items)


def items_of_messages(messages: Sequence[object]) -> tuple[Item, ...] | None:
    """Return the items of chat messages; None if no assistant message is among them."""
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
        if isinstance(message, dict)
        for call in list_or_empty(message.get("tool_calls"))
        if isinstance(call, dict)
        and isinstance(call.get("id"), str)
        and (read := _call_of(call)) is not None
    }


def iter_items_of_message(
    message: object, tools: Mapping[str, str] | None = None
) -> Iterator[Item]:
    """Yield the items of one chat message; `tools` names those of results without a name, by the
    ids of their calls.
    """
    if not isinstance(message, dict):
        raise UnreadableRecordError(f"a message is {kind_of(message)}, expected an object")
    role = _role_of(message)
    content = content_of(message)
    if role == "assistant":
        yield from items_of_assistant(message)
        return
    media = media_of_messages(message)
    if role == "tool":
        name = text_or_empty(message.get("name")) or text_or_empty(message.get("function"))
        name = name or (tools or {}).get(text_or_empty(message.get("tool_call_id")), "")
        yield ToolResult(text_of_content(content), name)
    else:
        yield from _results_within(content)
        if text := text_of_content(content):
            yield Turn(role, text)
    yield from media


def items_of_assistant(message: JsonObject) -> Iterator[Item]:
    """Yield the items of an assistant message: reasoning, text and media, refusals, calls."""
    apart = message.get("reasoning_content") or message.get("reasoning")
    content = content_of(message)
    parts = content if isinstance(content, list) else ()
    thoughts = "".join(reasoning_of_part(part) for part in parts)
    inline = list(_items_of_content(content))
    if isinstance(apart, str) and apart:
        inline = [Reasoning(apart), *(item for item in inline if not isinstance(item, Reasoning))]
    elif thoughts:
        yield Reasoning(thoughts)
    yield from inline
    refusals = [message.get("refusal")] + [
        part.get("refusal") for part in parts if isinstance(part, dict)
    ]
    yield from (Refusal(refusal) for refusal in refusals if isinstance(refusal, str) and refusal)
    yield from (
        _call_of_part(part)
        for part in parts
        if isinstance(part, dict) and part.get("type") == "tool_use"
    )
    yield from _calls_of_message(message)


def _items_of_content(content: object) -> Iterator[Item]:
    """Yield reasoning, text and media in their order; the parts between two media are one text."""
    if not isinstance(content, list):
        yield from items_of_text(answer_text(content))
        return
    parts: list[object] = []
    for part in content:
        parts.append(part)
        if isinstance(part, dict) and is_media(part):
            yield from items_of_text(answer_text(parts))
            yield media_of_part(part)
            parts = []
    yield from items_of_text(answer_text(parts))


def _calls_of_message(message: JsonObject) -> Iterator[ToolCall]:
    for call in list_or_empty(message.get("tool_calls")):
        if (read := _call_of(call)) is not None:
            yield read
    if isinstance(message.get("function_call"), dict):
        yield ToolCall(
            text_or_empty(message["function_call"].get("name")),
            arguments_of(message["function_call"]),
        )


def _call_of(call: object) -> ToolCall | None:
    """Read one of a message's tool calls: in OpenAI's shape, flat, or as JSON text (verifiers)."""
    if isinstance(call, str):
        # Not parsed: nested JSON could smuggle lone surrogates and deep nesting past the checks of
        # the line.
        return ToolCall("", call)
    if not isinstance(call, dict):
        return None
    function = call.get("function", call)
    if isinstance(function, str):  # inspect_ai
        return ToolCall(function, arguments_of(call))
    return (
        ToolCall(text_or_empty(function.get("name")), arguments_of(function))
        if isinstance(function, dict)
        else None
    )


def _call_of_part(part: JsonObject) -> ToolCall:
    return ToolCall(text_or_empty(part.get("name")), arguments_of(part))


def _results_within(content: object) -> Iterator[Item]:
    """Yield tool results that are parts of a user message (Anthropic)."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_result":
            yield ToolResult(text_of_content(part.get("content")))
            yield from media_of_messages(part)


def _turn_of_message(message: object) -> Turn:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise UnreadableRecordError("a message has no role; expected objects with role and content")
    words = text_of_content(content_of(message))
    calls = tuple(_calls_of_message(message))
    if not calls:
        return Turn(_role_of(message), join_texts([words]))
    written = [call_text(call.name, call.arguments) for call in calls]
    return CallingTurn(_role_of(message), join_texts([words, *written]), words, calls)


def _role_of(message: JsonObject) -> str:
    role = message.get("role")
    if not isinstance(role, str):
        raise UnreadableRecordError("a message has no role; expected objects with role and content")
    return _ROLES.get(role.lower(), role.lower())
