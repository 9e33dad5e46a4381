"""Read chat messages: as turns of a prompt, or as the items of a response.

A message is understood, or its line is refused: a field of a message that holds a text or a call
which is not read could be what the policy did."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.account import is_prose, iter_strings, json_in, shown_text
from genrm_cli.rollouts.reading.known_names import is_label, plain_name, role_named
from genrm_cli.rollouts.reading.message_parts import (
    Part,
    call_of,
    content_of,
    kind_of,
    list_or_empty,
    media_of_messages,
    parts_of,
    text_of_content,
    text_of_parts,
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

REASONING = "reasoning"
"""The role of a message that is reasoning of the policy; it is part of no prompt."""

_ROLES = {
    **dict.fromkeys(("developer",), "system"),
    **dict.fromkeys(("function", "observation", "ipython"), "tool"),
    **dict.fromkeys(("human", "prompter"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "model", "bot", "chatbot", "ai", "agent"), "assistant"),
    **dict.fromkeys(("thought", "thinking", "thoughts", "analysis"), REASONING),
}
_REASONING_NAMES = ("reasoning_content", "reasoning", "thinking", "thought")
_TOOL_CONTENT = ("output", "result", "response")
# Fields of a message that are read, or that are about it.
_UNDERSTOOD = frozenset(
    (
        *("role", "content", "parts", "text", "value", "message", "prompt", "name", "function"),
        *("tool_calls", "function_call", "tool_call_id", "refusal", "recipient", "channel"),
        *_REASONING_NAMES,
        *_TOOL_CONTENT,
    )
)
# What writers keep about a message: raw replies, which repeat it, and their own notes.
_ABOUT = frozenset(
    (
        *("extra", "metadata", "raw", "raw_data", "raw_response", "response_metadata", "usage"),
        *("provider_specific_fields", "logprobs", "annotations", "citations", "header", "info"),
        *("reasoning_details", "thinking_blocks", "audio", "error", "state", "tags", "stats"),
    )
)
_KNOWN = _UNDERSTOOD | _ABOUT
_CALLING_WORDS = frozenset(("call", "calls", "tool", "tools", "action", "actions", "function"))


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
    return tuple(_turn_of_message(message, number) for number, message in enumerate(messages))


def items_of_text(text: str) -> tuple[Item, ...]:
    """Return a text of the policy as reasoning and answer, chat-template tokens stripped."""
    stripped, count = strip_end_tokens(text)
    thought, answer, is_opened = split_reasoning(stripped)
    items: list[Item] = [Reasoning(thought, is_opened)] if thought or not is_opened else []
    if answer.strip() or count:
        items.append(Text(answer, count))
    return tuple(items)


def items_of_messages(messages: Sequence[object]) -> tuple[Item, ...] | None:
    """Return the items of chat messages; None if no message of the policy is among them."""
    roles = {_turn_of_message(message).role for message in messages}
    if roles.isdisjoint(("assistant", REASONING)):
        return None
    names = tool_names(messages)
    return tuple(item for message in messages for item in iter_items_of_message(message, names))


def tool_names(messages: Sequence[object]) -> dict[str, str]:
    """Return the names of the tools that messages call, by the ids of the calls."""
    calls = (
        call
        for message in messages
        if isinstance(message, dict)
        for call in list_or_empty(message.get("tool_calls"))
    )
    return {
        call["id"]: call_of(call).name
        for call in calls
        if isinstance(call, dict) and isinstance(call.get("id"), str)
    }


def iter_items_of_message(
    message: object, tools: Mapping[str, str] | None = None
) -> Iterator[Item]:
    """Yield the items of one chat message; `tools` names those of results without a name, by the
    ids of their calls.
    """
    if not isinstance(message, dict):
        raise UnreadableRecordError(f"a message is {kind_of(message)}, expected an object")
    role = role_of(message)
    if role == "assistant":
        yield from items_of_assistant(message)
    elif role == REASONING:
        yield Reasoning(text_of_content(content_of(message)))
    elif role == "tool":
        name = text_or_empty(message.get("name")) or text_or_empty(message.get("function"))
        name = name or (tools or {}).get(text_or_empty(message.get("tool_call_id")), "")
        yield from _items_of_tool(message, name)
    else:
        # Anthropic puts results into the user's message.
        results, others = _without_results(content_of(message))
        yield from results
        written = [call_text(call.name, call.arguments) for call in _calls_of_message(message)]
        if text := join_texts([text_of_parts(others), *written]):
            yield Turn(role, text)
        yield from media_of_messages(message)


def _without_results(content: object) -> tuple[list[ToolResult], list[Part]]:
    parts = parts_of(content)
    results = [part for part in parts if isinstance(part, ToolResult)]
    return results, [part for part in parts if not isinstance(part, ToolResult)]


def items_of_assistant(message: JsonObject) -> Iterator[Item]:
    """Yield the items of an assistant message in their order; its calls come last."""
    recipient = text_or_empty(message.get("recipient"))
    content = content_of(message)
    if recipient.startswith("functions."):  # gpt-oss
        yield ToolCall(recipient.removeprefix("functions."), text_of_content(content))
        return
    items = list(_items_of_parts(parts_of(content)))
    names = (message[name] for name in _REASONING_NAMES if isinstance(message.get(name), str))
    if apart := next(filter(None, names), ""):
        items = [Reasoning(apart), *(item for item in items if not isinstance(item, Reasoning))]
    yield from items
    if refusal := text_or_empty(message.get("refusal")):
        yield Refusal(refusal)
    yield from _calls_of_message(message)


def _items_of_parts(parts: Iterable[Part]) -> Iterator[Item]:
    """Yield the items of parts. Texts, and the thoughts before and between them, are one text each
    up to a call, a result or an image.
    """
    texts: list[str] = []
    thoughts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Reasoning):
            thoughts.append(part.text)
        else:
            yield from _items_of_run(thoughts, texts)
            yield part
            texts.clear()
            thoughts.clear()
    yield from _items_of_run(thoughts, texts)


def _items_of_run(thoughts: Sequence[str], texts: Sequence[str]) -> Iterator[Item]:
    if any(thoughts):
        yield Reasoning("".join(thoughts))
    yield from items_of_text("".join(texts))


def _items_of_tool(message: JsonObject, name: str) -> Iterator[Item]:
    results, others = _without_results(_content_of_tool(message))
    yield from results
    if not results or any(others):
        yield ToolResult(text_of_parts(others), name)
    yield from media_of_messages(message)


def _content_of_tool(message: JsonObject) -> object:
    content = content_of(message)
    if content is None:
        return next((message[key] for key in _TOOL_CONTENT if key in message), None)
    return content


def _calls_of_message(message: JsonObject) -> Iterator[ToolCall]:
    for name in ("tool_calls", "function_call"):
        calls = message.get(name)
        if isinstance(calls, str):
            calls = json_in(calls) or calls
        if calls:
            every = calls if isinstance(calls, list) else [calls]
            yield from (call_of(call) for call in every if call is not None)


def _turn_of_message(message: object, number: int | None = None) -> Turn:
    if not isinstance(message, dict):
        raise UnreadableRecordError(f"a message is {kind_of(message)}, expected an object")
    role = role_of(message)
    _refuse_unknown(message, "a message" if number is None else f"message {number + 1}")
    if role == REASONING:
        return Turn(REASONING, "")
    words = text_of_content(_content_of_tool(message) if role == "tool" else content_of(message))
    calls = tuple(_calls_of_message(message))
    if not calls:
        return Turn(role, join_texts([words]))
    written = [call_text(call.name, call.arguments) for call in calls]
    return CallingTurn(role, join_texts([words, *written]), words, calls)


def role_of(message: JsonObject) -> str:
    """Return the role of a message under its usual name."""
    role = message.get("role")
    if not isinstance(role, str):
        raise UnreadableRecordError("a message has no role; expected objects with role and content")
    name = _ROLES.get(role.lower(), role.lower())
    is_thought = name == "assistant" and message.get("channel") == "analysis"
    return REASONING if is_thought else name


def _refuse_unknown(message: JsonObject, where: str) -> None:
    """Refuse a message with a text or a call in a field that is not understood."""
    if message.keys() <= _KNOWN:
        return  # most messages
    for name in message.keys() - _KNOWN:
        value = message[name]
        if not value or isinstance(value, int | float) or role_named(name) in ("verdict",):
            continue
        is_call = not _CALLING_WORDS.isdisjoint(plain_name(name).split("_"))
        texts = list(iter_strings(value))
        if isinstance(value, str) and is_label(name):
            continue
        own = "" if not any(map(is_prose, texts)) else "".join(iter_strings(content_of(message)))
        unread = [text for text in texts if is_prose(text) and text.strip() not in own]
        if unread or (is_call and isinstance(value, list | dict)):
            example = f" ({shown_text(unread[0])})" if unread else ""
            raise UnreadableRecordError(
                f"{where} has a field {name}{example} that could be what the policy did"
            )
