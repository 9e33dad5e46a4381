"""Read a response in any of its shapes; the items of a Responses API object."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from genrm_cli.errors import SettingRef
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.account import is_prose, iter_strings
from genrm_cli.rollouts.reading.chat_messages import (
    items_of_assistant,
    items_of_messages,
    items_of_text,
    iter_items_of_message,
    turns_of_messages,
)
from genrm_cli.rollouts.reading.known_names import is_api_choices
from genrm_cli.rollouts.reading.message_parts import (
    arguments_of,
    media_of_messages,
    parts_of,
    result_text,
    text_of_content,
    text_or_empty,
)
from genrm_cli.rollouts.rollout import (
    CallingTurn,
    Item,
    Media,
    Reasoning,
    ToolCall,
    ToolResult,
    Turn,
    UnreadableRecordError,
    call_text,
)

# Where the server puts the results of the calls that it executes itself.
_RESULT_FIELDS = ("output", "outputs", "results")


def items_of_response(response: object) -> tuple[Item, ...] | None:
    """Return the items of a response in any of its shapes; None if it is null or contains no turn
    of the policy.

    Shapes: a string, a list of messages, one message, a Responses API object, a chat completion or
    its choice."""
    if is_empty(response):
        return None
    if isinstance(response, str):
        return items_of_text(response)
    if isinstance(response, list):
        return items_of_messages(response)
    if isinstance(response, dict):
        if "output" in response:
            return items_of_output(output_items(response))
        if response.get("choices") and is_api_choices(choices := response["choices"]):
            if len(choices) > 1:
                raise UnreadableRecordError(
                    "the response holds several choices; pass each as a response of its own, or "
                    "name them with ",
                    SettingRef("response_field"),
                    " if they are in a file",
                )
            return items_of_response(choices[0])
        if isinstance(response.get("message"), dict):
            return items_of_messages([{"role": "assistant", **response["message"]}])
        if {"role", "content", "tool_calls"} & response.keys():
            return items_of_messages([{"role": "assistant", **response}])
        if isinstance(response.get("text"), str):
            return items_of_text(response["text"])
    raise UnreadableRecordError(
        "the response is neither text, nor messages, nor a Responses API object"
    )


def items_of_output(items: Iterable[JsonObject]) -> tuple[Item, ...]:
    """Return a response from the items of a Responses API object."""
    items = list(items)
    names = {
        text_or_empty(item.get("call_id")): text_or_empty(item.get("name"))
        for item in items
        if text_or_empty(item.get("name"))
    }
    names.pop("", None)
    return tuple(each for item in items for each in _items_of_output_item(item, names))


def turns_of_item(item: JsonObject) -> tuple[Turn, ...]:
    """Return an item of a Responses API input as turns of a prompt; reasoning is left out."""
    kind = item.get("type")
    if kind == "reasoning":
        return ()
    if isinstance(kind, str) and kind.endswith("_call"):
        call = _call_of_item(item)
        return (CallingTurn("assistant", call_text(call.name, call.arguments), calls=(call,)),)
    if isinstance(kind, str) and kind.endswith("_call_output"):
        return (Turn("tool", text_of_content(item.get("output"))),)
    return turns_of_messages([item])


def is_empty(response: object) -> bool:
    """Whether a response is null, an empty object, or an object of the Responses API with an output
    of null.
    """
    return (
        response is None
        or response == {}
        or (isinstance(response, dict) and response.get("output", "") is None)
    )


def output_items(response: object) -> list[JsonObject]:
    """Return the items of a Responses API object's `output`, nested lists flattened.

    Some environments store a list of growing histories, one per step, each beginning with the
    previous one: then only the last one counts."""
    output = response.get("output") if isinstance(response, dict) else None
    if isinstance(output, str):
        return [{"type": "message", "role": "assistant", "content": output}]
    if not isinstance(output, list):
        raise UnreadableRecordError("response.output is not a list of items")
    steps = [item for item in output if isinstance(item, list)]
    if steps and len(steps) == len(output):
        grows = all(later[: len(step)] == step for step, later in pairwise(steps))
        output = steps[-1] if grows else output
    return list(flatten_items(output))


def flatten_items(items: Iterable[object]) -> Iterator[JsonObject]:
    """Yield the items of nested lists."""
    for item in items:
        if isinstance(item, list):
            yield from flatten_items(item)
        elif isinstance(item, dict):
            yield item
        else:
            raise UnreadableRecordError("an item of input or output is not an object")


def _thoughts(content: object) -> str:
    parts = parts_of(content)
    return "".join(
        part.text if isinstance(part, Reasoning) else part
        for part in parts
        if isinstance(part, Reasoning | str)
    )


def _call_of_item(item: JsonObject) -> ToolCall:
    kind = text_or_empty(item.get("type"))
    name = text_or_empty(item.get("name")) or kind.removesuffix("_call")
    return ToolCall(name, arguments_of(item, *_RESULT_FIELDS))


def _items_of_output_item(item: JsonObject, tools: Mapping[str, str]) -> Iterator[Item]:
    kind = text_or_empty(item.get("type"))
    role = item.get("role")
    if kind == "reasoning":
        # Never both: some servers fill both with the same text. NeMo Gym measures the summary.
        if text := _thoughts(item.get("summary")) or _thoughts(item.get("content")):
            yield Reasoning(text)
    elif role == "assistant" or (role is None and kind == "message"):
        yield from items_of_assistant(
            {"content": item.get("content"), "tool_calls": item.get("tool_calls")}
        )
    elif isinstance(role, str):
        yield from iter_items_of_message(item)
    elif kind == "image_generation_call":
        result = item.get("result")
        yield Media(
            "image",
            f"data:image/png;base64,{result}" if isinstance(result, str) and result else None,
        )
    elif kind.endswith("_call_output"):
        name = text_or_empty(item.get("name")) or tools.get(text_or_empty(item.get("call_id")), "")
        yield ToolResult(text_of_content(item.get("output")), name)
        yield from media_of_messages(item)
    elif kind.endswith(("_call", "_request")):
        call = _call_of_item(item)
        yield call
        results = {name: item[name] for name in _RESULT_FIELDS if item.get(name)}
        if results:  # executed by the server
            yield ToolResult(result_text(results), call.name)
    elif kind:
        if any(map(is_prose, iter_strings(item))) and not kind.startswith("mcp_list"):
            raise UnreadableRecordError(f"an item of type {kind!r} holds text, unknown of whom")
        yield Turn("environment", f"[{kind}]")
    else:
        raise UnreadableRecordError("an item of the output has neither type nor role")
