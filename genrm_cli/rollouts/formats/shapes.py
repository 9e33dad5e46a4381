"""The shapes that formats share: a prompt and a response, a conversation, several responses to one
prompt.
"""

from collections.abc import Sequence
from typing import Any

from genrm_cli.errors import SettingRef
from genrm_cli.json_types import JsonObject
from genrm_cli.rollouts.reading.account import json_in
from genrm_cli.rollouts.reading.chat_messages import (
    REASONING,
    items_of_messages,
    items_of_text,
    turns_of_messages,
    turns_of_prompt,
)
from genrm_cli.rollouts.reading.known_names import has_text, is_messages, part_named
from genrm_cli.rollouts.reading.message_parts import media_of_messages
from genrm_cli.rollouts.reading.reasoning import opened_at_end, strip_end_tokens
from genrm_cli.rollouts.reading.record_fields import is_truncated, rollout_of
from genrm_cli.rollouts.reading.response_items import items_of_response
from genrm_cli.rollouts.reading.templates import DecodedPrompt, read_prompt, split_output
from genrm_cli.rollouts.rollout import Item, Rollout, ToolResult, Turn, UnreadableRecordError

# One entry per response, if the list has the same length; all other fields belong to the line.
PARALLEL = (
    "rewards",
    "scores",
    "advantages",
    "ids",
    "response_ids",
    "rollout_ids",
    "finish_reasons",
    "stop_reasons",
    "lengths",
    "logprobs",
    "response_logprobs",
    "token_ids",
    "masks",
    "sampling_params",
    "seeds",
    "models",
    "reward_components",
    "predicted_answers",
    "labels",
    "is_correct",
    "metrics",
)


def read_completion(
    record: JsonObject, prompt: object, response: object, *, observes: bool = False, **known: Any
) -> Rollout:
    """Read a rollout from the values of its two fields; `known` overrides attributes of `Rollout`.

    `observes` says whether a decoded response may hold what the environment said between turns of
    the policy."""
    asked = asked_of(prompt)
    items = items_of_answer(asked, response, observes=observes or _holds_observations(record))
    return rollout_of(
        record, asked.turns, items, **{"prompt_media": media_of_messages(prompt)} | known
    )


def _holds_observations(record: JsonObject) -> bool:
    """Whether a loss mask of the response has a zero: tokens that the policy did not write
    (slime).
    """
    mask = record.get("loss_mask")
    return isinstance(mask, list) and 0 in mask


def asked_of(prompt: object) -> DecodedPrompt:
    """Return a prompt that is a text, decoded or not, or messages; one that is read already stays
    as it is.
    """
    if isinstance(prompt, DecodedPrompt):
        return prompt
    if isinstance(prompt, str):
        # Tables and lm-eval have messages as their JSON text.
        messages = json_in(prompt)
        if is_messages(messages) and messages[-1]["role"] != "assistant":
            return DecodedPrompt(turns_of_prompt(messages))
        return read_prompt(prompt)
    turns = turns_of_prompt(prompt)
    opened = (
        opened_at_end(turns[-1].text, is_template=True)
        if turns and turns[-1].role == "assistant"
        else ""
    )
    return DecodedPrompt(turns, opened=opened)


def items_of_answer(
    asked: DecodedPrompt, response: object, *, observes: bool = False
) -> tuple[Item, ...] | None:
    """Return the items of what the policy wrote after a prompt, the reasoning that the prompt
    opened included.
    """
    if isinstance(response, dict) and (name := _text_field(response)) is not None:
        response = response[name]
    if is_messages(response) and turns_of_messages(response[: len(asked.turns)]) == asked.turns:
        response = response[len(asked.turns) :]  # pipelines of transformers repeat the prompt
    if not isinstance(response, str):
        return items_of_response(response)
    if not observes or asked.template is None:
        return items_of_text(asked.opened + response)
    items: list[Item] = []
    for turn in split_output(asked.opened + response, asked.template):
        if turn.role == "assistant":
            items += items_of_text(turn.text)
        else:
            text = strip_end_tokens(turn.text)[0].strip("\n")
            items.append(ToolResult(text) if turn.role == "tool" else Turn(turn.role, text))
    return tuple(items)


def _text_field(response: JsonObject) -> str | None:
    """Return the field of an object that holds a response as text; None for objects of an API."""
    if any(
        isinstance(response.get(name), dict | list)
        for name in ("message", "choices", "content", "output")
    ):
        return None
    names = [
        name
        for name, value in response.items()
        if name != "message" and part_named(name) and has_text(value)
    ]
    if len(names) > 1:
        told = (
            f"{', '.join(names)} of a response could be part of the prompt or a response; name "
            "the fields with "
        )
        raise UnreadableRecordError(
            told, SettingRef("prompt_field"), " and ", SettingRef("response_field")
        )
    return names[0] if names and isinstance(response[names[0]], str) else None


def read_chat(record: JsonObject, messages: object, **known: Any) -> Rollout:
    """Read a conversation whose last assistant turn is judged, with the tool turns before it."""
    if not isinstance(messages, list):
        raise UnreadableRecordError("no messages, expected a list of messages")
    turns = turns_of_messages(messages)
    start, end = response_span(turns)
    return split_messages(record, messages[:end] or messages, turns[:start], **known)


def splits_conversation(prompt: object, response: object) -> bool:
    """Whether a response is a conversation that holds more of its prompt than `prompt` does."""
    if not is_messages(response):
        return False
    turns = turns_of_messages(response)
    asked = asked_of(prompt).turns
    return turns[0].role != "assistant" and turns[: len(asked)] != (asked or None)


def response_span(turns: Sequence[Turn]) -> tuple[int, int]:
    """Return the span of the last assistant turn with the tool turns before it; empty, at the end,
    if there is none, or the user has the last word.
    """
    end = len(turns)
    while end and turns[end - 1].role not in ("assistant", "user"):
        end -= 1
    if not end or turns[end - 1].role == "user":
        return len(turns), len(turns)
    start = end
    while start and turns[start - 1].role in ("assistant", "tool", REASONING):
        start -= 1
    return start, end


def read_trajectory(record: JsonObject, messages: list[Any], **known: Any) -> Rollout:
    """Read a conversation in which the policy's part begins with the first assistant turn, and ends
    with the last.
    """
    turns = turns_of_messages(messages)
    first = next(
        (number for number, turn in enumerate(turns) if turn.role in ("assistant", REASONING)),
        len(turns),
    )
    return split_messages(record, messages, turns[:first], **known)


def split_messages(
    record: JsonObject, messages: list[Any], opening: tuple[Turn, ...], **known: Any
) -> Rollout:
    """Read a conversation whose first messages, of the turns `opening`, are the prompt, and all
    others the response.
    """
    start = len(opening)
    known = {"prompt_media": media_of_messages(messages[:start])} | known
    return rollout_of(record, opening, items_of_messages(messages[start:]), **known)


def read_list(record: JsonObject, prompt: object, responses: list[object]) -> list[Rollout]:
    """Read a list of responses to one prompt as one group, in the order of the list.

    They have no rollout index: if `group_by` joins lines, their positions would look like
    duplicates."""
    if not responses:
        raise UnreadableRecordError("the list of responses is empty")
    reasons = record.get("finish_reasons", record.get("stop_reasons"))
    stops = (
        reasons
        if isinstance(reasons, list) and len(reasons) == len(responses)
        else [None] * len(responses)
    )
    asked = asked_of(prompt)
    media = media_of_messages(prompt)
    return [
        rollout_of(
            record,
            asked.turns,
            items_of_answer(asked, response),
            index=None,
            task=None,
            line_is_group=True,
            is_truncated=is_truncated({"finish_reason": stop})
            or (isinstance(response, dict) and is_truncated(response)),
            prompt_media=media,
        )
        for response, stop in zip(responses, stops, strict=True)
    ]


def read_choices(
    record: JsonObject, choices: list[Any], prompt: object, **known: Any
) -> list[Rollout]:
    """Read each choice of a completion as a rollout."""
    if not all(isinstance(choice, dict) for choice in choices):
        raise UnreadableRecordError("a choice is not an object, expected one with message or text")
    known = {"prompt_media": media_of_messages(prompt)} | known
    asked = asked_of(prompt)
    return [
        rollout_of(
            record,
            asked.turns,
            items_of_answer(asked, choice),
            is_truncated=is_truncated(choice),
            **known,
        )
        for choice in choices
    ]
