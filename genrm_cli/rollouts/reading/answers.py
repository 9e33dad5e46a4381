"""Read a prompt or a response in any of its shapes: text, decoded or not, messages, or what was
sent to an API and came back.

APIs are those of OpenAI (also vLLM, LiteLLM), Anthropic, Gemini and Bedrock, with the frame of HTTP
that batches put around a body, or without."""

import marshal
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from genrm_cli.errors import SettingRef
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.known_names import part_named
from genrm_cli.rollouts.reading.messages import (
    items_of_messages,
    items_of_text,
    media_of_messages,
    read_messages,
    turns_of_messages,
    turns_of_prompt,
)
from genrm_cli.rollouts.reading.templates import (
    KEPT_PROMPTS,
    MOST_KEPT_CHARS,
    DecodedPrompt,
    read_prompt,
    split_output,
)
from genrm_cli.rollouts.reading.values import (
    has_text,
    is_messages,
    is_objects,
    iter_texts,
    json_in,
    kind_of,
    messages_in,
    object_or_empty,
)
from genrm_cli.rollouts.rollout import Item, Items, ToolResult, Turn, UnreadableRecordError
from genrm_cli.texts.reasoning import opened_at_end, strip_end_tokens

# The field of a request with the prompt, and those where its system prompt may be.
_ASKED = (
    ("messages", "system"),
    ("contents", "systemInstruction", "system_instruction"),
    ("input", "instructions"),
    ("prompt",),
    ("inputText",),
)
FAILED = ("errored", "canceled", "expired")
"""The types of the results of an Anthropic batch that hold no reply."""
# A text of an API comes with one of these.
_CHOICE_NAMES = frozenset(("index", "finish_reason", "logprobs"))
# Names of any text, of a turn or a part as well.
_ANY_TEXT = frozenset(("text", "message"))
_SHOWN_CHOICES = 4  # in a message
_HOLDERS = ("message", "content", "output")  # where a reply has the message as an object


def is_request(value: object) -> bool:
    """Whether a value is what was sent to an API."""
    if not isinstance(value, dict):
        return False  # most values that are asked about
    body = object_or_empty(value.get("body", value))
    asked = (body.get(names[0]) for names in _ASKED)
    return any(isinstance(each, (str, list, dict)) and each for each in asked)


def is_reply(value: object) -> bool:
    """Whether a value is what came back from an API."""
    if not isinstance(value, dict):
        return False
    if (
        "body" in value
        or value.get("type") in ("succeeded", *FAILED)
        or alternatives_of(value) != [value]
    ):
        return True
    return any(isinstance(value.get(name), (dict, list)) for name in _HOLDERS)


def is_api_choices(value: object) -> bool:
    """Whether a value is the list of choices of an API's completion; other `choices` are those of a
    question.
    """
    return is_objects(value) and all(
        "message" in each or ("text" in each and not _CHOICE_NAMES.isdisjoint(each))
        for each in value
    )


def refuse_unknown_objects(path: str, values: Iterable[object]) -> None:
    """Refuse objects as a list of responses if one does not say that it is a response: it may be a
    turn or a part of one.
    """
    for each in values:
        if not isinstance(each, dict) or not each or _says_response(each):
            continue
        named = [
            SettingRef("response_field", f"{path}.{name}") for name in each if has_text(each[name])
        ]
        choices = [part for ref in named[:_SHOWN_CHOICES] for part in (" or ", ref)][1:]
        raise UnreadableRecordError(
            f"{path} is a list of objects with {', '.join(each)}, which could be responses, or the "
            "turns or parts of one; name the text of each response with ",
            *(choices or [SettingRef("response_field")]),
        )


def _says_response(value: JsonObject) -> bool:
    """Whether an object is a message, a reply or a choice of an API, or names a text as a
    response.
    """
    if is_messages([value]) or is_reply(value) or is_api_choices([value]):
        return True
    return any(
        name not in _ANY_TEXT and part_named(name) == "response" and has_text(text)
        for name, text in value.items()
    )


def alternatives_of(response: object) -> list[object]:
    """Return the alternatives that a reply of an API holds; any other response is the only one."""
    reply = object_or_empty(response)
    if isinstance(reply.get("body"), dict):
        return alternatives_of(reply["body"])
    candidates = reply.get("candidates")
    choices = reply.get("choices", candidates)
    if isinstance(choices, list) and (choices == candidates or is_api_choices(choices)):
        return choices or [None]
    return [response]


def call_in(asked: object, response: object) -> tuple[object, object]:
    """Return a prompt and its response; those that are the JSON texts of a request and its reply,
    as logs of calls have in two columns, are read. A lone JSON text is what the policy wrote.
    """
    if isinstance(asked, str) and isinstance(response, str):
        request, reply = json_in(asked), json_in(response)
        if is_request(request) and is_reply(reply):
            return request, reply
    return asked, response


def asked_of(prompt: object) -> DecodedPrompt:
    """Return a prompt that is a text, decoded or not, messages, or a request; one that is read
    already stays as it is.
    """
    if isinstance(prompt, DecodedPrompt):
        return prompt
    if isinstance(prompt, dict):
        is_message = is_messages([prompt]) and not is_request(prompt)
        prompt = [prompt] if is_message else _asked_in(prompt.get("body", prompt))
    if isinstance(prompt, str):
        messages = messages_in(prompt)
        if not is_messages(messages) or messages[-1].get("role") == "assistant":
            return read_prompt(prompt)
        prompt = messages
    if not isinstance(prompt, list):
        return DecodedPrompt(turns_of_prompt(prompt))
    return asked_in_messages(prompt)


def asked_in_messages(messages: list[object]) -> DecodedPrompt:
    """Return a prompt in messages of a line."""
    packed = marshal.dumps(messages, 2)
    return (_read_known if len(packed) <= MOST_KEPT_CHARS else _read_messages)(packed)


def _read_messages(packed: bytes) -> DecodedPrompt:
    messages = read_messages(marshal.loads(packed))  # noqa: S302  (packed above)
    turns = turns_of_messages(messages)
    ends_in_policy = bool(turns) and turns[-1].role == "assistant"
    opened = opened_at_end(turns[-1].text, is_template=True) if ends_in_policy else ""
    return DecodedPrompt(turns, opened=opened, media=media_of_messages(messages))


# The lines of a task have one prompt, and are often neighbours.
_read_known = lru_cache(maxsize=KEPT_PROMPTS)(_read_messages)


def messages_of_request(asked: object, system: object = None) -> list[object]:
    """Return what a request asks as messages, its system prompt first; who sent a text or a message
    without a role is the user.
    """
    if asked is not None and not isinstance(asked, (str, list, dict)):
        raise UnreadableRecordError(
            f"a request asks {kind_of(asked)}, neither a string nor a list of items"
        )
    messages: list[object] = [{"role": "system", "content": system}] if system else []
    for each in flatten_items([] if asked is None else [asked]):
        said = {"content": each} if isinstance(each, str) else each
        if isinstance(said, dict) and {"role", "type"}.isdisjoint(said):
            said = {"role": "user", **said}
        messages.append(said)
    return messages


def _asked_in(request: object) -> object:
    """Return the text or the messages of a request; refuse any other field that could be a part of
    the prompt.
    """
    if not isinstance(request, dict):
        raise UnreadableRecordError(f"the request is {kind_of(request)}, expected an object")
    names = next((names for names in _ASKED if request.get(names[0])), ("prompt",))
    whole = "\0".join(text for name in names for text in iter_texts(request.get(name)))
    beside = {name: value for name, value in request.items() if name not in names}
    others = {**object_or_empty(request.get("config")), **beside}
    left = [
        name
        for name, value in others.items()
        if part_named(name) == "prompt" or name == "previous_response_id"
        if any(text not in whole for text in iter_texts(value))
    ]
    if left:
        raise _unclear(f"{', '.join(left)} of a request beside {names[0]} could be part of it")
    asked = request.get(names[0])
    if not asked and has_text(request):
        raise _unclear(f"the prompt is an object with {', '.join(request)}, and none is known")
    if names in _ASKED[3:]:
        return asked
    return messages_of_request(asked, next(filter(None, map(request.get, names[1:])), None))


def items_of_answer(
    asked: DecodedPrompt, response: object, *, observes: bool = False
) -> Items | None:
    """Return the items of what the policy wrote after a prompt, the reasoning that the prompt
    opened included.

    `observes` says whether a decoded response may hold what the environment said between turns of
    the policy."""
    if is_messages(response) and turns_of_messages(response[: len(asked.turns)]) == asked.turns:
        response = response[len(asked.turns) :]  # pipelines of transformers repeat the prompt
    if isinstance(response, dict) and isinstance(text := _text_in(response), str):
        response = text
    if not isinstance(response, str):
        return items_of_response(response)
    if not observes or asked.template is None:
        return items_of_text(asked.opened + response)
    items: list[Item] = []
    for turn in split_output(asked.opened + response, asked.template):
        text = strip_end_tokens(turn.text)[0].strip("\n")
        if turn.role == "assistant":
            items += items_of_text(turn.text)
        else:
            items.append(ToolResult(text) if turn.role == "tool" else Turn(turn.role, text))
    return tuple(items)


def items_of_response(response: object) -> Items | None:
    """Return the items of a response in any of its shapes; None if it is null or contains no turn
    of the policy.
    """
    if is_empty(response):
        return None
    if isinstance(response, str):
        return items_of_text(response)
    if isinstance(response, list):
        return items_of_messages(flatten_items(response))
    if not isinstance(response, dict):
        raise UnreadableRecordError(f"the response is {kind_of(response)}, neither text nor object")
    choices = alternatives_of(response)
    if len(choices) > 1:
        raise UnreadableRecordError(
            "the response holds several choices; pass each as a response of its own, or name them "
            "with ",
            SettingRef("response_field"),
            " if they are in a file",
        )
    if choices != [response]:
        return items_of_response(choices[0])
    if "role" in response:
        return items_of_messages([response])
    if isinstance(response.get("output"), (str, list)):
        return items_of_output(response)
    for name in _HOLDERS:
        if isinstance(inner := response.get(name), dict):
            is_message = name != "output"
            return items_of_response({"role": "assistant", **inner} if is_message else inner)
    if not {"content", "tool_calls", "parts"}.isdisjoint(response):
        return items_of_messages([{"role": "assistant", **response}])
    if (text := _text_in(response)) is None:
        raise UnreadableRecordError(
            "the response is neither text, nor messages, nor a Responses API object"
        )
    return items_of_response(text)


def _text_in(response: JsonObject) -> object:
    """Return the text of an object that holds a response; None for objects of an API, and without
    one.
    """
    if any(isinstance(response.get(name), (dict, list)) for name in ("choices", *_HOLDERS)):
        return None
    names = [
        name
        for name, value in response.items()
        if name != "message" and (part_named(name) or name == "outputText") and has_text(value)
    ]
    if len(names) > 1:
        raise _unclear(f"{', '.join(names)} of a response could be part of the prompt or of it")
    text = response[names[0]] if names else None
    return text if isinstance(text, str) else None


def _unclear(told: str) -> UnreadableRecordError:
    names = SettingRef("prompt_field"), " and ", SettingRef("response_field")
    return UnreadableRecordError(told, "; name the fields with ", *names)


def is_empty(response: object) -> bool:
    """Whether a response is null, an empty object, or an object of the Responses API with an output
    of null.
    """
    is_unanswered = object_or_empty(response).get("output", "") is None
    return response is None or response == {} or is_unanswered


def items_of_output(response: JsonObject) -> Items:
    """Return the items of a Responses API object's `output`, nested lists flattened.

    Some environments store a list of growing histories, one per step, each beginning with the
    previous one: then only the last one counts."""
    output = response.get("output")
    if isinstance(output, str):
        output = [{"role": "assistant", "content": output}]
    if not isinstance(output, list):
        raise UnreadableRecordError("response.output is not a list of items")
    steps = [item for item in output if isinstance(item, list)]
    if steps and len(steps) == len(output):
        grows = all(later[: len(step)] == step for step, later in pairwise(steps))
        output = steps[-1] if grows else output
    read = read_messages(flatten_items(output))
    return tuple([item for message in read for item in message.iter_items()])


def flatten_items(items: Iterable[object]) -> Iterator[object]:
    """Yield the items of nested lists."""
    for item in items:
        if isinstance(item, list):
            yield from flatten_items(item)
        else:
            yield item
