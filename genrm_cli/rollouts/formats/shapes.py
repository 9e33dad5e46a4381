"""The shapes of one rollout that formats share: a prompt and a response, and a conversation."""

from collections.abc import Callable, Sequence
from typing import Any

from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.chat_messages import items_of_messages, turns_of_messages, turns_of_prompt
from genrm_cli.rollouts.reading.message_parts import media_of_messages
from genrm_cli.rollouts.reading.record_fields import rollout_of
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.rollout import Item, Rollout, Turn, UnreadableRecordError


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
