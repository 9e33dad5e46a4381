"""The shapes that formats share: a prompt and a response, a conversation, several responses to one prompt."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.chat_messages import (
    items_of_messages,
    items_of_text,
    turns_of_messages,
    turns_of_prompt,
)
from genrm_cli.rollouts.reading.decoded import turns_of_template
from genrm_cli.rollouts.reading.message_parts import media_of_messages
from genrm_cli.rollouts.reading.record_fields import is_truncated, rollout_of
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Item, Rollout, ToolResult, Turn, UnreadableRecordError

_TURN = re.compile(r"\n(?P<role>user|tool|assistant)\n(?!\Z)")
# One entry per response, if the list has the same length; all other fields belong to the line.
PARALLEL = (
    *("rewards", "scores", "advantages", "ids", "response_ids", "rollout_ids", "finish_reasons", "stop_reasons"),
    *("lengths", "logprobs", "response_logprobs", "token_ids", "masks", "sampling_params", "seeds", "models"),
    *("reward_components", "predicted_answers", "labels", "is_correct", "metrics"),
)


def read_completion(
    record: JsonObject,
    prompt: object,
    response: object,
    *,
    turns: Callable[[Any], tuple[Turn, ...]] = turns_of_prompt,
    items: Callable[[Any], tuple[Item, ...] | None] = items_of_response,
    **known: Any,
) -> Rollout:
    """Read a rollout from the values of its two fields.

    Args:
        record: the line, or the part of it that belongs to the rollout.
        prompt: the prompt.
        response: the response.
        turns: reads the prompt.
        items: reads the response.
        **known: attributes of `Rollout` that the format overrides.
    """
    return rollout_of(record, turns(prompt), items(response), **{"prompt_media": media_of_messages(prompt)} | known)


def read_chat(record: JsonObject, messages: object, **known: Any) -> Rollout:
    """Read a conversation whose last assistant turn is judged, with the tool turns before it.

    Raises:
        UnreadableRecordError: it is not a list of messages.
    """
    if not isinstance(messages, list):
        raise UnreadableRecordError("no messages, expected a list of messages")
    turns = turns_of_messages(messages)
    start, end = _response_span(turns)
    return split_messages(record, messages[:end], turns[:start], **known)


def _response_span(turns: Sequence[Turn]) -> tuple[int, int]:
    """Return the span of the judged response: the last assistant turn with the tool turns before it.

    Without an assistant turn the span is empty and the whole conversation is the prompt.
    """
    end = len(turns)
    while end and turns[end - 1].role != "assistant":
        end -= 1
    if not end:
        return len(turns), len(turns)
    start = end
    while start and turns[start - 1].role in ("assistant", "tool"):
        start -= 1
    return start, end


def read_trajectory(record: JsonObject, messages: list[Any], **known: Any) -> Rollout:
    """Read a conversation in which the policy's part begins with the first assistant turn, and ends with the last."""
    turns = turns_of_messages(messages)
    first = next((position for position, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
    return split_messages(record, messages, turns[:first], **known)


def split_messages(record: JsonObject, messages: list[Any], opening: tuple[Turn, ...], **known: Any) -> Rollout:
    """Read a conversation whose first messages are the prompt, and all others the response.

    Args:
        record: the line, or the part of it that belongs to the rollout.
        messages: the conversation.
        opening: the turns of the prompt, one for each of its messages.
        **known: attributes of `Rollout` that the format overrides.
    """
    start = len(opening)
    known = {"prompt_media": media_of_messages(messages[:start])} | known
    return rollout_of(record, opening, items_of_messages(messages[start:]), **known)


def read_list(record: JsonObject, prompt: object, responses: list[object]) -> list[Rollout]:
    """Read a list of responses to one prompt as one group, in the order of the list.

    They have no rollout index: if `group_by` joins lines, their positions would look like duplicates.
    """
    if not responses:
        raise UnreadableRecordError("the list of responses is empty")
    reasons = record.get("finish_reasons", record.get("stop_reasons"))
    stops = reasons if isinstance(reasons, list) and len(reasons) == len(responses) else [None] * len(responses)
    turns, media = turns_of_prompt(prompt), media_of_messages(prompt)
    return [
        rollout_of(
            record,
            turns,
            items_of_response(response),
            index=None,
            task=None,
            line_is_group=True,
            is_truncated=is_truncated({"finish_reason": stop})
            or (isinstance(response, dict) and is_truncated(response)),
            prompt_media=media,
        )
        for response, stop in zip(responses, stops, strict=True)
    ]


def read_choices(record: JsonObject, choices: list[Any], prompt: object, **known: Any) -> list[Rollout]:
    """Read each choice of a completion as a rollout.

    Raises:
        UnreadableRecordError: a choice is not an object with a message or a text.
    """
    if not all(isinstance(choice, dict) for choice in choices):
        raise UnreadableRecordError("a choice is not an object, expected one with message or text")
    known = known | {"prompt_media": media_of_messages(prompt)}
    turns = turns_of_prompt(prompt)
    return [
        rollout_of(record, turns, items_of_response(choice), is_truncated=is_truncated(choice), **known)
        for choice in choices
    ]


def turns_of_decoded(prompt: object) -> tuple[Turn, ...]:
    """Return a decoded prompt as turns.

    Raises:
        UnreadableRecordError: it is not a text.
    """
    if not isinstance(prompt, str):
        raise UnreadableRecordError("the prompt is not a string, expected the decoded prompt")
    return turns_of_template(prompt)


def items_of_decoded(output: object) -> tuple[Item, ...] | None:
    """Return a decoded output as items. It has several turns if a role word is followed by `assistant`.

    Raises:
        UnreadableRecordError: it is neither a text nor null.
    """
    if output is None:
        return None
    if not isinstance(output, str):
        raise UnreadableRecordError("the response is not a string, expected the decoded response")
    marks = list(_TURN.finditer(output))
    if not any(mark["role"] == "assistant" for mark in marks) or marks[0]["role"] == "assistant":
        return items_of_text(output)
    starts = [0, *(mark.end() for mark in marks)]
    ends = [*(mark.start() for mark in marks), len(output)]
    roles = ["assistant", *(mark["role"] for mark in marks)]
    items: list[Item] = []
    for role, start, end in zip(roles, starts, ends, strict=True):
        text = output[start:end]
        if role == "assistant":
            items += items_of_text(text)
        else:
            items.append(ToolResult(text) if role == "tool" else Turn("user", text))
    return tuple(items)


def items_of_decoded_or_not(output: object) -> tuple[Item, ...] | None:
    """Return a text as a decoded output, and anything else as a response in its shape."""
    return items_of_decoded(output) if isinstance(output, str) else items_of_response(output)
