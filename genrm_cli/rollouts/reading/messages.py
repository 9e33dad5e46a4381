"""Read messages, of chats and of the Responses API: as turns of a prompt or items of a response.

A message is understood, or its line is refused: a field of a message that holds a text or a call
which is not read could be what the policy did."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.all_texts import is_prose, shown_text
from genrm_cli.rollouts.reading.known_names import ROLES, is_label, plain_name, role_named
from genrm_cli.rollouts.reading.message_parts import (
    Part,
    arguments_of,
    call_of,
    name_of_call,
    parts_of,
    reasoning_text,
    result_text,
    text_of_parts,
)
from genrm_cli.rollouts.reading.values import (
    first_text,
    is_objects,
    iter_strings,
    json_in,
    kind_of,
    list_or_empty,
    objects_in,
    text_or_empty,
    words,
)
from genrm_cli.rollouts.rollout import (
    CallingTurn,
    Item,
    Items,
    Media,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Turns,
    UnreadableRecordError,
    call_text,
    join_texts,
)
from genrm_cli.texts.reasoning import split_reasoning, strip_end_tokens

REASONING = "reasoning"
"""The role of a message that is reasoning of the policy; it is part of no prompt."""

# OpenAI, Gemini, Cohere, ShareGPT, and what loggers call it.
_CONTENT = words("content parts text value message prompt")
_TOOL_CONTENT = ("output", "result", "response")
_REASONING = ("reasoning_content", "reasoning", "thinking", "thought")
_BLOCKS = ("reasoning_details", "thinking_blocks")  # OpenRouter, LiteLLM
_BESIDE = frozenset((*_REASONING, *_BLOCKS))
_CALLS = ("tool_calls", "function_call")
# Where the server puts the results of the calls that it executes itself.
_OWN_RESULTS = ("output", "outputs", "results")
# Fields of a message that are read; and what writers keep about it: raw replies, which repeat it,
# and their own notes.
_KNOWN = frozenset(
    (
        *words("role from id type status name function tool_call_id refusal recipient channel"),
        *(*_CONTENT, *_TOOL_CONTENT, *_REASONING, *_CALLS),
        *words("extra metadata raw raw_data raw_response response_metadata usage"),
        *words("provider_specific_fields logprobs annotations citations header info"),
        *_BLOCKS,
        *words("audio error state tags stats"),
    )
)
# In the name of an unknown field: its objects could be calls.
_CALLING_WORDS = frozenset(words("call calls tool tools action actions function"))


class ChatMessage(NamedTuple):
    """A role and parts; `tool` names the tool whose result it is."""

    role: str
    parts: Sequence[Part]
    tool: str = ""

    @property
    def turn(self) -> Turn:
        """The message as a turn of a prompt; calls are written out after the text."""
        if self.role == REASONING:
            return Turn(REASONING, "")
        calls = tuple(part for part in self.parts if isinstance(part, ToolCall))
        words = text_of_parts(part for part in self.parts if not isinstance(part, ToolCall))
        if not calls:
            return Turn(self.role, join_texts([words]))
        written = [call_text(call.name, call.arguments) for call in calls]
        return CallingTurn(self.role, join_texts([words, *written]), words, calls)

    def iter_items(self) -> Iterator[Item]:
        """Yield the items of the message within a response, in their order."""
        if self.role in ("assistant", REASONING):
            yield from _items_of_parts(self.parts)
            return
        # Anthropic puts results into the user's message.
        results = [part for part in self.parts if isinstance(part, ToolResult)]
        others = [part for part in self.parts if not isinstance(part, ToolResult)]
        yield from results
        if self.role == "tool" and (not results or any(others)):
            yield ToolResult(text_of_parts(others), self.tool)
        elif self.role != "tool" and (turn := ChatMessage(self.role, others).turn).text:
            yield Turn(*turn)
        yield from (part for part in others if isinstance(part, Media))


def read_messages(messages: Iterable[object]) -> list[ChatMessage]:
    """Return messages, each of which is understood; those that are read already stay as they
    are.
    """
    every = list(messages)
    read = [each for each in every if isinstance(each, ChatMessage)]
    if len(read) == len(every):
        return read
    tools = _names_of_calls(every)
    return [_read_message(each, tools, f"message {at}") for at, each in enumerate(every, 1)]


def turns_of_messages(messages: Iterable[object]) -> Turns:
    """Return messages as turns."""
    return tuple([message.turn for message in read_messages(messages)])


def items_of_messages(messages: Iterable[object]) -> Items | None:
    """Return the items of messages; None if no message of the policy is among them."""
    read = read_messages(messages)
    if {message.role for message in read}.isdisjoint(("assistant", REASONING)):
        return None
    return tuple([item for message in read for item in message.iter_items()])


def turns_of_prompt(prompt: object) -> Turns:
    """Return a prompt given as a string (one user turn) or as messages."""
    if isinstance(prompt, str):
        return (Turn("user", prompt),)
    if isinstance(prompt, list | None):
        return turns_of_messages(prompt or ())
    raise UnreadableRecordError(
        f"the prompt is {kind_of(prompt)}, expected a string or a list of messages"
    )


def media_of_messages(messages: object) -> tuple[Media, ...]:
    """Return the images and files in messages."""
    read = read_messages(list_or_empty(messages))
    parts = [part for message in read for part in message.parts]
    return tuple([part for part in parts if isinstance(part, Media)])


def items_of_text(text: str) -> Items:
    """Return a text of the policy as reasoning and answer, chat-template tokens stripped."""
    stripped, count = strip_end_tokens(text)
    thought, answer, is_opened = split_reasoning(stripped)
    items: list[Item] = [Reasoning(thought, is_opened)] if thought or not is_opened else []
    if answer.strip() or count:
        items.append(Text(answer, count))
    return tuple(items)


def role_of(message: JsonObject) -> str:
    """Return the role of a message under its usual name."""
    default = "assistant" if message.get("type") == "message" else None
    role = message.get("role", message.get("from", default))
    if not isinstance(role, str):
        raise UnreadableRecordError("a message has no role; expected objects with role and content")
    name = ROLES.get(role.lower(), role.lower())  # an unknown role is one of the environment
    is_thought = name == "assistant" and message.get("channel") == "analysis"
    return REASONING if is_thought else name


def _names_of_calls(messages: Iterable[object]) -> dict[str, str]:
    """Return the names of the tools that messages call, by the ids of the calls."""
    names = {}
    for message in objects_in([*messages]):
        if "tool_calls" not in message and "call_id" not in message:
            continue
        calls = [(call, "id") for call in objects_in(message.get("tool_calls"))]
        for call, key in (*calls, (message, "call_id")):
            if key in call and (name := name_of_call(call)):
                names[str(call[key])] = name
    return names


def _read_message(message: object, tools: Mapping[str, str], where: str) -> ChatMessage:
    if isinstance(message, ChatMessage):
        return message
    if not isinstance(message, dict):
        raise UnreadableRecordError(f"a message is {kind_of(message)}, expected an object")
    kind = text_or_empty(message.get("type"))
    if kind not in ("", "message") and {"role", "from"}.isdisjoint(message):
        return _read_item(message, kind, tools)
    role = role_of(message)
    _refuse_unknown(message, where)
    names = (*_CONTENT, *(_TOOL_CONTENT if role == "tool" else ()))
    content = (message[name] for name in names if message.get(name) is not None)
    parts = parts_of(next(content, None))
    if role == "function_call":  # ShareGPT
        return ChatMessage("assistant", [call_of(text_of_parts(parts))])
    if role == REASONING:
        return ChatMessage(role, [Reasoning(_thought_of(parts))])
    if role == "tool":
        name = first_text(message, ("name", "function"))
        return ChatMessage(role, parts, name or tools.get(str(message.get("tool_call_id")), ""))
    recipient = text_or_empty(message.get("recipient"))
    if recipient.startswith("functions."):  # gpt-oss
        call = ToolCall(recipient.removeprefix("functions."), text_of_parts(parts))
        return ChatMessage(role, [call])
    if apart := _thought_beside(message):
        parts = [Reasoning(apart), *(part for part in parts if not isinstance(part, Reasoning))]
    if refusal := text_or_empty(message.get("refusal")):
        parts.append(Refusal(refusal))
    return ChatMessage(role, [*parts, *_calls_of(message)])


def _thought_beside(message: JsonObject) -> str:
    """Return the reasoning in a field of its own, a text or blocks; writers may fill several of the
    fields with one text.
    """
    if _BESIDE.isdisjoint(message):
        return ""
    if text := first_text(message, _REASONING):
        return text
    blocks = filter(is_objects, map(message.get, (*_REASONING, *_BLOCKS)))
    texts = ("".join(map(reasoning_text, each)) for each in blocks)
    return next(filter(None, texts), "")


def _read_item(item: JsonObject, kind: str, tools: Mapping[str, str]) -> ChatMessage:
    """Read an item of the Responses API that is no message."""
    if kind == "reasoning":
        # Never both: some servers fill both with the same text. NeMo Gym measures the summary.
        texts = (_thought_of(parts_of(item.get(name))) for name in ("summary", "content"))
        return ChatMessage(REASONING, [Reasoning(text) for text in filter(None, texts)][:1])
    if kind == "image_generation_call":
        result = text_or_empty(item.get("result"))
        image = Media("image", f"data:image/png;base64,{result}" if result else None)
        return ChatMessage("assistant", [image])
    name = text_or_empty(item.get("name"))
    if kind.endswith("_call_output"):
        name = name or tools.get(str(item.get("call_id")), "")
        return ChatMessage("tool", parts_of(item.get("output")), name)
    if kind.endswith(("_call", "_request")):
        name = name or kind.removesuffix("_call")
        parts: list[Part] = [ToolCall(name, arguments_of(item, *_OWN_RESULTS))]
        if results := {key: item[key] for key in _OWN_RESULTS if item.get(key)}:
            parts.append(ToolResult(result_text(results), name))
        return ChatMessage("assistant", parts)
    if any(map(is_prose, iter_strings(item))) and not kind.startswith("mcp_list"):
        raise UnreadableRecordError(f"an item of type {kind!r} holds text, unknown of whom")
    return ChatMessage("environment", [f"[{kind}]"])


def _items_of_parts(parts: Iterable[Part]) -> Iterator[Item]:
    """Yield the items of parts. Texts, and the thoughts before and between them, are one text each
    up to a call, a result or an image.
    """
    texts: list[str] = []
    thoughts: list[str] = []
    for part in (*parts, None):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Reasoning):
            thoughts.append(part.text)
        else:
            if any(thoughts):
                yield Reasoning("".join(thoughts))
            yield from items_of_text("".join(texts))
            if part is not None:
                yield part
            texts.clear()
            thoughts.clear()


def _thought_of(parts: Iterable[Part]) -> str:
    texts = (part.text if isinstance(part, Reasoning) else part for part in parts)
    return "".join(map(text_or_empty, texts))


def _calls_of(message: JsonObject) -> Iterator[ToolCall]:
    for name in _CALLS:
        calls = message.get(name)
        if isinstance(calls, str):
            calls = json_in(calls) or calls
        every = calls if isinstance(calls, list) else [calls or None]
        yield from (call_of(call) for call in every if call is not None)


def _refuse_unknown(message: JsonObject, where: str) -> None:
    """Refuse a message with a text or a call in a field that is not understood."""
    for name in message.keys() - _KNOWN:
        value = message[name]
        texts = [text for text in iter_strings(value) if is_prose(text)]
        is_call = not _CALLING_WORDS.isdisjoint(plain_name(name).split("_"))
        is_about = role_named(name) == "verdict" or (isinstance(value, str) and is_label(name))
        if is_about or not (texts or is_call):
            continue
        own = "".join(iter_strings([message.get(each) for each in _CONTENT]))
        unread = next((text for text in texts if text.strip() not in own), "")
        if unread or (is_call and value and isinstance(value, (list, dict))):
            example = f" ({shown_text(unread)})" if unread else ""
            raise UnreadableRecordError(
                f"{where} has a field {name}{example} that could be what the policy did"
            )
