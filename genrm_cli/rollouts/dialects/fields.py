"""What several dialects share: message contents, inline reasoning, the fields that name a task."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from genrm_cli.rollouts.record import Turn, UnreadableRecordError

Record = dict[str, Any]

_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
_ROLES = {"developer": "system", "function": "tool"}
# Looked up in this order; the first that is there names the task.
_TASK_FIELDS = (
    ("_ng_task_index", "task"),
    ("task_index", "task"),
    ("task_idx", "task"),  # NeMo Gym's aviary server
    ("prompt_id", "prompt_id"),
    ("example_id", "example"),
)
_INDEX_FIELDS = ("_ng_rollout_index", "rollout_index", "episode_index")


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
    raise UnreadableRecordError(f"message content is {_kind(content)}, expected a string or a list of parts")


def split_reasoning(text: str) -> tuple[str, str]:
    """Split `<think>reasoning</think>answer` into reasoning and answer.

    A chat template that pre-fills `<think>` leaves only the closing tag; a generation that never closed it has
    no answer. Text without these tags is all answer.
    """
    opened = text.lstrip().startswith(_THINK_OPEN)
    before, closing, after = text.partition(_THINK_CLOSE)
    if closing and (opened or _THINK_OPEN not in before):
        return before.lstrip().removeprefix(_THINK_OPEN).strip(), after.strip()
    if opened:
        return text.lstrip().removeprefix(_THINK_OPEN).strip(), ""
    return "", text


def turns_of_messages(messages: Sequence[object]) -> tuple[Turn, ...]:
    """Return chat messages as turns; an assistant's tool calls are written out after its text.

    Raises:
        UnreadableRecordError: an item is not a message.
    """
    return tuple(_turn_of_message(message) for message in messages)


def response_of_messages(messages: Sequence[object]) -> tuple[str | None, str]:
    """Return answer and reasoning of the policy's messages: the text of the assistant's, joined.

    Answer None: there is no assistant message among them.
    """
    answers: list[str] = []
    reasonings: list[str] = []
    spoke = False
    for message in messages:
        if not isinstance(message, Mapping):
            raise UnreadableRecordError(f"a message is {_kind(message)}, expected an object")
        if message.get("role") != "assistant":
            continue
        spoke = True
        inline, answer = split_reasoning(text_of_content(message.get("content")))
        apart = message.get("reasoning_content") or message.get("reasoning")
        reasonings.append(apart if isinstance(apart, str) else inline)
        answers.append(answer)
    return (join_texts(answers) if spoke else None), "".join(reasonings)


def join_texts(texts: Sequence[str]) -> str:
    """Join the texts that are not empty with a blank line between them."""
    return "\n\n".join(text for text in texts if text.strip())


def turns_of_prompt(prompt: object) -> tuple[Turn, ...]:
    """Return a prompt given as a string (one user turn) or as messages."""
    if prompt is None:
        return ()
    if isinstance(prompt, str):
        return (Turn("user", prompt),)
    if isinstance(prompt, list):
        return turns_of_messages(prompt)
    raise UnreadableRecordError(f"the prompt is {_kind(prompt)}, expected a string or a list of messages")


def task_of(record: Record) -> str | None:
    """Return the line's own name for its group: task index, else prompt id, else example or scenario id."""
    for name, kind in _TASK_FIELDS:
        if (value := _identifier(record.get(name))) is not None:
            return f"{kind}:{value}"
    scenario = record.get("scenario")
    if isinstance(scenario, Mapping) and (value := _identifier(scenario.get("scenario_id"))) is not None:
        return f"scenario:{value}"
    return None


def index_of(record: Record) -> int | None:
    """Return the rollout's number within its group; None if the line has none."""
    for name in _INDEX_FIELDS:
        value = record.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62:
            return value
    return None


def principle_of(record: Record) -> str | None:
    """Return the line's principle; several become a numbered list."""
    principle = record.get("principle")
    if isinstance(principle, list):
        lines = [f"{place}. {text}" for place, text in enumerate(principle, 1) if isinstance(text, str)]
        return "\n".join(lines) or None
    return principle if isinstance(principle, str) and principle.strip() else None


def call_text(name: object, arguments: object) -> str:
    """Write out a tool call as one line; its arguments are JSON text or the object itself."""
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return f"[calls {name}({arguments if isinstance(arguments, str) else ''})]"


def _turn_of_message(message: object) -> Turn:
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(role, str):
        raise UnreadableRecordError("a message has no role; expected objects with role and content")
    texts = [text_of_content(message.get("content"))]
    calls = message.get("tool_calls")
    texts += [_text_of_call(call) for call in calls] if isinstance(calls, list) else []
    return Turn(_ROLES.get(role, role), join_texts(texts))


def _text_of_call(call: object) -> str:
    """Write out one of a message's tool calls: in OpenAI's shape, flat, or as JSON text (verifiers)."""
    if isinstance(call, str):
        # Not parsed: JSON within JSON can bring lone surrogates and any depth past the checks of the line.
        return f"[calls {call}]"
    function = call.get("function", call) if isinstance(call, Mapping) else None
    return call_text(function.get("name"), function.get("arguments")) if isinstance(function, Mapping) else ""


def _text_of_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise UnreadableRecordError(f"a content part is {_kind(part)}, expected an object")
    for name in ("text", "refusal"):
        if isinstance(part.get(name), str):
            return str(part[name])
    return f"[{part.get('type', 'part')}]"


def _identifier(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
